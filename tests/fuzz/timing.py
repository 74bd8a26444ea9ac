"""How long the calls of the bystander take, and what that is compared with."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.support.processes import Command

CALL, LARGE, MAP = "call", "large", "map"
"""One small task, one with an argument of some hundred kilobytes, and a batch of small ones."""


@dataclass(frozen=True, slots=True)
class Call:
    kind: str
    begun_at: float
    seconds: float
    trouble: str

    @property
    def ended_at(self) -> float:
        return self.begun_at + self.seconds


class Calls:
    """Those that the bystander has told of, in the order in which they ended."""

    def __init__(self, bystander: Command) -> None:
        self._lines = bystander.lines
        self._read: list[Call] = []

    def since(self, at: float) -> list[Call]:
        """Those that have ended since then."""
        self._read += map(_call_of, self._lines[len(self._read) :])
        found: list[Call] = []
        for call in reversed(self._read):
            if call.ended_at < at:
                break
            found.append(call)
        return found[::-1]


def _call_of(line: str) -> Call:
    kind, begun, seconds, *trouble = line.split(" ", 3)
    return Call(kind, float(begun), float(seconds), trouble[0] if trouble else "")


@dataclass(frozen=True, slots=True)
class Medians:
    """In seconds; zero where there was no call."""

    call: float = 0.0
    map: float = 0.0


def medians(calls: Iterable[Call]) -> Medians:
    found = list(calls)
    return Medians(*(_median([call.seconds for call in found if call.kind == kind]) for kind in (CALL, MAP)))


def _median(seconds: Sequence[float]) -> float:
    return sorted(seconds)[len(seconds) // 2] if seconds else 0.0


def spin(seconds: float) -> None:
    """Take the processor time that an attack takes from its machine, and attack nothing: what an attack is compared
    with. Most attacks have one thread."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        pass
