"""What a client may do to the tasks of others: with keys, nothing to those of another user. (SCH-56, SCH-57)

A client that comes back under another `peerId` takes over what it had by the ids of its tasks. Watchers see these ids,
so they prove nothing: the user of the ticket does. Without keys clients have no users, and any client may do it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scaler_protocol.codes import DUPLICATE_TASK
from scaler_protocol.ids import TaskId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import NO_TASK, TaskHeader
from scaler_scheduler.core.tables import Client, Tables
from scaler_scheduler.core.workers import Worker


def foreign_task(tables: Tables, client: Client, ids: Iterable[TaskId]) -> tuple[int, str, str] | None:
    """Why the batch is refused: one of these is a task of another user that is unfinished, or whose result is kept."""
    if client.identity is None:
        return None
    for task_id in _present(tables, ids):
        holder = _client_of(tables, task_id)
        if holder is not None and not _are_of_one_user(holder, client):
            text = f"task {task_id.hex()} is another user's: nothing of this batch was accepted"
            return DUPLICATE_TASK, text, "SCH-56"
    return None


def own_header(tables: Tables, client: Client, header: TaskHeader) -> TaskHeader:
    """The header with the client in it; and without a parent that is no task of the client's user or program, to which
    that task would lend its amounts. (SCH-57)"""
    own = client.own(header)
    if client.identity is None or not own.parent_task:
        return own
    if tables.families.has_ended(own.parent_task):
        return own  # such a parent lends nothing: its children only end
    if own.parent_task in tables.where:
        parent = _client_of(tables, own.parent_task)
        is_own = parent is not None and (parent.family == client.family or _are_of_one_user(parent, client))
    else:  # it is adopted as soon as its client has submitted it again (SCH-74)
        is_own = tables.presentation.get(own.parent_task, client.family) is not None
    return own if is_own else replace(own, parent_task=NO_TASK)


def family_in_task(tables: Tables, task_id: TaskId, identity: Identity) -> bytes | None:
    """Of a client in this task; None if no worker of this user has the task, or has presented it."""
    place = tables.where.get(task_id)
    if isinstance(place, Worker) and place.user == identity.user:
        return place.held[task_id].client.family
    presented = tables.presentation.running_for(task_id, identity.user)
    return None if presented is None else presented.family


def _present(tables: Tables, ids: Iterable[TaskId]) -> list[TaskId]:
    """Which of these are here. Most batches have new ids only."""
    kept = tables.dependencies.kept
    if tables.where.keys().isdisjoint(ids) and (not kept or kept.keys().isdisjoint(ids)):
        return []
    return [task_id for task_id in ids if task_id in tables.where or task_id in kept]


def _client_of(tables: Tables, task_id: TaskId) -> Client | None:
    if task_id in tables.where:
        return tables.chunk_of(task_id).client
    kept = tables.dependencies.kept.get(task_id)
    return None if kept is None else kept.chunk.client


def _are_of_one_user(one: Client, other: Client) -> bool:
    return one.identity is None or other.identity is None or one.identity.user == other.identity.user
