"""What people type into the search of the site: docs/search/words.toml, as entries of the pages' index."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class BadWords(Exception):
    """The table of search words is wrong."""


def table(path: Path) -> dict[str, list[str]]:
    """Returns the words of each page."""
    return {page: [str(word) for word in words]
            for page, words in tomllib.loads(path.read_text(encoding="utf-8")).items()}  # fmt: skip


def indexed(text: str, words: list[str]) -> str:
    """Returns a page with its words below the title, where only the search sees them."""
    for word in words:
        if word != word.lower() or "," in word:
            raise BadWords(f"search words are in lower case and without commas: {word!r}")
    title, _, rest = text.partition("\n")
    entries = ", ".join(f"! {word}" for word in words)
    return f"{title}\n\n```{{index}} {entries}\n```\n{rest}"
