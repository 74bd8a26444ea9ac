"""How fast tasks get done, as far as it has been seen."""

from __future__ import annotations

from collections import deque

WINDOW_LOOKS = 10
MEASURED_SECONDS = 1.0
"""So much work of one worker must have been seen before the pace counts."""


class Pace:
    """The tasks that one busy worker ends in a second, over the last looks."""

    def __init__(self) -> None:
        #: (tasks ended, seconds that workers were busy) between two looks
        self._looks: deque[tuple[int, float]] = deque(maxlen=WINDOW_LOOKS)
        self._ended_count = 0
        self._looked_at: float | None = None

    def look(self, ended_count: int, busy_workers: int, now: float) -> None:
        """`ended_count`: all tasks that have ended so far. `busy_workers`: those that hold tasks now."""
        if self._looked_at is not None and (busy_workers or ended_count > self._ended_count):
            self._looks.append((ended_count - self._ended_count, busy_workers * (now - self._looked_at)))
        self._ended_count, self._looked_at = ended_count, now

    def tasks_per_worker(self, horizon_seconds: float, unmeasured: float) -> float:
        """How many tasks keep a worker busy for the horizon; at least one."""
        busy_seconds = sum(seconds for _, seconds in self._looks)
        if busy_seconds < MEASURED_SECONDS:
            return unmeasured
        return max(1.0, horizon_seconds * sum(count for count, _ in self._looks) / busy_seconds)
