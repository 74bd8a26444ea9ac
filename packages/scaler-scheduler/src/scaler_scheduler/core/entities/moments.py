"""When something happened to the tasks of a batch, for people who watch (MON-62).

A batch keeps one number while its tasks have the same moment: a lone task, or a batch that is dispatched whole. Else
the batch keeps a column of four bytes for each task. A moment is in seconds since the batch was submitted, so that four
bytes are exact to 8 ms after a day.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

#: For all tasks of a batch, or one for each.
Moments = float | array  # type: ignore[type-arg]  # array[float], which Python 3.10 does not know at run time

NOT_YET = -1.0

FEW = 8
"""So many are noted one by one, which costs less than a slice."""

SMALLEST_SECONDS = 1e-6
"""Zero means that something has not happened, and all may happen in one turn."""


def marked(moments: Moments, count: int, indexes: Sequence[int], seconds: float) -> Moments:
    """It has just happened to these of so many tasks."""
    some = len(indexes)
    if some == count:
        return seconds
    if not isinstance(moments, array):
        moments = array("f", (moments,)) * count
    if some > FEW and isinstance(indexes, range):
        moments[indexes.start : indexes.stop] = array("f", (seconds,)) * some
    else:
        for index in indexes:
            moments[index] = seconds
    return moments


def moments_of(moments: Moments, indexes: Sequence[int]) -> list[float]:
    """Of each of these tasks."""
    return list(map(moments.__getitem__, indexes)) if isinstance(moments, array) else [moments] * len(indexes)


def moment_of(moments: Moments, index: int) -> float:
    return moments[index] if isinstance(moments, array) else moments


def ago(moment: float, since_seconds: float) -> float:
    """How long ago that was, if the batch was submitted so long ago. Zero: it has not happened."""
    return max(SMALLEST_SECONDS, since_seconds - moment) if moment >= 0 else 0.0
