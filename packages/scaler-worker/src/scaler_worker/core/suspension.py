"""Stopping processors of blocked tasks while deeper ones run in the place they lent (--hard-processor-suspend).

A stopped process hears nothing: not that its children have ended, and its client shows no life to the scheduler. So it
is woken every second for a moment, and for good as soon as no deeper task runs here.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_worker.core.actions import Suspend, Unsuspend
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.tables import Tables

ASLEEP_SECONDS = 1.0
AWAKE_SECONDS = 0.1


def arrange(tables: Tables, now: float) -> None:
    if not tables.settings.suspends_hard:
        return
    depth = _deepest(tables)
    for processor in tables.processors.values():
        is_wanted = _may_sleep(processor, depth)
        if processor.is_suspended and (not is_wanted or now >= processor.change_at):
            processor.is_suspended = False
            processor.change_at = now + AWAKE_SECONDS
            tables.actions.append(Unsuspend(processor.number))
        elif is_wanted and not processor.is_suspended and now >= processor.change_at:
            processor.is_suspended = True
            processor.change_at = now + ASLEEP_SECONDS
            tables.actions.append(Suspend(processor.number))


def changes_at(tables: Tables) -> Iterator[float]:
    if not tables.settings.suspends_hard:
        return
    depth = _deepest(tables)
    for processor in tables.processors.values():
        if processor.is_suspended or _may_sleep(processor, depth):
            yield processor.change_at


def _deepest(tables: Tables) -> int:
    running = (p.slice[0].header.depth for p in tables.processors.values() if p.state is State.RUNNING)
    return max(running, default=-1)


def _may_sleep(processor: Processor, depth: int) -> bool:
    """An interrupted task must be awake to unwind."""
    if processor.state is not State.BLOCKED:
        return False
    first = processor.slice[0]
    return first.stop is None and first.header.depth < depth
