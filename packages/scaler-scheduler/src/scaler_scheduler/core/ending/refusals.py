"""A worker refuses a Dispatch: the tasks of that Dispatch end, and nothing else changes (SCH-42)."""

from __future__ import annotations

from scaler_protocol.codec import encode_task_error
from scaler_protocol.codes import (
    BAD_BATCH,
    BAD_ENVELOPE,
    BAD_FRAMING,
    KIND_INLINE,
    STATUS_REFUSED,
    TOO_LARGE,
    error_code_name,
)
from scaler_protocol.columns import split_ids
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import TaskError
from scaler_protocol.session import Complained
from scaler_scheduler.core.ending import endings
from scaler_scheduler.core.entities.results import Row, canceled_row
from scaler_scheduler.core.entities.states import Move
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.backlog import STEPS_PER_TASK, Job
from scaler_scheduler.core.tables.tables import Tables

#: With these codes a receiver says that it could not take the message. All others say something else, or are unknown,
#: and then only `fatal` counts (ERR-5).
REFUSALS = frozenset({BAD_FRAMING, BAD_ENVELOPE, TOO_LARGE, BAD_BATCH})

#: `Worker.dispatches` may have so many entries beyond twice the tasks held, before outdated ones are dropped.
SPARE_ENTRIES = 64


def note_dispatch(worker: Worker, seq: int, ids: bytes) -> None:
    """The session has given a Dispatch of these tasks this number."""
    dispatches = worker.dispatches
    dispatches[TaskId(ids[:ID_BYTES])] = (seq, ids)
    if len(dispatches) > 2 * len(worker.held) + SPARE_ENTRIES:
        # A Dispatch of which a task has ended was not refused.
        worker.dispatches = {first: entry for first, entry in dispatches.items() if first in worker.held}


def complained(tables: Tables, worker: Worker, complaint: Complained) -> Job:
    ids = split_ids(_ids_of(worker, complaint.ref_seq) if complaint.code in REFUSALS else b"")
    most = tables.backlog.slice_tasks // 4 + 1
    for start in range(0, len(ids), most):
        run = [TaskId(task_id) for task_id in ids[start : start + most] if task_id in worker.held]
        for task_id in run:
            _end(tables, worker, task_id, complaint)
        worker.load_changed()
        yield 1 + 2 * STEPS_PER_TASK * len(run)


def _ids_of(worker: Worker, seq: int) -> bytes:
    return next((ids for number, ids in worker.dispatches.values() if number == seq), b"")


def _end(tables: Tables, worker: Worker, task_id: TaskId, complaint: Complained) -> None:
    chunk = tables.take_back(worker, task_id)
    attempt = tables.attempt(task_id)
    if task_id in tables.abandoned:
        endings.end_abandoned(tables, task_id, chunk)
    elif task_id in tables.canceling:
        endings.end_started(tables, chunk, canceled_row(task_id, attempt), Move.CONFIRM)
    else:
        row = Row(task_id, attempt, STATUS_REFUSED, KIND_INLINE, _error(worker, complaint), b"")
        endings.end_started(tables, chunk, row, Move.REFUSE)


def _error(worker: Worker, complaint: Complained) -> bytes:
    """A TaskError has only the codes that may travel in one (ERR-8)."""
    name = error_code_name(complaint.code)
    text = f"worker {worker.name} refused the batch of this task, {name}: {complaint.text}"
    code = TOO_LARGE if complaint.code == TOO_LARGE else BAD_BATCH
    error = TaskError(code=code, type_name="ValueError", message=text, text=text, workers=(worker.name,))
    return encode_task_error(error)
