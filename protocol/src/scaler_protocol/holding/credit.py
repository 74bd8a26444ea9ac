"""How many tasks the scheduler may give this worker (chapter CRD): a pure function of what was measured."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

LONG_SECONDS = 0.1
"""Above this a queued task gains nothing: fetching the next one costs well under 1 % of running it."""

COVER_SECONDS = 0.06
"""How much work is queued behind the running task: several round trips to a busy scheduler."""


class Load(NamedTuple):
    """What the credit depends on."""

    places: int
    queue_size: int  #: the most that may ever be queued
    mean_seconds: float | None  #: of recent tasks; None before anything was measured
    running_seconds: float  #: how long the longest running task has been running
    lent_places: int  #: blocked tasks and those run beyond the places: each is held, but holds no place


def credit_limit(load: Load) -> int:
    if load.mean_seconds is None:
        return load.places + 1 + load.lent_places
    # A task that runs and runs says more about what comes next than the average of those that ended.
    seconds = max(load.mean_seconds, load.running_seconds)
    if seconds > LONG_SECONDS:
        return load.places + load.lent_places
    queued = ceil(load.places * COVER_SECONDS / max(seconds, 1e-6))
    return min(load.places + queued, max(load.queue_size, load.places)) + load.lent_places


def nested_reserve(places: int) -> int:
    """Places beyond the limit that only tasks with depth > 0 may take: never zero, or nesting could starve (CRD-4)."""
    return places + 1
