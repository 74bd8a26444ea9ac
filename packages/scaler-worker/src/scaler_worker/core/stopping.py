"""Ending tasks before they are done: cancel, timeout, and the kill that follows an interrupt that was not obeyed."""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.codes import (
    CANCEL_CANCELED,
    CANCEL_TOO_LATE,
    KIND_INLINE,
    STATUS_CANCELED,
    STATUS_TIMED_OUT,
    TASK_TIMED_OUT,
)
from scaler_protocol.holding.tasks import StopOrder, Task
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import TaskError
from scaler_worker.core import recycling
from scaler_worker.core.actions import Interrupt, KillProcessor
from scaler_worker.core.processors import Processor, State, Step
from scaler_worker.core.tables import Tables

TIMEOUT_GRACE_SECONDS = 1.0


def cancel(tables: Tables, ids: Iterable[TaskId], grace_seconds: float, now: float) -> None:
    """Every Cancel of a task is answered exactly once: at once when it waits, else when it has ended (CAN-1)."""
    running: list[Processor] = []
    for task_id in ids:
        task = tables.cancel_replies.order(task_id, grace_seconds, tables.tasks, tables.results)
        if task is None:
            continue
        if task.processor is None:
            tables.withdraw(task)
            end_stopped(tables, task)
            continue
        processor = tables.processors[task.processor]
        if processor.first is task:
            running.append(processor)
        else:
            # It must not begin. If the processor was faster, `begin_first` interrupts it.
            tables.reclaim(processor)
    # After the reclaims: an interrupted task makes way for the next of its slice, which may be canceled as well.
    for processor in running:
        interrupt_first(tables, processor, now)


def begin_first(tables: Tables, processor: Processor, now: float) -> None:
    """The first task of the slice is a new one: its clocks start now."""
    processor.first_since = now
    processor.has_not_begun = False
    processor.kill_at = processor.timeout_at = None
    first = processor.first
    if first is None:
        return
    if tables.recycles:
        recycling.note_begun(processor, now)
    timeout_seconds = timeout_of(tables, first)
    if timeout_seconds > 0:
        processor.timeout_at = now + timeout_seconds
    if first.stop is not None:
        interrupt_first(tables, processor, now)


def timeout_of(tables: Tables, task: Task) -> float:
    """The shorter of the task's own and the worker's; zero when there is neither (WRK-14)."""
    own, general = task.header.timeout_seconds, tables.settings.task_timeout_seconds
    return min(own, general) if own > 0 and general > 0 else max(own, general)


def interrupt_first(tables: Tables, processor: Processor, now: float) -> None:
    task = processor.slice[0]
    assert task.stop is not None
    if processor.state is State.STOPPING:
        return
    processor.kill_at = now + task.stop.grace_seconds
    tables.actions.append(Interrupt(processor.number, task.number))


def enforce(tables: Tables, now: float) -> None:
    """Interrupt what has run too long, kill what did not obey."""
    for processor in tables.processors.values():
        if processor.timeout_at is not None and now >= processor.timeout_at:
            processor.timeout_at = None
            if processor.slice[0].stop is None:
                processor.slice[0].stop = StopOrder(STATUS_TIMED_OUT, TIMEOUT_GRACE_SECONDS)
                interrupt_first(tables, processor, now)
        if processor.kill_at is not None and now >= processor.kill_at:
            processor.kill_at = None
            kill(tables, processor, now)


def kill(tables: Tables, processor: Processor, now: float) -> None:
    processor.step(Step.STOP, now)
    tables.actions.append(KillProcessor(processor.number))


def end_stopped(tables: Tables, task: Task, profile: bytes = b"") -> None:
    """The task ended because it was told to. It has left the queue or its slice already. `profile`: if it had begun."""
    assert task.stop is not None
    tables.forget(task)
    if task.stop.status == STATUS_CANCELED:
        tables.results.add_without_value(task.id, task.attempt, STATUS_CANCELED)
    else:
        tables.limited_count += task.stop.memory_bytes > 0
        value = recycling.over_limit(tables, task) if task.stop.memory_bytes else _timed_out(tables, task)
        tables.results.append((task.id, task.attempt, STATUS_TIMED_OUT, KIND_INLINE, value, profile, task.header))
    tables.cancel_replies.answer(task, CANCEL_CANCELED if task.stop.status == STATUS_CANCELED else CANCEL_TOO_LATE)


def _timed_out(tables: Tables, task: Task) -> bytes:
    text = f"the task ran longer than its timeout of {timeout_of(tables, task):g} s and was stopped"
    workers = (tables.settings.worker_name,)
    error = TaskError(code=TASK_TIMED_OUT, type_name="TaskTimeoutError", message=text, workers=workers)
    return tables.settings.encode_error(error)
