"""A task that failed, or whose processor died, runs again while it has retries left (SCH-15, SCH-40, SCH-41)."""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.codec import CodecError, decode_task_error, encode_task_error
from scaler_protocol.codes import KIND_INLINE, PROCESSOR_DIED, STATUS_FAILED, STATUS_PROCESSOR_DIED
from scaler_protocol.messages import TaskError
from scaler_scheduler.core import endings, placement
from scaler_scheduler.core.chunk import Chunk
from scaler_scheduler.core.results import Row
from scaler_scheduler.core.states import Move
from scaler_scheduler.core.tables import LAST_ATTEMPT, Tables
from scaler_scheduler.core.workers import Worker

_TRIED_AGAIN = frozenset({STATUS_FAILED, STATUS_PROCESSOR_DIED})

#: Longer accounts of a dead processor are cut: one is kept for each attempt.
LONGEST_ACCOUNT = 200


def may_retry(tables: Tables, chunk: Chunk, row: Row) -> bool:
    """A task that was stopped, because it was canceled or ran for too long, is not tried again."""
    if row.attempt == LAST_ATTEMPT:
        return False
    if row.status not in _TRIED_AGAIN or row.task_id in tables.canceling:
        return False
    return tables.retried.get(row.task_id, 0) < chunk.header.retries


def retry(tables: Tables, worker: Worker, chunk: Chunk, row: Row) -> None:
    """The worker has the task no longer. Its next attempt is due."""
    task_id = row.task_id
    tables.retried[task_id] = tables.retried.get(task_id, 0) + 1
    tables.attempts[task_id] = row.attempt + 1
    if row.status == STATUS_PROCESSOR_DIED:
        tables.deaths.setdefault(task_id, []).append(_account(worker, row))
        endings.requeue(tables, task_id, chunk, Move.RETRY, placement.Elsewhere(tables, worker).enqueue)
    else:
        endings.requeue(tables, task_id, chunk, Move.RETRY)
    endings.cancel_children(tables, task_id)


def with_earlier_deaths(tables: Tables, worker: Worker, chunk: Chunk, row: Row) -> Row:
    """The last of several attempts whose processors died: its error names all of them, or the last that its client has
    room for (PAY-2)."""
    if row.task_id not in tables.deaths or row.kind != KIND_INLINE:
        return row
    deaths = [*tables.deaths[row.task_id], _account(worker, row)]
    message = f"the processor died in {len(deaths)} attempts of this task, so it is not tried again"
    error = _error_of(row)
    while deaths:
        value = encode_task_error(replace(error, message=message, workers=tuple(deaths)))
        if len(value) <= chunk.client.inline_limit:
            return row._replace(value=value)
        deaths = deaths[(len(deaths) + 1) // 2 :]
    return row


def _account(worker: Worker, row: Row) -> str:
    """One attempt: where, and how it ended."""
    error = _error_of(row)
    told = error.workers[0] if error.workers else f"{worker.name}: exited with code {error.exit_code}"
    return f"attempt {row.attempt} on {told}"[:LONGEST_ACCOUNT]


def _error_of(row: Row) -> TaskError:
    try:
        return decode_task_error(bytes(row.value))
    except CodecError:
        return TaskError(code=PROCESSOR_DIED)
