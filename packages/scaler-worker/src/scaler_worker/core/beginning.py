"""The check whether a processor has begun the task that is the first of its slice (WRK-66).

To hand a task over is not to begin it. Between two tasks a processor runs code that earlier ones have left behind, such
as destructors of their garbage, and that code may wait for ever, or end the process. So a processor writes the number
of each task that it begins, and when, into memory that it shares with the shell. The shell reads it (`BegunSeen`)
before each status, before a round in which something is due, and when the processor has exited. Without such an event
a task counts as begun, because nearly all are within microseconds.

A task that has not begun within BEGIN_SECONDS goes back to the queue, and its processor is killed. No death is counted,
and nothing of the wait is the task's time.
"""

from __future__ import annotations

from scaler_worker.core import giving_back, stopping
from scaler_worker.core.actions import Log
from scaler_worker.core.events import BegunSeen
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.tables import Tables

BEGIN_SECONDS = 5.0
"""Longer than it takes to collect the garbage of some ten million objects, which is all that a processor does there of
its own accord."""


def seen(tables: Tables, event: BegunSeen, now: float) -> None:
    processor = tables.processors[event.processor]
    first = processor.first
    if first is None or processor.state is State.STOPPING:
        return
    # A greater number: the first has ended, and its report is on the way.
    processor.has_not_begun = event.number < first.number
    if processor.has_not_begun:
        if processor.timeout_at is not None:
            processor.timeout_at = now + stopping.timeout_of(tables, first)
        if now >= processor.first_since + BEGIN_SECONDS:
            _replace(tables, processor, now)
    elif event.number == first.number and event.begun_at > processor.first_since:
        if processor.timeout_at is not None:
            processor.timeout_at += event.begun_at - processor.first_since
        processor.first_since = event.begun_at


def was_not_begun(processor: Processor) -> bool:
    """Returns True for a processor that has exited if its first task had no part in that. What ends a processor before
    its very first task may be the handing over itself, so that counts as a death."""
    first = processor.first
    return processor.has_not_begun and processor.ended_count > 0 and first is not None and first.stop is None


def _replace(tables: Tables, processor: Processor, now: float) -> None:
    tables.actions.append(
        Log(
            True,
            f"processor {processor.process_id} is replaced: it has not begun a task for {BEGIN_SECONDS:g} s, because "
            "code that an earlier task has left behind, such as a destructor, does not end",
        )
    )
    stopping.kill(tables, processor, now)
    tasks = [processor.slice[0], *tables.take_rest(processor)]
    processor.slice.clear()
    processor.kill_at = processor.timeout_at = None
    giving_back.to_queue(tables, tasks)
