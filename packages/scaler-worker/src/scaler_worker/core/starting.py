"""Processors that do not start: how long that may take, and what becomes of the worker's tasks meanwhile (WRK-65).

A start can fail again and again (a preload that raises, no memory or no process left for a fork), or not end at all (a
preload that waits for a licence). The worker lives and sends its heartbeats all the while, so no lease gives its tasks
to another worker. So the worker is *in trouble* as soon as FAILURES starts in a row have failed, or one start takes
longer than PATIENCE_SECONDS, while no processor is idle. A worker in trouble tells a credit of zero and the reason,
gives back every task that has not begun, and goes on to start a processor now and then. The trouble ends when a
processor is ready, or one that ran a task is idle again.
"""

from __future__ import annotations

from collections.abc import Iterator

from scaler_worker.core import grouping
from scaler_worker.core.actions import KillProcessor, Log
from scaler_worker.core.deaths import describe_exit
from scaler_worker.core.processors import Processor, State, Step
from scaler_worker.core.tables import Tables

FAILURES = 3
"""The number of failed starts in a row that is reported as trouble. One failure may be chance, such as the kernel's
choice of a process to end."""
PATIENCE_SECONDS = 10.0
"""Far longer than a processor takes without a preload. A task need not wait longer for a preload if another worker is
idle."""
START_SECONDS = 900.0
"""Then a processor that starts is replaced. A preload may read a model of many gigabytes over a slow network. Nothing
waits for it: the tasks of its worker have been given back."""
BACKOFF_SECONDS = 0.1
BACKOFF_LIMIT_SECONDS = 10.0

LATE_TEXT = (
    f"its processors do not start: one has not been ready for {PATIENCE_SECONDS:g} s; a --preload that waits is the "
    "usual reason"
)

_STARTING = State.STARTING


def note_ready(tables: Tables) -> None:
    tables.start_failures = 0
    _end_trouble(tables)


def note_exit(tables: Tables, processor: Processor, exit_code: int, now: float) -> None:
    """The processor has exited before it was ready, or before it had begun the first task that it was handed."""
    how = describe_exit(exit_code)
    tables.actions.append(Log(True, f"processor {processor.number} {how} before it was ready"))
    _note_failure(tables, f"the last one {how}", now)


def _note_failure(tables: Tables, last: str, now: float) -> None:
    tables.start_failures += 1
    backoff = BACKOFF_SECONDS * 2 ** min(tables.start_failures - 1, 10)
    tables.start_not_before = now + min(backoff, BACKOFF_LIMIT_SECONDS)
    if tables.start_failures >= FAILURES:
        _begin_trouble(tables, f"its processors do not start: {last}; the worker's log says more", now)


def settle(tables: Tables, now: float) -> None:
    """Looks at processors that have been starting for long, and at trouble that may be over."""
    for processor in tables.processors.values():
        if processor.state is not _STARTING or now < processor.since + PATIENCE_SECONDS:
            continue
        if now >= processor.since + START_SECONDS:
            _give_up(tables, processor, now)
        elif not processor.is_late or not tables.count(State.RUNNING):
            processor.is_late = True
            _begin_trouble(tables, LATE_TEXT, now)
    # One that has been idle all the while is for tasks of another group than those that were given back.
    if tables.trouble and any(one.since > tables.trouble_at for one in grouping.available(tables)):
        _end_trouble(tables)


def _has_processor(tables: Tables) -> bool:
    """Returns True if a processor is idle that takes the first task of the queue, or any if the queue is empty."""
    task = tables.queue.first()
    found = next(grouping.available(tables), None) if task is None else grouping.first_for(tables, task)
    return found is not None


def due_at(tables: Tables) -> Iterator[float]:
    if tables.start_not_before:
        yield tables.start_not_before
    for processor in tables.processors.values():
        if processor.state is _STARTING:
            yield processor.since + (START_SECONDS if processor.is_late else PATIENCE_SECONDS)


def _give_up(tables: Tables, processor: Processor, now: float) -> None:
    how = f"was not ready after {START_SECONDS:g} s"
    tables.actions.append(Log(True, f"processor {processor.number} {how}, and is replaced"))
    processor.step(Step.STOP, now)
    tables.actions.append(KillProcessor(processor.number))
    _note_failure(tables, f"the last one {how}", now)


def _begin_trouble(tables: Tables, text: str, now: float) -> None:
    if not tables.trouble and not _has_processor(tables):
        tables.trouble, tables.trouble_at = text, now
        tables.actions.append(Log(True, f"takes no tasks for now: {text}"))


def _end_trouble(tables: Tables) -> None:
    if tables.trouble:
        tables.trouble = ""
        tables.actions.append(Log(False, "takes tasks again: a processor is ready"))
