"""State machines as data, and the tables and diagrams that the chapters show of them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from speclib.problems import Problem

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

NAME = "states.toml"
_PLACE = re.compile(r"(<!-- states:([\w-]+) -->\n)(.*?)(<!-- /states -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Transition:
    source: str
    event: str
    target: str
    clause: str
    sends: str


@dataclass(frozen=True, slots=True)
class Machine:
    id: str
    chapter: str
    title: str
    start: str
    ends: tuple[str, ...]
    states: dict[str, str]
    transitions: tuple[Transition, ...]


def read(spec: Path) -> list[Machine]:
    data = tomllib.loads((spec / NAME).read_text(encoding="utf-8"))
    return [
        Machine(
            entry["id"],
            entry["chapter"],
            entry["title"],
            entry["start"],
            tuple(entry["ends"]),
            dict(entry["states"]),
            tuple(Transition(t["from"], t["event"], t["to"], t["clause"], t["sends"]) for t in entry["transitions"]),
        )
        for entry in data["machine"]
    ]


# ---------------------------------------------------------------- checks


def check(machines: list[Machine], clause_ids: Collection[str]) -> Iterator[Problem]:
    for machine in machines:
        for text in (*_wrong_rows(machine, clause_ids), *_wrong_shape(machine)):
            yield Problem(NAME, 0, f"{machine.id}: {text}")


def _wrong_rows(machine: Machine, clause_ids: Collection[str]) -> Iterator[str]:
    for (source, event), count in Counter((t.source, t.event) for t in machine.transitions).items():
        if count > 1:
            yield f"in {source}, {event!r} has {count} transitions"
    for row in machine.transitions:
        for state in (row.source, row.target):
            if state not in machine.states:
                yield f"{state} is in a transition and not defined"
        if row.source in machine.ends:
            yield f"{row.source} is an end and {row.event!r} leaves it"
        if row.clause not in clause_ids:
            yield f"in {row.source}, {row.event!r} cites {row.clause}, which does not exist"


def _wrong_shape(machine: Machine) -> Iterator[str]:
    reached = {machine.start}
    while True:
        further = {row.target for row in machine.transitions if row.source in reached} - reached
        if not further:
            break
        reached |= further
    for state in machine.states:
        if state not in reached:
            yield f"nothing leads to {state}"
        elif state not in machine.ends and not any(row.source == state for row in machine.transitions):
            yield f"nothing leaves {state}, and it is no end"
    for state in (machine.start, *machine.ends):
        if state not in machine.states:
            yield f"{state} is start or end and not defined"


# ---------------------------------------------------------------- tables


def render(machine: Machine) -> str:
    parts = ["", f"### {machine.title}", "", *_states(machine), "", *_diagram(machine), "", *_rows(machine), "", ""]
    return "\n".join(parts)


def _states(machine: Machine) -> Iterator[str]:
    yield "| state | meaning |"
    yield "|---|---|"
    for name, meaning in machine.states.items():
        mark = " (start)" if name == machine.start else " (end)" if name in machine.ends else ""
        yield f"| **{name}**{mark} | {meaning} |"


def _diagram(machine: Machine) -> Iterator[str]:
    """Edges without labels, each pair once: the table below says what moves along them."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {_identifier(machine.start)}"
    for source, target in dict.fromkeys((row.source, row.target) for row in machine.transitions):
        if source != target:
            yield f"    {_identifier(source)} --> {_identifier(target)}"
    for name in machine.states:
        if _identifier(name) != name:
            yield f"    {_identifier(name)}: {name}"
    for end in machine.ends:
        yield f"    {_identifier(end)} --> [*]"
    yield "```"


def _identifier(state: str) -> str:
    return state.replace("-", "_")


def _rows(machine: Machine) -> Iterator[str]:
    yield "| in | when | goes to | and sends | clause |"
    yield "|---|---|---|---|---|"
    for row in machine.transitions:
        yield f"| {row.source} | {row.event} | {row.target} | {row.sends or '–'} | {row.clause} |"


def renew(spec: Path, machines: list[Machine], *, is_written: bool) -> Iterator[Problem]:
    """Compare the generated parts of the chapters with the data, or write them."""
    by_id = {machine.id: machine for machine in machines}
    shown: Counter[str] = Counter()
    for path in sorted(spec.glob("*.md")):
        source = path.read_text(encoding="utf-8")
        wanted = source
        for place in _PLACE.finditer(source):
            machine = by_id.get(place[2])
            if machine is None or machine.chapter != path.name:
                yield Problem(path.name, 0, f"{place[2]} is no state machine of this chapter")
                continue
            shown[machine.id] += 1
            wanted = wanted.replace(place[0], place[1] + render(machine) + place[4])
        if wanted != source and is_written:
            path.write_text(wanted, encoding="utf-8")
        elif wanted != source:
            yield Problem(path.name, 0, f"its state tables differ from {NAME}: run `spec.py tables --write`")
    for machine in machines:
        if shown[machine.id] != 1:
            yield Problem(machine.chapter, 0, f"{machine.id} is shown {shown[machine.id]} times, once is wanted")
