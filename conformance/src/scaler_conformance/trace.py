"""The trace: clause, cases, and the text that the cases were written for.

`data/trace.lock` has the fingerprint of each clause's text with which its cases were last looked at;
`data/exceptions.toml` the duties that have no case in a role, each with its reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .case import Case
from .clauses import Clause
from .resources import data, toml

LOCK, EXCEPTIONS = "trace.lock", "exceptions.toml"
SHOWN = frozenset({"wire", "vector", "timing"})


@dataclass(frozen=True, slots=True)
class Excused:
    """A duty that no case of this role shows."""

    clause: str
    roles: tuple[str, ...]
    reason: str


def read_lock() -> dict[str, str]:
    lines = data(LOCK).read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines if line and not line.startswith("#"))
    return dict(pairs)


def write_lock(fingerprints: Mapping[str, str]) -> None:
    head = "# The text of each clause when its cases were last looked at: `scaler-conformance trace accept`.\n"
    lines = "".join(f"{clause} {fingerprint}\n" for clause, fingerprint in fingerprints.items())
    data(LOCK).write_text(head + lines, encoding="utf-8", newline="\n")


def read_exceptions() -> list[Excused]:
    entries = toml.loads(data(EXCEPTIONS).read_text(encoding="utf-8")).get("exception", [])
    return [Excused(clause, tuple(entry["roles"]), entry["reason"]) for entry in entries for clause in entry["clauses"]]


def shown(cases: Iterable[Case]) -> dict[tuple[str, str], list[Case]]:
    """The cases of each clause and role."""
    found: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        for clause in case.clauses:
            for role in case.roles:
                found[clause, role].append(case)
    return found


def check(
    clauses: Mapping[str, Clause],
    cases: Sequence[Case],
    lock: Mapping[str, str],
    exceptions: Sequence[Excused],
) -> Iterator[str]:
    """Each problem is one line that says what to do."""
    by_clause = shown(cases)
    roles = {role for case in cases for role in case.roles}
    excused = {(entry.clause, role) for entry in exceptions for role in entry.roles}
    for clause in clauses.values():
        if clause.is_duty and clause.testability in SHOWN:
            for role in clause.roles:
                if role in roles and (clause.id, role) not in by_clause and (clause.id, role) not in excused:
                    yield f"{clause.id} has no case for a {role}: write one, or say in {EXCEPTIONS} why there is none"
    for clause_id in sorted({name for name, _ in by_clause}):
        if lock.get(clause_id) != clauses[clause_id].fingerprint:
            what = "has changed" if clause_id in lock else "is new here"
            command = f"scaler-conformance trace accept {clause_id}"
            yield f"the text of {clause_id} {what}: look at its cases, then `{command}`"
    for clause_id, role in sorted(excused):
        if clause_id not in clauses:
            yield f"{EXCEPTIONS} names {clause_id}, and there is no such clause"
        elif (clause_id, role) in by_clause:
            yield f"{EXCEPTIONS} excuses {clause_id} for a {role}, and it has cases: remove the entry"
    yield from (f"{LOCK} has {name}, and there is no such clause" for name in lock if name not in clauses)


def accepted(
    clauses: Mapping[str, Clause], cases: Sequence[Case], lock: Mapping[str, str], names: Iterable[str]
) -> dict[str, str]:
    """The lock with the present text of these clauses."""
    wanted = set(names)
    return {
        clause: clauses[clause].fingerprint if clause in wanted else lock[clause]
        for clause in clauses
        if any(clause in case.clauses for case in cases) and (clause in wanted or clause in lock)
    }
