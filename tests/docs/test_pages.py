"""Command lines and configuration files on the pages are such that the commands accept them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.site.commands import parsers_of, scripts

import scaler
from scaler.client.submitting.surface import Submitting
from tests.architecture.sources import ROOT
from tests.docs.table import tomllib

PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]

SECTIONS = {
    "object_storage_server": "scaler_object_storage_server",
    "scheduler": "scaler_scheduler",
    "cluster": "scaler_cluster",
}


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for text in re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
            yield page.relative_to(ROOT).as_posix(), text


LINES = sorted({(page, line[2:]) for page, text in blocks("console") for line in text.splitlines()
                if line.startswith("$ scaler_")})  # fmt: skip


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page}: {line}" for page, line in LINES])
def test_a_command_line_is_accepted(page: str, line: str) -> None:
    name, *arguments = shlex.split(line)
    assert name in scripts(), f"{page} shows a command that there is not"
    parsers = {parser.prog.partition(" ")[2]: parser for parser in parsers_of(scripts()[name])}
    parser = parsers[""] if "" in parsers else parsers[arguments.pop(0)]
    parser.parse_args(arguments)


def test_command_lines_are_where_they_are_checked() -> None:
    """In `console` blocks, behind a prompt: a block of another kind may name a command that there is not."""
    elsewhere = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in PAGES
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
        for line in text.splitlines()
        if (language in ("", "text", "sh", "bash", "shell") and re.match(r"(\$ )?scaler_\w+ ", line))
        or (language == "console" and line.startswith("scaler_"))
    ]
    assert not elsewhere


@pytest.mark.parametrize(("page", "text"), [*blocks("toml")])
def test_a_configuration_file_is_accepted(page: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    sections = tomllib.loads(text)
    assert sections and set(sections) <= set(SECTIONS), page
    for section in sections:
        (parser,) = parsers_of(scripts()[SECTIONS[section]])
        # An address that `scaler config.toml` fills in is not in the file.
        given = [] if "address" in sections[section] else ["tcp://127.0.0.1:2345"]
        parser.parse_settings([*given, "--config", str(path)], {})  # type: ignore[attr-defined]


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in scaler.__all__ if name != "__version__" and f":: scaler.{name}\n" not in page]
    assert not missing
    # A name that another library's client has is there, and says at once what it is called here.
    public = {name for name in vars(scaler.Client) if not name.startswith("_") and hasattr(scaler.Client, name)}
    own = [kind for kind in scaler.Client.__mro__ if kind.__module__.startswith("scaler.")]
    assert Submitting in own
    public |= {name for kind in own[1:] for name in vars(kind) if not name.startswith("_")}
    listed = page.split(":members:", 1)[1].split(":inherited-members:")[0].replace(",", " ").split()
    assert public - {"asynchronous"} <= set(listed)


LOOKED_FOR = (
    "quickstart", "guide/map", "guide/joblib", "guide/cancel", "guide/errors", "guide/gpus", "guide/code",
    "guide/notebooks", "operations/deploying", "operations/top",
)  # fmt: skip
"""What people who know another engine look for first: each is one link away from both front pages."""


@pytest.mark.parametrize(("front", "prefix"), [("README.md", "docs/"), ("docs/index.md", "")])
@pytest.mark.parametrize("page", LOOKED_FOR)
def test_a_front_page_links_to_what_people_look_for(front: str, prefix: str, page: str) -> None:
    text = (ROOT / front).read_text(encoding="utf-8")
    assert f"]({prefix}{page}.md" in text and (ROOT / "docs" / f"{page}.md").exists()


def test_the_figures_of_the_front_page_are_those_of_the_measured_table() -> None:
    """`make bench ARGS=--readme` writes the table anew."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text[text.index("<!-- bench: begin -->") : text.index("<!-- bench: end -->")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    measured = dict(zip(rows[0], next(row for row in rows if row[0].startswith("map of no-ops")), strict=True))
    times = {peer: round(float(measured[f"× {peer}"])) for peer in ("pool", "ray", "dask")}
    front = " ".join((ROOT / "docs" / "index.md").read_text(encoding="utf-8").split())
    assert f"`map` runs {measured['scaler']} tasks a second that do nothing: {times['pool']} times" in front
    assert f"{times['ray']} times as many as Ray and {times['dask']} times as many as Dask" in front


BEGINNINGS = frozenset((
    "Call", "Decide", "Find", "Install", "Keep", "Let", "Look", "Read", "Replace", "Rules", "Run", "See", "Send", "Set",
    "Share", "Stop", "Submit", "Use", "Watch", "Write",
))  # fmt: skip
"""What a reader does with a page. One that begins in another way speaks to the reader in its first paragraph."""


@pytest.mark.parametrize("page", PAGES[2:], ids=[page.relative_to(ROOT).as_posix() for page in PAGES[2:]])
def test_a_page_begins_with_what_the_reader_can_do(page: Path) -> None:
    title, lead, *_ = page.read_text(encoding="utf-8").split("\n\n")
    assert title.startswith("# ") and "\n" not in title
    assert re.match(r"(?!```)[A-Z`\[]", lead), f"{page.name} begins with something else than a sentence: {lead[:40]!r}"
    assert lead.split()[0] in BEGINNINGS or re.search(r"\byou(r|rself)?\b", lead, re.IGNORECASE), lead


def test_a_page_that_begins_with_code_is_found(tmp_path: Path) -> None:
    for lead in ("## Install", "```python\nimport scaler\n```", "| a | b |", "**Workers.** One for each core."):
        page = tmp_path / "page.md"
        page.write_text(f"# Title\n\n{lead}\n", encoding="utf-8")
        with pytest.raises(AssertionError, match="begins with"):
            test_a_page_begins_with_what_the_reader_can_do(page)
