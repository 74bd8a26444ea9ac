"""What becomes of tasks that a worker has presented: how they end, and whose objects they leave. (SCH-66 to SCH-70)"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from scaler_protocol.codes import KIND_OBJECT
from scaler_protocol.ids import ObjectId, PeerId, TaskId, result_object_id
from scaler_protocol.messages import Duplicate, Release
from scaler_scheduler.core.actions import SendToStorage
from scaler_scheduler.core.ending import endings
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.results import Row
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.backlog import STEPS_PER_TASK, Job
from scaler_scheduler.core.tables.presentation import Claim, Presented
from scaler_scheduler.core.tables.tables import Tables

PRESENTED_BYTES = 512 * 1024 * 1024
"""Results of tasks that no client has submitted yet: what is beyond is dropped, and runs again if it is submitted."""


def ended(tables: Tables, worker: Worker, row: Row) -> bool:
    """A worker tells how a task ended that it has presented, and that no client has submitted. False: it has not."""
    presentation = tables.presentation
    presented = presentation.of(worker, row.task_id)
    if presented is None or presented.attempt != row.attempt:
        return False
    presentation.end(presented)
    presentation.keep_row(presented, row)
    if presentation.value_bytes > PRESENTED_BYTES:
        drop(tables, row.task_id, presented)
    _cancel_children(tables, row.task_id, presented)
    return True


def must_claim(tables: Tables, worker: Worker, chunk: Chunk, row: Row) -> bool:
    """Its client was another peer when the task began, and its value is that peer's: the present name of the client has
    to own it, and it may be gone with a storage that has died as well. The end of the task waits for that. What the row
    names is not looked at: the scheduler reads for its client, and must not be told by a worker what. (SCH-70)"""
    if row.kind != KIND_OBJECT or row.task_id in tables.abandoned or chunk.client.is_gone:
        return False
    owner = tables.presentation.owners[row.task_id]
    object_id = value_id(chunk, row.task_id, row.attempt, owner)
    client = chunk.client
    request = Duplicate(
        next(tables.storage_request_ids), object_id, object_id, client.peer_id, grant=client.grant, source_owner=owner
    )
    tables.presentation.claim(Claim(request, worker, row._replace(value=object_id)))
    tables.act(SendToStorage(request))
    return True


def disown(tables: Tables, chunk: Chunk, row: Row) -> None:
    """The task has ended. What it has stored for a former name of its client is that name's no longer."""
    owner = tables.presentation.disown(row.task_id)
    assert owner is not None, "it was adopted"
    release_attempt(tables, chunk, row.task_id, row.attempt, owner)  # stored, perhaps, and not reported (OWN-7)


def release_attempt(tables: Tables, chunk: Chunk, task_id: TaskId, attempt: int, owner: PeerId) -> None:
    """What this attempt may have stored for its former client. (OWN-6)"""
    object_id = value_id(chunk, task_id, attempt, owner)
    tables.act(SendToStorage(Release(request_id=0, owner=owner, ids=object_id)))


def value_id(chunk: Chunk, task_id: TaskId, attempt: int, owner: PeerId) -> ObjectId:
    """Where an attempt that was dispatched for this owner stores a large value. (OWN-6)"""
    return result_object_id(task_id, attempt, chunk.header.result_salt, owner)


def worker_left(tables: Tables, worker: Worker) -> None:
    """Drops what the worker presented, as far as no client has submitted it."""
    if tables.presentation.expected.pop(worker, None) is not None:
        tables.presentation.has_broken_off = True
    if worker in tables.presentation.of_worker:
        tables.backlog.start(worker, _leaving(tables, worker))


def _leaving(tables: Tables, worker: Worker) -> Job:
    most = tables.backlog.slice_tasks
    while own := tables.presentation.of_worker.get(worker):
        for task_id, presented in tuple(islice(own.items(), most)):
            drop(tables, task_id, presented)
        yield STEPS_PER_TASK * most


def returned(tables: Tables, worker: Worker, ids: Iterable[TaskId]) -> None:
    """The worker has not begun these tasks, and will not: one that a client submits later is queued."""
    for task_id in ids:
        presented = tables.presentation.of(worker, task_id)
        if presented is not None and not presented.is_ended:
            drop(tables, task_id, presented)


def drop(tables: Tables, task_id: TaskId, presented: Presented) -> None:
    """Drops a presented task: no client has submitted it, or another worker has a later attempt."""
    tables.presentation.take(task_id, presented)
    row = presented.row
    if row is not None and row.kind == KIND_OBJECT:  # of an owner that the worker has proven to act for
        tables.act(SendToStorage(Release(request_id=0, owner=presented.owner, ids=bytes(row.value))))
    if not presented.is_ended:
        _cancel_children(tables, task_id, presented)


def _cancel_children(tables: Tables, task_id: TaskId, presented: Presented) -> None:
    """Of a task that no client has submitted again; not those of another family, whose task has the same id. (CAN-7)"""
    children = tables.children.get(task_id)
    if not children or task_id in tables.where:
        return
    if tables.chunk_of(next(iter(children))).client.proven_family == presented.family:
        endings.cancel_children(tables, task_id)
