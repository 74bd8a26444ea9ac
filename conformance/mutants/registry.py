"""What a mutant is, and the list of all. A mutant is a wrong line or two in a role of ours, bound to a clause.

They are written as small diffs in the text files beside this module:

    roles scheduler storage              for which roles the mutants below are; or PATH::TEST of ours, that has to fail
    module scaler_protocol.session.x     in which module
    unseen sequences take no time        why generated sequences do not find the mutants below; `unseen` alone: they do

    HSK-3 any version will do            the clause and a name; `HSK-3 @storage …` for this role only
    - if hello.version_min > 1:          whole lines as they stand there, with their indentation among themselves
    + if False:                          and what is put instead, at the same indentation; several such pairs may follow
    ~ sequences speak in turn            unseen, for this mutant alone

One whose place has been rewritten says so in `tests/test_mutants.py` instead of changing nothing.
"""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Edit:
    module: str
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    clause: str
    role: str
    edits: tuple[Edit, ...]
    #: why generated sequences are not expected to find it; empty: they are
    unseen: str = ""

    @property
    def id(self) -> str:
        return f"{self.role}/{self.clause}/{self.name.replace(' ', '-')}"

    @property
    def test(self) -> str:
        """The test of ours that has to fail; empty: cases show the clause."""
        return self.role if "::" in self.role else ""

    @property
    def modules(self) -> frozenset[str]:
        return frozenset(edit.module for edit in self.edits)


@cache
def all_mutants() -> dict[str, Mutant]:
    return _read(FOLDER)


@cache
def legal_variants() -> dict[str, Mutant]:
    """They are written in the same way, and nobody may notice them."""
    return _read(FOLDER / "legal")


def _read(folder: Path) -> dict[str, Mutant]:
    found: dict[str, Mutant] = {}
    for path in sorted(folder.glob("*.txt")):
        for mutant in parse(path.read_text(encoding="utf-8"), path.name):
            assert mutant.id not in found, f"two mutants are called {mutant.id}"
            found[mutant.id] = mutant
    return found


@dataclass
class _Section:
    """What the words at the beginning of a line have settled for the mutants that follow."""

    roles: tuple[str, ...] = ()
    module: str = ""
    unseen: str = ""


@dataclass
class _Open:
    """The mutant that is being read."""

    title: str
    section: _Section
    unseen: str
    edits: list[tuple[list[str], list[str]]] = field(default_factory=list)


def parse(text: str, name: str) -> Iterator[Mutant]:
    section, current = _Section(), None
    for number, line in enumerate(text.splitlines(), 1):
        sign, rest = line[:1], line[2:]
        if not line or sign == "#":
            continue
        if sign in "-+~":
            assert current is not None, f"{name}:{number}: a line of a diff before any mutant"
            _continue(current, sign, rest)
            continue
        if current is not None:
            yield from _made(current)
            current = None
        word, _, value = line.partition(" ")
        if word == "roles":
            section = _Section(tuple(value.split()))
        elif word == "module":
            section = _Section(section.roles, value)
        elif word == "unseen":
            section = _Section(section.roles, section.module, value)
        else:
            current = _Open(line, section, section.unseen)
    if current is not None:
        yield from _made(current)


def _continue(mutant: _Open, sign: str, line: str) -> None:
    if sign == "~":
        mutant.unseen = "" if line == "seen" else line
    elif sign == "+":
        mutant.edits[-1][1].append(line)
    else:
        if not mutant.edits or mutant.edits[-1][1]:
            mutant.edits.append(([], []))
        mutant.edits[-1][0].append(line)


def _made(mutant: _Open) -> Iterator[Mutant]:
    clause, _, name = mutant.title.partition(" ")
    roles = mutant.section.roles
    if name.startswith("@"):
        only, _, name = name[1:].partition(" ")
        roles = (only,)
    edits = tuple(Edit(mutant.section.module, _block(old), _block(new)) for old, new in mutant.edits)
    for role in roles:
        yield Mutant(name, clause, role, edits, mutant.unseen)


def _block(lines: list[str]) -> tuple[str, ...]:
    return tuple(textwrap.dedent("\n".join(lines)).splitlines())


def mutated(source: str, edits: tuple[Edit, ...]) -> str:
    """Raises ValueError for an edit that does not fit in exactly one place."""
    lines = source.splitlines()
    for edit in edits:
        size = len(edit.old)
        begins = (at for at, line in enumerate(lines) if line.strip() == edit.old[0].strip())
        places = [at for at in begins if _block(lines[at : at + size]) == edit.old]
        if len(places) != 1:
            raise ValueError(f"{edit.module} has {len(places)} places with {edit.old[0]!r}; a mutant needs exactly one")
        at = places[0]
        margin = " " * min(len(line) - len(line.lstrip()) for line in lines[at : at + size] if line)
        lines[at : at + size] = [margin + line for line in edit.new]
    return "\n".join(lines) + "\n"


def source_of(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None, f"there is no module {module}"
    return Path(spec.origin)
