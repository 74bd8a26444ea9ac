"""Every program of the documentation runs, and prints what its page says it does."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.support.documents import matches
from tests.support.processes import Stage

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))


def absent(path: Path) -> list[str]:
    """Libraries that the program imports and this environment has not: some do not run on the oldest Python."""
    imported = re.findall(r"^(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [name for name in imported if importlib.util.find_spec(name) is None]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("examples")) as stage:
        yield stage


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_prints_what_its_page_says(stage: Stage, path: Path) -> None:
    if missing := absent(path):
        pytest.skip(f"not installed: {', '.join(missing)}")
    command = stage.start_file(path)
    assert command.wait(90) == 0, command.text
    printed = "\n".join(command.lines)
    expected = path.with_suffix(".txt").read_text(encoding="utf-8")
    assert matches(printed, expected), f"printed:\n{command.text}\nexpected:\n{expected}"


def test_every_example_is_on_a_page_with_its_output() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    shown = set(re.findall(r"examples/(\w+\.(?:py|txt))", pages))
    there = {path.name for path in (ROOT / "docs" / "examples").iterdir() if path.is_file()}
    assert there == shown
