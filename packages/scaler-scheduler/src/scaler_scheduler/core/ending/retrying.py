"""A task that failed, or whose processor died, runs again (SCH-15, SCH-40, SCH-41, SCH-75).

The death of a processor is seldom the task's fault, so a task survives some of them for nothing, as it survives lost
workers. `retries` are for tasks that fail, and for those that kill processor after processor.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from scaler_protocol.codec import CodecError, decode_task_error, encode_task_error
from scaler_protocol.codes import KIND_INLINE, PROCESSOR_DIED, STATUS_FAILED, STATUS_PROCESSOR_DIED
from scaler_protocol.ids import LAST_ATTEMPT, shown_task
from scaler_protocol.messages import TaskError
from scaler_scheduler.core.ending import endings
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.results import Row
from scaler_scheduler.core.entities.states import Move
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.deaths import Deaths, account
from scaler_scheduler.core.tables.tables import Tables

NAME_CHARACTERS = 40
"""So much of the name of a function is told in an event."""
_TRIED_AGAIN = frozenset({STATUS_FAILED, STATUS_PROCESSOR_DIED})


def may_retry(tables: Tables, chunk: Chunk, row: Row) -> bool:
    """A task that was stopped, because it was canceled or ran for too long, is not tried again."""
    if row.attempt >= LAST_ATTEMPT:
        return False
    if row.status not in _TRIED_AGAIN or row.task_id in tables.canceling:
        return False
    return _is_free(tables, chunk, row) or tables.retried.get(row.task_id, 0) < chunk.header.retries


def _is_free(tables: Tables, chunk: Chunk, row: Row) -> bool:
    """The next attempt uses up no retry."""
    if row.status != STATUS_PROCESSOR_DIED:
        return False
    limit = chunk.header.lost_processors_limit or tables.policy.lost_processors_limit
    earlier = tables.deaths.get(row.task_id)
    return (earlier.count if earlier else 0) + 1 < limit


def retry(tables: Tables, worker: Worker, chunk: Chunk, row: Row) -> None:
    """The worker has the task no longer. Its next attempt is due."""
    task_id = row.task_id
    if not _is_free(tables, chunk, row):
        tables.retried[task_id] = tables.retried.get(task_id, 0) + 1
    is_counted = tables.begin_attempt(task_id, row.attempt)
    assert is_counted, "may_retry has refused the last attempt"
    tables.repeat_counts["processor_died" if row.status == STATUS_PROCESSOR_DIED else "failed"] += 1
    if row.status == STATUS_PROCESSOR_DIED:
        note_death(tables, worker, chunk, row, 1)
        tables.deaths.setdefault(task_id, Deaths()).add(worker.name, row.attempt, _error_of(row))
        endings.requeue(tables, task_id, chunk, Move.RETRY, partial(tables.enqueue_elsewhere, worker))
    else:
        tables.release_unused(chunk, row)  # a large exception (OWN-7)
        endings.requeue(tables, task_id, chunk, Move.RETRY)
    endings.cancel_children(tables, task_id)


def note_death(tables: Tables, worker: Worker, chunk: Chunk, row: Row, task_count: int) -> None:
    """Notes an event, with the task that died and how. `task_count`: one if the task runs again. (MON-36)"""
    name = tables.function_names.of(chunk.function_id(chunk.index_of[row.task_id]))[:NAME_CHARACTERS]
    died = account(worker.name, _error_of(row)).removeprefix(f"{worker.name}: ")
    tables.events.note_death(worker.name, f"{name} {shown_task(row.task_id)}: {died}".lstrip(), task_count)


def with_earlier_deaths(tables: Tables, worker: Worker, chunk: Chunk, row: Row) -> Row:
    """The last of several attempts whose processors died: its error names all of them, or the last that its client has
    room for (PAY-2)."""
    deaths = tables.deaths.get(row.task_id)
    if deaths is None or row.kind != KIND_INLINE:
        return row
    error = _error_of(row)
    deaths.add(worker.name, row.attempt, error)
    message = f"the processor died in {deaths.count} attempts of this task, so it is not tried again"
    error = replace(error, message=message, peak_memory_bytes=deaths.peak_memory_bytes)
    accounts = list(deaths.accounts)
    while accounts:
        value = encode_task_error(replace(error, workers=tuple(accounts)))
        if len(value) <= chunk.client.inline_limit:
            return row._replace(value=value)
        accounts = accounts[(len(accounts) + 1) // 2 :]
    return row


def _error_of(row: Row) -> TaskError:
    try:
        return decode_task_error(bytes(row.value))
    except CodecError:
        return TaskError(code=PROCESSOR_DIED)
