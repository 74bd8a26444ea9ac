"""Cancelling: always answered, whatever state the task is in (CAN-1 to CAN-6)."""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.codes import CANCEL_CANCELED, CANCEL_UNKNOWN
from scaler_protocol.columns import split_ids
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Cancel, CancelReply
from scaler_scheduler.core import endings
from scaler_scheduler.core.results import canceled_row
from scaler_scheduler.core.states import Move
from scaler_scheduler.core.tables import Client, Tables
from scaler_scheduler.core.workers import Worker


def cancel(tables: Tables, client: Client, message: Cancel) -> None:
    """Unknown ids, and other clients' tasks, are answered UNKNOWN. `is_all` of nothing has an empty answer (CAN-3)."""
    ids = list(unfinished_ids(tables, client)) if message.is_all else list(map(TaskId, split_ids(message.ids)))
    running: dict[Worker, list[TaskId]] = {}
    outcomes: list[tuple[TaskId, int]] = []
    for task_id in dict.fromkeys(ids):
        place = tables.where.get(task_id)
        chunk = None if place is None else tables.chunk_of(task_id)
        if chunk is None or chunk.client is not client:
            # With is_all, a dependent of a task cancelled just before has ended with it.
            outcomes.append((task_id, CANCEL_CANCELED if message.is_all else CANCEL_UNKNOWN))
        elif isinstance(place, Worker):
            endings.mark_canceling(tables, task_id, is_asked=True)
            running.setdefault(place, []).append(task_id)
        else:
            endings.end_unstarted(tables, task_id, chunk)
            outcomes.append((task_id, CANCEL_CANCELED))
    endings.tell_workers(tables, running, message.grace_seconds)
    if not ids:
        tables.tell(client.peer_id, CancelReply(ids=b""))
    for begin in range(0, len(outcomes), client.rows_limit):
        part = outcomes[begin : begin + client.rows_limit]
        reply = CancelReply(ids=b"".join([task_id for task_id, _ in part]), outcomes=bytes(o for _, o in part))
        tables.tell(client.peer_id, reply)


def unfinished_ids(tables: Tables, client: Client) -> Iterable[TaskId]:
    for chunk in client.chunks:
        for task_id in chunk.ids:
            place = tables.where.get(task_id)
            if place is chunk or (isinstance(place, Worker) and place.held[task_id] is chunk):
                yield task_id


def answered(tables: Tables, worker: Worker, message: CancelReply) -> None:
    """A task the worker knows ends by its result. One that it does not know, though we thought so, ends here."""
    outcomes = message.outcomes or bytes(len(message.ids) // ID_BYTES)
    for task_id, outcome in zip(map(TaskId, split_ids(message.ids)), outcomes, strict=True):
        if outcome != CANCEL_UNKNOWN or task_id not in worker.held:
            continue
        chunk = tables.take_back(worker, task_id)
        if task_id in tables.abandoned:
            endings.end_abandoned(tables, task_id)
        else:
            endings.end_started(tables, chunk, canceled_row(task_id, tables.attempt(task_id)), Move.CONFIRM)
    worker.load_changed()
