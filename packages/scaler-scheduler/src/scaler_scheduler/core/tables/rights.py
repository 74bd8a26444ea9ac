"""What a client may do to the tasks of others: with keys, nothing to those of another user. (SCH-56, SCH-57, SCH-97)

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
from scaler_scheduler.core.entities.clients import Client
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.tables import Tables

DEEPEST = (1 << 16) - 1
"""The field has no more bits."""


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
    """Returns the header with the client in it. Without a parent that is a task of the client's user or program it has
    none, to which that task would lend its amounts; and of users its depth is what the parent proves. (SCH-57)"""
    own = client.own(header)
    if client.identity is None:
        return own
    parent_task, depth = _parent(tables, client, own)
    if client.identity.is_operator:
        depth = own.depth  # as without keys: operators may end the cluster, and what they claim is believed
    if (parent_task, depth) == (own.parent_task, own.depth):
        return own
    return replace(own, parent_task=parent_task, depth=depth)


def _parent(tables: Tables, client: Client, own: TaskHeader) -> tuple[TaskId, int]:
    """Returns the parent of these tasks, if it may be theirs, and their depth."""
    parent_task = own.parent_task
    if not parent_task:
        return NO_TASK, 0
    if tables.families.has_ended(parent_task):
        return parent_task, 0  # such a parent lends nothing: its children only end
    place = tables.where.get(parent_task)
    if place is None:  # it is adopted as soon as its client has submitted it again (SCH-74), and tells its depth then
        is_presented = tables.presentation.get(parent_task, client.family) is not None
        return (parent_task, own.depth) if is_presented else (NO_TASK, 0)
    chunk = place.held[parent_task] if isinstance(place, Worker) else place
    if chunk.client.family != client.family and not _are_of_one_user(chunk.client, client):
        return NO_TASK, 0
    # A task that no worker has submits nothing: else a task that waits for ever would open the way for all others.
    has_begun = isinstance(place, Worker) or tables.presentation.is_recovering
    return parent_task, min(chunk.header.depth + 1, DEEPEST) if has_begun else 0


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
