"""Clauses that our code names in an Error on the wire: a peer's author looks them up, so they must be there.

What is read are calls: a literal that is given to a parameter, or a field, of the name `clause`. Which parameters those
are is found in the definitions of all sources first; a call is matched to them by name and by how much it passes.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from speclib.clauses import Clause
from speclib.problems import Problem

PARAMETER = "clause"
_FOLDERS = ("protocol/src", "packages")


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, or the fields of a class, with a parameter `clause`; `self` is not counted."""

    position: int
    required_count: int
    count: int

    def accepts(self, call: ast.Call) -> bool:
        return self.required_count <= len(call.args) + len(call.keywords) <= self.count


def check_wire_clauses(root: Path, clauses: Iterable[Clause]) -> Iterator[Problem]:
    known = {clause.id for clause in clauses if not clause.is_retired}
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in _sources(root)}
    definitions = _definitions(trees.values())
    for path, tree in trees.items():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            given = list(_literals(call, definitions))
            if given and not any(text in known or text == "" for text in given):
                text = f"{given[0]!r} is sent as the clause of an Error and is none"
                yield Problem(str(path.relative_to(root)), call.lineno, text)


def _sources(root: Path) -> Iterator[Path]:
    for folder in _FOLDERS:
        yield from (path for path in sorted((root / folder).rglob("*.py")) if "tests" not in path.parts)


def _definitions(trees: Iterable[ast.Module]) -> Mapping[str, list[Definition]]:
    found: dict[str, list[Definition]] = defaultdict(list)
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names, optional_count = _parameters(node)
                _add(found, node.name, names, optional_count)
            elif isinstance(node, ast.ClassDef):
                own = [
                    item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                ]
                fields = [item.target.id for item in own if isinstance(item.target, ast.Name)]
                _add(found, node.name, fields, sum(item.value is not None for item in own))
                for item in node.body:
                    if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                        names, optional_count = _parameters(item)
                        _add(found, node.name, names, optional_count)
    return found


def _parameters(function: ast.FunctionDef) -> tuple[list[str], int]:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return names[1:] if names[:1] == ["self"] else names, len(function.args.defaults)


def _add(found: dict[str, list[Definition]], name: str, parameters: list[str], optional_count: int) -> None:
    if PARAMETER in parameters:
        count = len(parameters)
        found[name].append(Definition(parameters.index(PARAMETER), count - optional_count, count))


def _literals(call: ast.Call, definitions: Mapping[str, list[Definition]]) -> Iterator[str]:
    """What this call may give as a clause; several when several definitions fit."""
    called = call.func
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    fitting = [definition for definition in definitions.get(name, ()) if definition.accepts(call)]
    if not fitting:
        return
    values = [keyword.value for keyword in call.keywords if keyword.arg == PARAMETER]
    values += [call.args[definition.position] for definition in fitting if definition.position < len(call.args)]
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
