"""The documentation site: its parts, and the whole of it built."""

from __future__ import annotations

import html
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from scaler import monitoring, telemetry
from tests.architecture.sources import ROOT
from tests.support.browsers import NEEDS_BROWSER

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")

from tools.site import commands, diagrams, pages, words


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does it, where a warning is a failure."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "tools.site", str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=220
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def test_no_page_fetches_anything_from_elsewhere(site: Path) -> None:
    fetching = re.compile(r"""(?:<(?:script|img|iframe|source)\b[^>]*\bsrc|<link\b[^>]*\bhref)=["'](?:https?:)?//""")
    for path in site.rglob("*.html"):
        assert not fetching.search(path.read_text(encoding="utf-8")), path
    for path in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", path.read_text(encoding="utf-8")), path


def test_every_option_is_on_its_commands_page(site: Path) -> None:
    for name, entry_point in commands.scripts().items():
        text = html.unescape((site / "commands" / f"{name}.html").read_text(encoding="utf-8"))
        for parser in commands.parsers_of(entry_point):
            shown = [action for action in parser._actions if action.option_strings and action.help != "==SUPPRESS=="]
            for action in shown:
                assert any(option in text for option in action.option_strings), f"{name} {action.option_strings}"


def test_a_clause_can_be_linked_to_and_is(site: Path) -> None:
    text = (site / "protocol" / "03-session.html").read_text(encoding="utf-8")
    assert 'id="ses-9"' in text and 'href="04-liveness.html#liv-7"' in text


@pytest.mark.parametrize("module", [monitoring, telemetry], ids=lambda module: str(module.__name__))
def test_the_reference_has_an_entry_for_each_name(site: Path, module: ModuleType) -> None:
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    names = [f"{module.__name__}.{name}" for name in module.__all__]
    assert [name for name in names if f'id="{name}"' not in text] == []


