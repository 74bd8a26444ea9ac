"""Which files become which pages, with their links set right.

A page says where things are as they lie in the repository, so its links work there too. Here they are turned: a link
to a file that is a page leads to that page, one to any other file of the repository loses its link, and one to
nothing is a mistake.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from tools.site import commands, releases, schema, seeds, words
from tools.site.diagrams import drawn
from tools.site.places import DOCS, ROOT

#: Pages whose text is outside of docs/, besides all chapters and decisions.
ELSEWHERE = {
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "protocol/spec/README.md": "protocol/index.md",
    "protocol/spec/states.toml": "protocol/index.md",
    "protocol/decisions": "protocol/decisions/index.md",
    "protocol/decisions/README.md": "protocol/decisions/index.md",
    "protocol/CHANGELOG.md": "protocol/changes.md",
    "protocol/schema/v1": "protocol/schema/index.md",
    "CHANGELOG.md": "changelog.md",
    "conformance/README.md": "conformance.md",
    "docs/seeds.toml": "first-documents.md",
}

_LINK = re.compile(r"(?<!!)\[([^\]\[]*(?:\[[^\]]*\][^\]\[]*)*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: Mentions of clauses: in bold, or as the last cell of a row.
_CLAUSE = re.compile(r"\*\*([A-Z]{3}-\d+)\*\*|(?<=\| )([A-Z]{3}-\d+)(?= \|$)")


class BrokenLink(Exception):
    """A link of a page leads nowhere."""


def gather(target: Path) -> None:
    """All sources of the site, in one folder."""
    left_out = ("*.md", "*.toml", "conf.py", "static", "search", "__pycache__")
    shutil.copytree(DOCS, target, ignore=shutil.ignore_patterns(*left_out))
    searched = words.table(DOCS / "search" / "words.toml")
    places = {name: page for name, page in site_map().items() if name.endswith(".md") and (ROOT / name).is_file()}
    for name, page in places.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        if name.startswith("protocol/spec/"):
            text = chapter(text)
        if name == "protocol/decisions/README.md":
            text += contents(sorted(path.stem for path in (ROOT / "protocol" / "decisions").glob("[0-9]*.md")))
        if name == "protocol/spec/README.md":
            chapters = sorted(path.stem for path in (ROOT / "protocol" / "spec").glob("[0-9]*.md"))
            text += contents([*chapters, "schema/index", "decisions/index", "changes"])
        if page in searched:
            text = words.indexed(text, searched.pop(page))
        write(target / page, linked(text, name, page))
    if searched:
        raise words.BadWords(f"docs/search/words.toml names pages that are not there: {', '.join(searched)}")
    made = {
        **commands.pages(),
        **schema.pages(ROOT / "protocol" / "schema" / "v1"),
        "changelog.md": releases.page(ROOT),
        "first-documents.md": seeds.page(DOCS / "seeds.toml"),
    }
    for page, text in made.items():
        write(target / page, text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def contents(names: list[str]) -> str:
    """What the sidebar shows below a page."""
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


def site_map() -> dict[str, str]:
    """Files of the repository, and their pages."""
    found = {f"docs/{path.relative_to(DOCS).as_posix()}": path.relative_to(DOCS).as_posix()
             for path in DOCS.rglob("*.md")}  # fmt: skip
    for folder, place in (("protocol/spec", "protocol"), ("protocol/decisions", "protocol/decisions")):
        found |= {f"{folder}/{path.name}": f"{place}/{path.name}" for path in (ROOT / folder).glob("[0-9]*.md")}
    found |= {f"protocol/schema/v1/{path.name}": f"protocol/schema/{path.stem}.md"
              for path in (ROOT / "protocol" / "schema" / "v1").glob("*.capnp")}  # fmt: skip
    return found | ELSEWHERE


# ---------------------------------------------------------------- links


def linked(text: str, name: str, page: str) -> str:
    """The text of the repository's file `name` with the links that `page` needs; blocks of code are left alone."""
    places = site_map()
    return outside_of_blocks(text, lambda part: _LINK.sub(lambda match: _turned(match, name, page, places), part))


def _turned(match: re.Match[str], name: str, page: str, places: dict[str, str]) -> str:
    label, target = match.groups()
    if re.match(r"[a-z]+:|#|\{", target):
        return match.group()
    path, hash_sign, anchor = target.partition("#")
    found = os.path.normpath(str(PurePosixPath(name).parent / path))
    if found in places:
        relative = os.path.relpath(places[found], str(PurePosixPath(page).parent))
        return f"[{label}]({relative}{hash_sign}{anchor})"
    # The pages of commands exist on the site only, and are linked to by where they will be.
    if found.removeprefix("docs/") in commands.names():
        return match.group()
    if (ROOT / found).exists():
        return label
    raise BrokenLink(f"{name} links to {target}, which is not there")


def outside_of_blocks(text: str, change: Callable[[str], str]) -> str:
    return "".join(part if is_block else change(part) for is_block, part in split_blocks(text))


def split_blocks(text: str) -> Iterator[tuple[bool, str]]:
    """Pieces of a page: is it a block of code, and its text."""
    at = 0
    for match in _FENCE.finditer(text):
        yield False, text[at : match.start()]
        yield True, match.group()
        at = match.end()
    yield False, text[at:]


# ---------------------------------------------------------------- chapters of the specification


def chapter(text: str) -> str:
    """Each clause can be linked to, each mention of one leads to it, and state machines are drawn."""
    text = re.sub(r"^```mermaid\n(.*?)^```$", lambda match: drawn(match.group(1)), text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^```hex \w+$", "```text", text, flags=re.MULTILINE)
    return outside_of_blocks(text, _with_clauses)


def _with_clauses(text: str) -> str:
    lines = []
    for line in text.split("\n"):
        own = re.match(r"\*\*([A-Z]{3}-\d+)\*\* ", line)
        if own:
            lines += [f"({own.group(1).lower()})=", line[: own.end()] + _cited(line[own.end() :])]
        else:
            lines.append(_cited(line))
    return "\n".join(lines)


def _cited(text: str) -> str:
    """Only what is a clause: the README also shows how one would look."""

    def link(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return f"[{match[0]}](#{name.lower()})" if name in clauses() else match[0]

    return _CLAUSE.sub(link, text)


@cache
def clauses() -> frozenset[str]:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "protocol" / "spec").glob("[0-9]*.md")]
    return frozenset(re.findall(r"^\*\*([A-Z]{3}-\d+)\*\* ", "\n".join(texts), re.MULTILINE))
