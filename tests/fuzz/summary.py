"""What a run has done, as one text. A closing note can take it as it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.fuzz.arena import Verdict

_HEAD = (
    f"{'family':26}{'runs':>5}{'inputs':>13}{'sessions':>9}  {'call':>8}{'base':>8}{'ratio':>7}  {'map':>8}{'ratio':>7}"
    f"{'worst':>8}  {'scheduler':>9}{'storage':>8}{'page':>6}{'adapter':>8}{'manager':>8}{'standby':>8}"
    f"{'files':>6}  failed deaths"
)
_SERVERS = (("scheduler", 9), ("storage", 8), ("page", 6), ("adapter", 8), ("manager", 8), ("standby", 8))


@dataclass(slots=True)
class _Row:
    """Of one family: sums, and the worst of each figure over its runs."""

    runs: int = 0
    inputs: int = 0
    sessions: int = 0
    failed: int = 0
    deaths: int = 0  #: of processes of the attackers
    command: str = ""  #: that repeats the first failure
    worst: Verdict | None = None  #: by the ratio of the median call
    map_ratio: float = 0.0
    slowest_seconds: float = 0.0
    descriptors: int = 0
    grown_bytes: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict) -> None:
        self.runs += 1
        self.inputs += verdict.inputs
        self.sessions += verdict.sessions
        self.deaths += len(verdict.deaths)
        if verdict.troubles:
            self.failed += 1
            self.command = self.command or verdict.command
        if self.worst is None or verdict.call_ratio > self.worst.call_ratio:
            self.worst = verdict
        self.map_ratio = max(self.map_ratio, verdict.map_ratio)
        self.slowest_seconds = max(self.slowest_seconds, verdict.slowest_seconds)
        self.descriptors = max(self.descriptors, verdict.descriptors)
        self.grown_bytes |= Counter(verdict.grown_bytes)  # the larger of the two

    def line(self, name: str) -> str:
        worst = self.worst
        assert worst is not None, "a row has runs"
        grown = "".join(f"{self.grown_bytes[server] >> 20:{width}}" for server, width in _SERVERS)
        return (
            f"{name:26}{self.runs:5}{self.inputs:13,}{self.sessions:9,}  {worst.medians.call * 1e3:8.1f}"
            f"{worst.base.call * 1e3:8.1f}{worst.call_ratio:7.1f}  {worst.medians.map * 1e3:8.1f}{self.map_ratio:7.1f}"
            f"{self.slowest_seconds:8.2f}  {grown}{self.descriptors:6}  {self.failed or '':6} {self.deaths or ''}"
        )


class Summary:
    """It takes no more memory however long the run is."""

    def __init__(self, access: str) -> None:
        self._access = access
        self._places: Counter[str] = Counter()
        self._calls = 0
        self._rows: dict[str, _Row] = {}

    def add(self, verdict: Verdict) -> None:
        self._places.update(verdict.places)
        self._calls += verdict.calls
        self._rows.setdefault(verdict.name, _Row()).add(verdict)

    @property
    def failed(self) -> list[str]:
        return sorted(name for name, row in self._rows.items() if row.failed)

    def counts(self) -> list[str]:
        runs = sum(row.runs for row in self._rows.values())
        deaths = sum(row.deaths for row in self._rows.values())
        lines = [f"access {self._access}: {self._places.total():,} inputs in {runs} runs of families"]
        lines[0] += f", {deaths} deaths of attackers" if deaths else ""
        return lines + [f"    {place:34} {count:14,} inputs" for place, count in sorted(self._places.items())]

    def text(self) -> str:
        lines = [
            *self.counts(),
            f"bystander: {self._calls:,} calls. Times in ms (worst in s), growth in MiB, the worst of each",
            _HEAD,
        ]
        lines += [row.line(name) for name, row in sorted(self._rows.items())]
        lines.append(f"{len(self.failed)} families failed")
        lines += [f"    {name}, {self._rows[name].failed} times: {self._rows[name].command}" for name in self.failed]
        return "\n".join(lines)
