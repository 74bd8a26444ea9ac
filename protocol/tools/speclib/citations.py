"""What the specification has to agree with: citations anywhere, error codes, messages of the envelope."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from speclib.clauses import PREFIXES, Clause
from speclib.problems import Problem

SUFFIXES = (".py", ".capnp", ".md")
_SKIPPED = frozenset({"dist", "build", "node_modules", "__pycache__"})
_CITATION = re.compile(rf"\b({'|'.join(p for prefixes in PREFIXES.values() for p in prefixes)})-(\d+)\b")
_CODE_ROW = re.compile(r"^\| (\d+) \| ([A-Z_]+) \|", re.MULTILINE)
_MEMBER = re.compile(r"^    (\w+) @\d+ :[\w.]+;\s*# ([^,:\n]+)", re.MULTILINE)
_MESSAGE = re.compile(r"^### Message `(\w+)`(?:: (.+))?$")


def source_files(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        yield from (Path(folder) / name for name in sorted(files) if name.endswith(SUFFIXES))


def check_citations(root: Path, clauses: Iterable[Clause]) -> Iterator[Problem]:
    """A clause that has fallen is cited no more, except in prose and in the frozen copies of what was released."""
    known = {clause.id: clause for clause in clauses}
    for path in source_files(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for match in _CITATION.finditer(line):
                name = match[0]
                if name not in known:
                    yield Problem(str(path.relative_to(root)), number, f"{name} is cited and does not exist")
                elif known[name].is_retired and path.suffix != ".md" and "released" not in path.parts:
                    yield Problem(str(path.relative_to(root)), number, f"{name} is cited and retired")


def error_codes(codes: Path) -> dict[str, int]:
    """The error codes of `codes.py`: its constants from OK on."""
    found: dict[str, int] = {}
    for node in ast.parse(codes.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if (found or name == "OK") and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int):
                found[name] = node.value.value
    return found


def check_codes(codes: Path, chapter: Path) -> Iterator[Problem]:
    in_code = error_codes(codes)
    rows = [(name, int(number)) for number, name in _CODE_ROW.findall(chapter.read_text(encoding="utf-8"))]
    in_table = dict(rows)
    for name, count in Counter(name for name, _ in rows).items():
        if count > 1:
            yield Problem(chapter.name, 0, f"{name} has {count} rows in the table")
    for name in in_code.keys() - in_table.keys():
        yield Problem(chapter.name, 0, f"{name} ({in_code[name]}) is in {codes.name} and has no row in the table")
    for name in in_table.keys() - in_code.keys():
        yield Problem(chapter.name, 0, f"{name} ({in_table[name]}) has a row in the table and is not in {codes.name}")
    for name in in_code.keys() & in_table.keys():
        if in_code[name] != in_table[name]:
            yield Problem(chapter.name, 0, f"{name} is {in_table[name]} here and {in_code[name]} in {codes.name}")


def envelope_members(schema: Path) -> dict[str, str]:
    """Each member of the envelope's union with who sends it to whom, as its comment says."""
    union = schema.read_text(encoding="utf-8").partition("message :union {")[2]
    return {name: direction.strip() for name, direction in _MEMBER.findall(union)}


def check_messages(schema: Path, spec: Path) -> Iterator[Problem]:
    """Every message has one heading in one chapter, which names sender and receiver as the schema does."""
    members = envelope_members(schema)
    places: dict[str, str] = {}
    for path in sorted(spec.glob("*.md")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            match = _MESSAGE.match(line)
            if match is None:
                continue
            name, direction = match.groups()
            if name not in members:
                yield Problem(path.name, number, f"{name} is no message of the envelope")
            elif direction != members[name]:
                text = f"{name}: the schema says {members[name]!r}, this heading {direction!r}"
                yield Problem(path.name, number, text)
            if name in places:
                yield Problem(path.name, number, f"{name} is described already, in {places[name]}")
            places.setdefault(name, f"{path.name}:{number}")
    for name in members.keys() - places.keys():
        text = f"{name} is described in no chapter: a heading '### Message `{name}`: {members[name]}' is wanted"
        yield Problem(schema.name, 0, text)
