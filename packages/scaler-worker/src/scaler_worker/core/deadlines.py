"""When the core must be looked at again although nothing happened.

Only what can then be done is a deadline. One that stays in the past would keep the shell awake for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_worker.core import handing, nesting, recycling, starting, suspension
from scaler_worker.core.tables import Tables


def next_deadline(tables: Tables) -> float | None:
    return min(_deadlines(tables), default=None)


def _deadlines(tables: Tables) -> Iterator[float]:
    for processor in tables.processors.values():
        if processor.kill_at is not None:
            yield processor.kill_at
        if processor.timeout_at is not None:
            yield processor.timeout_at
        if processor.can_give_back:
            yield processor.first_since + handing.STUCK_SECONDS
    resume_due_at = handing.resume_due_at(tables)
    if resume_due_at is not None:
        yield resume_due_at
    yield from suspension.changes_at(tables)
    yield from (question.until for question in tables.stacks.values() if not question.is_overdue)
    if tables.presenting.until is not None:
        yield tables.presenting.until
    if tables.drain_until is not None:
        yield tables.drain_until
        return
    if tables.presenting.may_begin:
        dues = [nesting.room_due_at(tables)]
        if not recycling.awaits_reading(tables):
            dues += [handing.fallback_at(tables), handing.held_back_until(tables)]
        yield from (due_at for due_at in dues if due_at is not None)
    yield from starting.due_at(tables)
    for processor in handing.surplus_processors(tables)[:1]:
        yield processor.since + handing.IDLE_SECONDS
