"""docs/seeds.toml: what was asked for, and the tests that hold it."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.architecture.sources import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = ROOT / "docs" / "seeds.toml"


@dataclass(frozen=True)
class Row:
    id: str
    shows: str
    tests: tuple[str, ...] = field(default=())
    missing: str = ""

    @property
    def is_held(self) -> bool:
        return bool(self.tests) and not self.missing


def rows(path: Path = TABLE) -> list[Row]:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Row(name, one.pop("shows"), tuple(one.pop("tests", ())), **one) for name, one in table.items()]


def mistakes(found: list[Row]) -> list[str]:
    """What is wrong with the table itself, in sentences."""
    return [
        *(f"{row.id}: names no test, and not what is missing" for row in found if not (row.tests or row.missing)),
        *(f"{row.id}: what is missing? {row.missing!r} is no reason" for row in found if 0 < len(row.missing) < 10),
        *(f"{row.id}: there is no {name}" for row in found for name in row.tests if not exists(name)),
    ]


def exists(name: str) -> bool:
    """`tests/x/test_y.py::test_z` or `…::TestClass::test_z`, whatever its parameters."""
    path, *inner = re.sub(r"\[.*\]$", "", name).split("::")
    return "::".join(inner) in _tests(path)


@cache
def _tests(path: str) -> frozenset[str]:
    if not (ROOT / path).is_file():
        return frozenset()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = {node.name for node in tree.body if isinstance(node, functions)}
    for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        names |= {f"{kind.name}::{node.name}" for node in kind.body if isinstance(node, functions)}
    return frozenset(name for name in names if name.rpartition("::")[2].startswith("test_"))
