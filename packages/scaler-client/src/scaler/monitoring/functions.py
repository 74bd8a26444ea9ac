"""What each function has cost, for people: counts, times and quantiles, from one status (MON-38 to MON-41).

And which objects are functions, or their results (MON-59).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler_protocol.codes import OBJECT_CODE_SET, OBJECT_FUNCTION, OBJECT_RESULT
from scaler_protocol.columns import BUCKET_BOUNDS_SECONDS, BUCKETS, split_u64
from scaler_protocol.messages import ClusterStatus, FunctionEntry, ObjectEntry

OTHERS = "(others)"
OBJECT_KINDS = {OBJECT_FUNCTION: "function", OBJECT_RESULT: "result", OBJECT_CODE_SET: "code set"}


@dataclass(slots=True)
class FunctionFigures:
    """Counts and times of all functions of one name: a program that makes a function in a loop has many."""

    name: str  #: of the function, or `(others)`
    submitted_count: int = 0  #: all of its tasks
    dispatched_count: int = 0  #: with workers, begun or not
    success_count: int = 0  #: ended with a value
    failed_count: int = 0  #: ended with an exception
    canceled_count: int = 0  #: canceled by their client
    worker_lost_count: int = 0  #: ended because their workers were lost
    refused_count: int = 0  #: not taken by the scheduler
    queued_seconds: float = 0.0  #: with no worker, of all tasks together
    dispatched_seconds: float = 0.0  #: with a worker, of all tasks together
    run_seconds: float = 0.0  #: by the clock, of all runs together
    cpu_seconds: float = 0.0  #: of processor time, of all runs together
    runs: dict[int, int] = field(default_factory=dict)  #: how many, by bucket of their time

    @property
    def ended_count(self) -> int:
        """Tasks that have ended, in any way."""
        return self.success_count + self.canceled_count + self.not_well_count

    @property
    def queued_count(self) -> int:
        """Tasks that wait for a worker, or for other tasks."""
        return max(0, self.submitted_count - self.ended_count - self.dispatched_count)

    @property
    def not_well_count(self) -> int:
        """Tasks that failed, were lost with their worker, or were refused."""
        return self.failed_count + self.worker_lost_count + self.refused_count

    @property
    def run_count(self) -> int:
        """Runs that workers have reported."""
        return sum(self.runs.values())

    @property
    def mean_seconds(self) -> float | None:
        """The mean time of a run; None if no worker has reported one."""
        count = self.run_count
        return self.run_seconds / count if count else None

    @property
    def mean_queued_seconds(self) -> float:
        """The mean time that a task was with no worker."""
        return self.queued_seconds / self.submitted_count if self.submitted_count else 0.0

    def quantile(self, share: float) -> float | None:
        """Seconds that a share of the runs took at most; None if there are no runs. Exact to the width of a bucket,
        which is a half of the value at most.

        Args:
            share: from 0 to 1; 0.5 is the median.
        """
        return quantile(self.runs, share)


def functions_of(status: ClusterStatus) -> list[FunctionFigures]:
    """The functions of a status; those with unfinished tasks come first. Those that the scheduler counts together, as
    `(others)`, are the last.

    Args:
        status: of a `ClusterState`.
    """
    found: dict[str, FunctionFigures] = {}
    for entry in status.functions:
        name = name_of(entry)
        one = found.setdefault(name, FunctionFigures(name))
        one.submitted_count += entry.submitted_count
        one.dispatched_count += entry.dispatched_count
        one.success_count += entry.success_count
        one.failed_count += entry.failed_count
        one.canceled_count += entry.canceled_count
        one.worker_lost_count += entry.worker_lost_count
        one.refused_count += entry.refused_count
        one.queued_seconds += entry.queued_seconds
        one.dispatched_seconds += entry.dispatched_seconds
        one.run_seconds += entry.run_seconds
        one.cpu_seconds += entry.cpu_seconds
        for bucket, runs in counts_of(entry.buckets, entry.bucket_counts).items():
            one.runs[bucket] = one.runs.get(bucket, 0) + runs
    return list(found.values())


def name_of(entry: FunctionEntry) -> str:
    if not entry.function_id:
        return OTHERS
    return entry.name or entry.function_id.hex()[:8]


def object_kind(entry: ObjectEntry) -> str:
    """A value: its client has stored it, such as an argument, or the scheduler does not know its maker any more."""
    return OBJECT_KINDS.get(entry.kind, "value")


def object_text(entry: ObjectEntry) -> str:
    """With the function that it is, or whose result it is: foreign text."""
    of = "of " if entry.kind == OBJECT_RESULT and entry.name else ""
    return f"{object_kind(entry)} {of}{entry.name}".rstrip()


def counts_of(buckets: bytes, counts: bytes) -> dict[int, int]:
    """By bucket. Columns that do not agree are a broken scheduler's: then there are none."""
    if 8 * len(buckets) != len(counts):
        return {}
    columns = zip(buckets, split_u64(counts), strict=True)
    return {bucket: count for bucket, count in columns if bucket < BUCKETS}


def quantile(runs: dict[int, int], share: float) -> float | None:
    """In seconds, with a straight line through each bucket; None if there are no runs. `share`: from 0 to 1."""
    wanted = share * sum(runs.values())
    for bucket in sorted(runs):
        if wanted <= runs[bucket] and runs[bucket]:
            low = BUCKET_BOUNDS_SECONDS[bucket - 1] if bucket else 0.0
            high = BUCKET_BOUNDS_SECONDS[bucket] if bucket < len(BUCKET_BOUNDS_SECONDS) else low
            return low + (high - low) * max(0.0, wanted) / runs[bucket]
        wanted -= runs[bucket]
    return None
