"""Where the time of tasks goes, of all processors together, for monitors (WRK-61 to WRK-63).

The processors end by themselves when the time is over. What they have told then goes out with one more WorkerStatus.
"""

from __future__ import annotations

from math import isfinite

from scaler_protocol.messages import SampleStacks
from scaler_protocol.stack_trees import StackTrees
from scaler_worker.core import actions

SECONDS_MAX = 60.0
"""However long a scheduler wants: one that is alive says it again."""
LATE_SECONDS = 3.0
"""What processors tell when the time is over is on its way for so long at most."""
BYTES_MAX = 64 * 1024


class StackSamples:
    def __init__(self) -> None:
        self._trees = StackTrees()
        self._until = 0.0
        self._bytes_max = 0

    def want(self, message: SampleStacks, now: float) -> actions.SampleStacks:
        seconds = min(SECONDS_MAX, max(0.0, message.seconds)) if isfinite(message.seconds) else 0.0
        self._bytes_max = min(BYTES_MAX, message.byte_limit)
        if seconds:
            self._until = now + seconds
        else:
            self._until = 0.0
            self._trees = StackTrees()
        return actions.SampleStacks(seconds)

    def lost(self, now: float) -> list[actions.SampleStacks]:
        """The session has ended, and what was wanted in it."""
        return [self.want(SampleStacks(), now)] if now < self._until else []

    def add(self, trees: bytes, now: float) -> bool:
        """False: these are no trees."""
        if self._until and now < self._until + LATE_SECONDS:
            try:
                self._trees.merge(trees)
            except ValueError:
                return False
        return True

    def take(self) -> bytes:
        """For a WorkerStatus."""
        return self._trees.take(self._bytes_max) if self._trees else b""
