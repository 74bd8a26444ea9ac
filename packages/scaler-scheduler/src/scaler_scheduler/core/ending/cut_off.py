"""Workers that do not reach the storage: others run what these could not, and these rest for a while (SCH-43, SCH-44).

If no other worker is left, the rest is over at once, because the storage may be gone for all of them. Then tasks
without large values still run. Tasks with large values end with the reason, after as many attempts as a lost task has.
"""

from __future__ import annotations

import math

from scaler_protocol.codec import CodecError, decode_task_error
from scaler_protocol.codes import KIND_INLINE, OWNER_GONE, STATUS_FAILED, STATUS_REFUSED, STORAGE_UNREACHABLE
from scaler_scheduler.core.ending import endings
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.results import Row
from scaler_scheduler.core.entities.states import Move
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.tables import Tables

REST_SECONDS = 10.0
"""Shorter than the time that a first attempt waits for a silent storage, longer than the second does."""

_STATUSES = frozenset({STATUS_REFUSED, STATUS_FAILED})


def is_cut_off(row: Row) -> bool:
    """The task ended so because its worker does not reach the storage."""
    return _code_of(row) == STORAGE_UNREACHABLE


def has_no_owner(row: Row) -> bool:
    """The storage has refused its value: the client has left, as some scheduler has told. (SCH-83)"""
    return _code_of(row) == OWNER_GONE


def _code_of(row: Row) -> int:
    """Of the error of a task that could not be begun, or failed; zero otherwise."""
    if row.status not in _STATUSES or row.kind != KIND_INLINE:
        return 0
    try:
        return decode_task_error(bytes(row.value)).code
    except CodecError:
        return 0


def run_elsewhere(tables: Tables, worker: Worker, chunk: Chunk, row: Row) -> bool:
    """The worker has the task no longer. False: it is being canceled, or has been lost often enough, and ends so."""
    let_rest(tables, worker, worker.heard_at + REST_SECONDS)
    task_id = row.task_id
    # It may have been stored though the answer did not come (OWN-7).
    tables.release([(chunk, chunk.value_id(task_id, row.attempt))])
    if task_id in tables.canceling:
        return False
    lost = (*tables.lost_workers.get(task_id, ()), f"{worker.name}: does not reach the storage")
    tables.lost_workers[task_id] = lost
    if len(lost) >= tables.policy.lost_workers_limit or not tables.begin_attempt(task_id, row.attempt):
        return False
    endings.requeue(tables, task_id, chunk, Move.LOSE_WORKER)
    endings.cancel_children(tables, task_id)
    return True


def let_rest(tables: Tables, worker: Worker, until: float) -> None:
    """Gives the worker no task until then, as long as another one is well."""
    tables.cut_off[worker] = until
    worker.is_cut_off = True


def suspect(tables: Tables, worker: Worker, is_suspected: bool) -> None:
    """Its host may have vanished: it rests until it gives a sign, or is lost. (SCH-84)"""
    if is_suspected:
        let_rest(tables, worker, math.inf)
        worker.load_changed()
    elif tables.cut_off.get(worker) == math.inf:
        tables.cut_off[worker] = 0.0


def settle(tables: Tables, now: float) -> None:
    """Before tasks are placed."""
    is_alone = not any(map(is_well, tables.workers.values()))
    for worker, until in list(tables.cut_off.items()):
        if is_alone or now >= until or worker.peer_id not in tables.workers or _works_again(worker, until):
            del tables.cut_off[worker]
            worker.is_cut_off = False
            worker.load_changed()


def _works_again(worker: Worker, until: float) -> bool:
    """It rests because it stood still, and has ended something since. (SCH-96)"""
    still = worker.still
    return still is not None and still.rests_until == until and worker.results_count != still.results_count


def is_well(worker: Worker) -> bool:
    """Returns True if the worker takes tasks, as far as is known."""
    return worker.limit > 0 and not worker.is_retired and not worker.is_cut_off


def next_deadline(tables: Tables) -> float | None:
    return min(tables.cut_off.values(), default=None)