def test_the_reference_has_the_client_of_a_local_cluster(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    assert 'id="scaler.cluster.local.LocalClient.cluster"' in text


@NEEDS_BROWSER
def test_the_commands_of_a_block_can_be_copied(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.add_init_script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.goto((site / "operations" / "top.html").as_uri())
    block = page.locator("div.highlight-console").first
    block.hover()
    block.get_by_role("button", name="Copy").click()
    expected = "pip install 'scaler-client[top]'\nscaler_top tcp://127.0.0.1:2345"
    assert page.evaluate("window.copied") == expected
    assert block.get_by_role("button", name="Copied").count() == 1


def test_examples_are_shown_as_they_are(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "guide" / "nested.html").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "examples" / "nested.py").read_text(encoding="utf-8").strip() in html.unescape(text)


@pytest.mark.parametrize(
    ("name", "page", "written", "turned"),
    [
        ("docs/index.md", "index.md", "[a](../SECURITY.md)", "[a](security.md)"),
        ("docs/guide/map.md", "guide/map.md", "[a](../../protocol/spec/README.md#x)", "[a](../protocol/index.md#x)"),
        ("SECURITY.md", "security.md", "[a](protocol/spec/15-limits.md)", "[a](protocol/15-limits.md)"),
        ("docs/index.md", "index.md", "[a](../pyproject.toml)", "a"),
        ("docs/index.md", "index.md", "[a](https://example.org) [b](#c)", "[a](https://example.org) [b](#c)"),
        ("docs/index.md", "index.md", "```\n[a](nowhere.md)\n```", "```\n[a](nowhere.md)\n```"),
    ],
)
def test_links_are_turned(name: str, page: str, written: str, turned: str) -> None:
    assert pages.linked(written, name, page) == turned


def test_a_link_into_nothing_is_a_mistake() -> None:
    with pytest.raises(pages.BrokenLink, match=r"docs/index\.md links to nowhere\.md"):
        pages.linked("[a](nowhere.md)", "docs/index.md", "index.md")


def test_a_diagram_shows_every_state_once() -> None:
    drawn = diagrams.drawn(
        "stateDiagram-v2\n    [*] --> one\n    one --> two_b\n    two_b --> one\n    two_b --> [*]\n"
    )
    assert re.findall(r">([\w ()-]+)</text>", drawn) == ["one (start)", "two-b (end)"]
    assert drawn.count("marker-end") == 2


@pytest.mark.parametrize(
    ("home", "linked"), [("https://example.com/scaler", []), ("https://scaler.invalid/x", ["https://scaler.invalid/x"])]
)
def test_the_site_links_to_the_repository_if_there_is_one(
    home: str, linked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.hatch_metadata.HOME", home)
    settings = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    assert [icon["url"] for icon in settings["html_theme_options"]["footer_icons"]] == linked


def test_a_call_has_its_parameters_and_errors(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    entry = text[text.index('id="scaler.Client.submit_verbose"') :].partition('id="scaler.local"')[0]
    words = html.unescape(re.sub(r"<[^>]+>", "", entry))
    assert "priority (int) – a whole number" in words and "ValueError – an option is out of its range" in words
    assert 'id="scaler.ScalerFuture.task_id"' in text and 'id="scaler.ScalerFuture.__init__"' not in text


SEARCHES = {
    "install": "quickstart", "timeout": "guide/cancel", "gpu": "guide/gpus", "pandas": "guide/libraries",
    "scikit-learn": "guide/joblib", "jupyter": "guide/notebooks", "kubernetes": "operations/containers",
    "as_completed": "guide/map reference/api", "pickle": "guide/futures guide/code guide/serializer",
    "priority": "guide/capabilities", "dashboard": "operations/ui", "shutdown": "operations/deploying reference/api",
    "submit": "guide/futures reference/api", "submit_verbose": "reference/api", "progress bar": "guide/map",
    "logging": "guide/debugging operations/deploying", "slurm": "operations/managers", "scatter": "guide/objects",
    "systemd": "operations/deploying", "large array": "guide/objects", "ModuleNotFoundError": "guide/code",
    "map": "guide/map", "cancel task": "guide/cancel", "retries": "guide/errors", "key file": "operations/security",
    "memory limit": "operations/sizing", "worker": "operations/deploying operations/managers",
    "environment variables": "operations/configuration", "tutorial": "tutorial",
}  # fmt: skip
"""What newcomers typed into the search, and the page, or pages, that they wanted."""


def found(page: Page, query: str) -> list[str]:
    """Returns the pages that the site's search finds, best first: what its own script makes of the built index."""
    rows = page.evaluate("(query) => Search._performSearch(...Search._parseQuery(query)).map(row => row[0])", query)
    return list(dict.fromkeys(reversed(rows)))


@pytest.fixture(scope="module")
def search(site: Path, browser: Browser) -> Page:
    page = browser.new_page()
    page.goto((site / "search.html").as_uri())
    page.wait_for_function("Search.hasIndex()")
    return page


@NEEDS_BROWSER
@pytest.mark.parametrize(("query", "wanted"), SEARCHES.items())
def test_the_search_finds_the_page_that_a_newcomer_wants(search: Page, query: str, wanted: str) -> None:
    pages = found(search, query)
    assert set(pages[:3]) & set(wanted.split()), pages[:8]
    assert not pages[0].startswith(("protocol/", "changelog")), pages[:8]


UNLISTED = {
    "retry failed tasks": "guide/errors guide/best-practices guide/recipes", "traceback": "guide/debugging",
    "requirements.txt": "guide/code", "send_object": "guide/objects reference/api", "heartbeat": "operations/failures",
    "lambda": "guide/best-practices guide/recipes guide/calls", "storage": "operations/sizing",
    "capability": "guide/capabilities",
}  # fmt: skip
"""Searches without a word of docs/search/words.toml: for these, a page's text and its rank decide."""


@NEEDS_BROWSER
@pytest.mark.parametrize(("query", "wanted"), UNLISTED.items())
def test_the_search_finds_a_guide_by_its_text_alone(search: Page, query: str, wanted: str) -> None:
    assert set(found(search, query)[:3]) & set(wanted.split()), found(search, query)[:8]


def test_search_words_are_those_of_a_page() -> None:
    assert words.indexed("# Sizing\n\nText\n", ["memory limit", "oom"]) == (
        "# Sizing\n\n```{index} ! memory limit, ! oom\n```\n\nText\n"
    )
    with pytest.raises(words.BadWords, match="lower case and without commas: 'OOM'"):
        words.indexed("# Sizing\n", ["OOM"])


@NEEDS_BROWSER
@pytest.mark.parametrize("query", ["session", "object", "lease", "scheduler", "result", "message", "error", "client"])
def test_pages_for_users_come_before_the_protocol(search: Page, query: str) -> None:
    pages = found(search, query)
    others = ("protocol", "changelog", "conformance", "contributing", "code-words", "first-documents")
    ranks = [page.startswith(others) for page in pages]
    assert ranks == sorted(ranks), pages
