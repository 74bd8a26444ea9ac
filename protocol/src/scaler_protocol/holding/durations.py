"""How long tasks take, as measured: what decides the size of a slice and the credit."""

from __future__ import annotations

from collections import OrderedDict

from scaler_protocol.ids import ObjectId

REMEMBERED_FUNCTIONS = 1024
CALLS_WITHOUT_WAIT = 20
"""After so many calls in a row that waited for nothing a function no longer counts as one that waits."""


class Durations:
    """A moving average for each function, quick to rise and slow to fall.

    Believing a task shorter than it is puts others behind it; believing it longer costs a little throughput.
    """

    def __init__(self) -> None:
        #: of each function that is remembered; `add` keeps it
        self.means: OrderedDict[ObjectId, float] = OrderedDict()
        #: functions whose calls wait for other tasks -> how many more calls must not, before they are forgotten
        self.waiting: OrderedDict[ObjectId, int] = OrderedDict()
        #: mean over all functions, weighted towards the recent; None before the first
        self.overall: float | None = None

    def estimate(self, function: ObjectId) -> float | None:
        """None for those that were not measured, and for those that wait: what runs behind them would wait, too."""
        if self.waiting and function in self.waiting:
            return None
        return self.means.get(function)

    def note_wait(self, function: ObjectId) -> None:
        """A call of this function waits for other tasks."""
        self.waiting[function] = CALLS_WITHOUT_WAIT
        if len(self.waiting) > REMEMBERED_FUNCTIONS:
            self.waiting.popitem(last=False)

    def add(self, function: ObjectId, seconds: float) -> None:
        if self.waiting and function in self.waiting:
            self.waiting[function] -= 1
            if not self.waiting[function]:
                del self.waiting[function]
        means = self.means
        mean = means.get(function)
        if mean is None:
            means[function] = seconds
            if len(means) > REMEMBERED_FUNCTIONS:
                means.popitem(last=False)
        else:
            means[function] = mean + (seconds - mean) * (0.5 if seconds > mean else 0.1)

    def add_round(self, count: int, total_seconds: float) -> None:
        """Count what one processor reported at once, whatever its functions."""
        mean = total_seconds / count
        self.overall = mean if self.overall is None else self.overall + (mean - self.overall) * min(0.2 * count, 0.5)
