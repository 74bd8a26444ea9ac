"""Files of about 300 lines and functions of about 20 read well. Past 500 or 60 there is a seam; find it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import relative, syntax, tracked

FILE_LINES = 500
FUNCTION_LINES = 60

#: Each with its reason. The list is meant to stay empty.
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}


@pytest.fixture(scope="module")
def sources() -> list[Path]:
    return tracked(".py")


def test_no_file_is_too_long(sources: list[Path]) -> None:
    counted = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources}
    long = {name: count for name, count in counted.items() if count > FILE_LINES and name not in LONG_FILES}
    assert not long, f"files of more than {FILE_LINES} lines: {long}"


def test_no_function_is_too_long(sources: list[Path]) -> None:
    long = {
        f"{relative(path)}::{name}": count
        for path in sources
        for name, count in functions(syntax(path))
        if count > FUNCTION_LINES and f"{relative(path)}::{name}" not in LONG_FUNCTIONS
    }
    assert not long, f"functions of more than {FUNCTION_LINES} lines: {long}"


def test_the_allowances_are_still_needed(sources: list[Path]) -> None:
    names = {relative(path) for path in sources}
    stale = [name for name in [*LONG_FILES, *(key.partition("::")[0] for key in LONG_FUNCTIONS)] if name not in names]
    assert not stale


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Lines from `def` to the end, without the docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            yield node.name, (node.end_lineno or node.lineno) - body[0].lineno + 2
