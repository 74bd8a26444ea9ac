"""`clauses.lock`: a fingerprint of each clause, so that no obligation changes unnoticed.

Whoever edits a clause says `accept ID`, after a look at the cases and the code that cite it. A number that was ever
locked stays taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from speclib.clauses import Clause
from speclib.problems import Problem

NAME = "clauses.lock"
_HEADER = "# Fingerprints of the clauses, written by `protocol/tools/spec.py accept ID …`. Not edited by hand.\n"


def read(spec: Path) -> dict[str, str]:
    path = spec / NAME
    if not path.exists():
        return {}
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {parts[0]: parts[1] for parts in lines if len(parts) == 2}


def write(spec: Path, entries: Mapping[str, str]) -> None:
    ordered = sorted(entries, key=lambda name: (name[:3], int(name[4:])))
    (spec / NAME).write_text(_HEADER + "".join(f"{name} {entries[name]}\n" for name in ordered), encoding="utf-8")


def check(clauses: Iterable[Clause], locked: Mapping[str, str]) -> Iterator[Problem]:
    present = {clause.id: clause for clause in clauses}
    for name, clause in present.items():
        before = locked.get(name)
        if before is None:
            yield Problem(clause.path, clause.line, f"{name} is new: `accept {name}` when its wording is meant")
        elif before == "retired" and not clause.is_retired:
            yield Problem(clause.path, clause.line, f"{name} was retired: a number is never used again")
        elif before != clause.fingerprint:
            text = f"{name} reads differently than when it was accepted: look at what cites it, then `accept {name}`"
            yield Problem(clause.path, clause.line, text)
    for name in locked.keys() - present.keys():
        yield Problem(NAME, 0, f"{name} has vanished: keep it as `**{name}** (retired in …: reason)`")


def accept(spec: Path, clauses: Iterable[Clause], names: Iterable[str] | None) -> list[str]:
    """Record the present wording of these clauses, or of all. Returns the names that cannot be accepted."""
    present = {clause.id: clause for clause in clauses}
    locked = read(spec)
    wanted = list(present) if names is None else list(names)
    refused = [name for name in wanted if name not in present]
    refused += [name for name in wanted if locked.get(name) == "retired" and not present[name].is_retired]
    if not refused:
        write(spec, locked | {name: present[name].fingerprint for name in wanted})
    return refused
