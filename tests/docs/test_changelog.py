"""The fragments of the next release can be put together, and the documents name the areas there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.changelog import AREAS, BadFragment, area_of, section, text_of

from tests.architecture.sources import ROOT


def test_the_fragments_make_a_section() -> None:
    text = section("1.0", "today", sorted((ROOT / "changelog.d").glob("*.md")))
    assert text.startswith("## 1.0 (today)")


def test_contributors_are_told_the_areas() -> None:
    *most, last = AREAS
    assert f"`AREA` is {', '.join(most)} or {last}" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_a_fragment_that_says_too_much_or_belongs_nowhere(tmp_path: Path) -> None:
    long = tmp_path / "client-long.md"
    long.write_text("one\ntwo\nthree\nfour\n", encoding="utf-8")
    with pytest.raises(BadFragment):
        text_of(long)
    with pytest.raises(BadFragment):
        area_of(tmp_path / "nowhere-else.md")
