"""When tasks were seen waiting for tasks of their own, from one status after another. No socket, no clock."""

from __future__ import annotations

from collections import OrderedDict

from scaler_protocol.messages import ClusterStatus

BLOCKED = 3  #: of a processor, as in ProcessorStatus
TASKS_KEPT = 4_096
"""Tasks of which no end is told, because they are in no sample, are forgotten in the order in which they were seen."""
SPANS_KEPT = 32
"""Of one task."""
USUAL_SECONDS = 1.0

Span = tuple[float, float]  #: seconds of the epoch


class Blocked:
    """A worker tells about every two seconds what its processors do: so exact these times are."""

    def __init__(self) -> None:
        self._spans: OrderedDict[str, list[Span]] = OrderedDict()
        self._seen: frozenset[str] = frozenset()

    def take(self, status: ClusterStatus, at: float) -> None:
        """`at`: when the status came, in seconds of the epoch."""
        half = (status.interval_seconds or USUAL_SECONDS) / 2
        seen = frozenset(
            one.task_id.hex() for worker in status.workers for one in worker.status.processors if one.state == BLOCKED
        )
        for task in seen:
            spans = self._spans.setdefault(task, [])
            if task in self._seen and spans:
                spans[-1] = spans[-1][0], at + half
            else:
                spans.append((at - half, at + half))
                del spans[:-SPANS_KEPT]
        self._seen = seen
        while len(self._spans) > TASKS_KEPT:
            self._spans.popitem(last=False)

    def of(self, task: str, begun_at: float, seconds: float) -> tuple[float, ...]:
        """Of a task that has ended: begin and length of each such time, one after the other, in seconds since it began.
        Afterwards it is forgotten."""
        found: list[float] = []
        for begin, end in self._spans.pop(task, ()):
            begin, end = max(0.0, begin - begun_at), min(seconds, end - begun_at)
            if end > begin:
                found += round(begin, 3), round(end - begin, 3)
        return tuple(found)
