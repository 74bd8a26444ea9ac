"""Counts what became of the tasks of one function (MON-38)."""

from __future__ import annotations

from scaler_protocol.columns import BUCKETS
from scaler_scheduler.core.entities.states import FINISHED

_ENDED = dict.fromkeys(FINISHED, 0)


class FunctionCounts:
    """Of one function, or of all others."""

    __slots__ = (
        "buckets",
        "cpu_microseconds",
        "dispatched",
        "ended",
        "function_id",
        "given_at",
        "open_at",
        "run_microseconds",
        "submitted",
        "used_at",
        "user",
    )

    def __init__(self, function_id: bytes = b"", user: str = "") -> None:
        self.function_id = function_id
        self.user = user
        self.used_at = 0.0  #: when a batch with it came last
        self.submitted = 0
        self.dispatched = 0  #: all and only those in `Worker.held`
        self.ended = _ENDED.copy()
        #: the moments at which its tasks ended, less those at which they were submitted
        self.open_at = 0.0
        #: the moments at which its tasks were given to workers, less those at which workers had them no longer
        self.given_at = 0.0
        self.run_microseconds = 0
        self.cpu_microseconds = 0
        self.buckets: list[int] | None = None  #: runs by how long they took; None: there are none

    @property
    def ended_count(self) -> int:
        return sum(self.ended.values())

    @property
    def unfinished_count(self) -> int:
        return self.submitted - self.ended_count

    def dispatched_seconds(self, now: float) -> float:
        return max(0.0, self.dispatched * now - self.given_at)

    def queued_seconds(self, now: float) -> float:
        open_seconds = self.unfinished_count * now + self.open_at
        return max(0.0, open_seconds - (self.dispatched * now - self.given_at))

    def add_runs(self, bucket: int, runs: int) -> None:
        if self.buckets is None:
            self.buckets = [0] * BUCKETS
        self.buckets[bucket] += runs

    def add(self, other: FunctionCounts) -> None:
        """What the other has counted is counted here from now on."""
        self.submitted += other.submitted
        self.dispatched += other.dispatched
        for state, tasks in other.ended.items():
            self.ended[state] += tasks
        self.open_at += other.open_at
        self.given_at += other.given_at
        self.run_microseconds += other.run_microseconds
        self.cpu_microseconds += other.cpu_microseconds
        for bucket, runs in enumerate(other.buckets or ()):
            if runs:
                self.add_runs(bucket, runs)
