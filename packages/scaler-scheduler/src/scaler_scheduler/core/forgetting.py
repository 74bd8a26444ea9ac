"""Tasks that end in great numbers without having begun: their client has gone, or cancels them (SCH-22, CAN-5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import repeat

from scaler_protocol.codes import KIND_NONE, STATUS_CANCELED
from scaler_protocol.columns import join_ids
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Results
from scaler_scheduler.core import endings
from scaler_scheduler.core.backlog import Job
from scaler_scheduler.core.chunk import Chunk
from scaler_scheduler.core.states import Move, State
from scaler_scheduler.core.tables import Client, Tables
from scaler_scheduler.core.workers import Worker

STEPS_PER_TASK = 10
"""Of a task that is looked at by itself."""


def forget_client(tables: Tables, client: Client) -> Job:
    """Oldest first, because the oldest tasks are those that run and are to be stopped."""
    chunks = deque(client.chunks)
    while chunks:
        yield from _forget_chunk(tables, chunks.popleft())
    while client.graphs:
        kept = client.graphs.popitem()[1]
        tables.release(tables.dependencies.sealed(kept))
        yield 1 + len(kept)
    yield from tables.ready.discard(client)


def _forget_chunk(tables: Tables, chunk: Chunk) -> Job:
    most = tables.backlog.slice_tasks
    for start in range(0, len(chunk.ids), most):
        if not chunk.unfinished:
            break
        ids = chunk.ids[start : start + most]
        if are_plainly_queued(tables, chunk, ids):
            end_queued(tables, chunk, range(start, start + len(ids)), ids)
            yield 3 + len(ids) // 6
        else:
            endings.abandon_all(tables, [task_id for task_id in ids if is_of(tables, task_id, chunk)])
            yield STEPS_PER_TASK * len(ids)


def is_of(tables: Tables, task_id: TaskId, chunk: Chunk) -> bool:
    """It has not ended, and no other client has taken it over."""
    place = tables.where.get(task_id)
    return place is chunk or (isinstance(place, Worker) and place.held[task_id] is chunk)


def are_plainly_queued(tables: Tables, chunk: Chunk, ids: Sequence[TaskId]) -> bool:
    """All of these wait for a worker and for nothing else, and no other task has to do with them."""
    if chunk.has_dependencies or chunk.header.graph_id:
        return False
    if list(map(tables.where.get, ids)).count(chunk) < len(ids):
        return False
    others = (tables.dependencies.waiting, tables.dependencies.users, tables.children)
    return all(table.keys().isdisjoint(ids) for table in others if table)


def end_queued(tables: Tables, chunk: Chunk, indexes: range | list[int], ids: Sequence[TaskId]) -> None:
    """They are canceled; `are_plainly_queued` is true of them."""
    deque(map(tables.where.__delitem__, ids), 0)
    tables.ready.drop_all(chunk, indexes)
    tables.move(State.QUEUED, Move.CANCEL, len(ids))
    for table in (tables.attempts, tables.lost_workers, tables.retried, tables.deaths):
        if table:
            deque(map(table.pop, ids, repeat(None)), 0)
    tables.leave_parent(chunk, ids)
    tables.unfinish(chunk, len(ids))


def canceled_results(tables: Tables, ids: Sequence[TaskId]) -> Results:
    """What their client is told. While the tables still know their attempts."""
    count = len(ids)
    return Results(
        ids=join_ids(ids),
        attempts=tables.attempts_column(ids),
        statuses=bytes((STATUS_CANCELED,)) * count,
        kinds=bytes((KIND_NONE,)) * count,
        sizes=bytes(4 * count),
        payload=b"",
    )
