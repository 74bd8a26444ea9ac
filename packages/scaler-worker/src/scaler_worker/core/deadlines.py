"""When the core must be looked at again although nothing happened."""

from __future__ import annotations

from collections.abc import Iterator

from scaler_worker.core import handing
from scaler_worker.core.processors import State
from scaler_worker.core.tables import Tables


def next_deadline(tables: Tables) -> float | None:
    return min(_deadlines(tables), default=None)


def _deadlines(tables: Tables) -> Iterator[float]:
    for processor in tables.processors.values():
        if processor.kill_at is not None:
            yield processor.kill_at
        if processor.timeout_at is not None:
            yield processor.timeout_at
        if handing.is_stuck(processor):
            yield processor.first_since + handing.STUCK_SECONDS
    if tables.drain_until is not None:
        yield tables.drain_until
        return
    yield from _waiting(tables)
    if tables.start_failures:
        yield tables.start_not_before
    if tables.count(State.IDLE) > tables.settings.places + handing.SPARE_PROCESSORS:
        yield min(p.since for p in tables.processors.values() if p.state is State.IDLE) + handing.IDLE_SECONDS


def _waiting(tables: Tables) -> Iterator[float]:
    """The first queued task, when it may be an unseen child of a running one, runs after a while in any case.

    Only what can then be done is a deadline: while a processor starts, its being ready is what is waited for.
    """
    task = tables.queue.first()
    if task is None or tables.free_places() > 0 or not handing.is_held_up(tables, task):
        return
    if len(tables.processors) >= tables.settings.max_processors:
        yield task.queued_at + handing.REFUSE_SECONDS
    elif not tables.count(State.STARTING):
        yield task.queued_at + handing.FALLBACK_SECONDS
