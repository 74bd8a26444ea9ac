"""Every program of the documentation runs, and prints what its page says it does."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, imports
from tests.docs.table import tomllib
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


def test_the_fixtures_for_tests_work(stage: Stage, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "guide" / "testing.md").read_text(encoding="utf-8")
    fixtures, tests = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "conftest.py").write_text(fixtures, encoding="utf-8")
    (tmp_path / "test_pricing.py").write_text(tests, encoding="utf-8")
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", "/dev/null")
    command = stage.start("pytest", *options, str(tmp_path))
    assert command.wait(90) == 0, command.text
    assert "2 passed" in command.text


def test_the_extra_has_what_the_examples_import() -> None:
    settings = tomllib.loads((ROOT / "packages" / "scaler-client" / "hatch.toml").read_text(encoding="utf-8"))
    extra = settings["metadata"]["hooks"]["custom"]["optional-dependencies"]["examples"]
    names = {re.match(r"[\w-]+", entry).group() for entry in extra}  # type: ignore[union-attr]
    with_the_client = {"scaler", "cloudpickle"}
    imported = {found.top for path in EXAMPLES for found in imports(path)} - sys.stdlib_module_names - with_the_client
    modules = {"apache-hamilton": "hamilton", "scikit-learn": "sklearn"}
    assert {modules.get(name, name) for name in names} == imported


def test_no_other_extra_installs_the_examples_libraries() -> None:
    assert "examples" not in (ROOT / "hatch.toml").read_text(encoding="utf-8")


def test_every_example_is_on_a_page_with_its_output() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    shown = set(re.findall(r"examples/(\w+\.(?:py|txt))", pages))
    there = {path.name for path in (ROOT / "docs" / "examples").iterdir() if path.is_file()}
    assert there == shown
