"""Tasks that end in great numbers without having begun: their client has gone, or cancels them (SCH-22, CAN-5)."""

from __future__ import annotations

from collections import deque
from itertools import islice

from scaler_protocol.ids import GraphId, TaskId
from scaler_scheduler.core.ending import endings, queued
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.backlog import STEPS_PER_TASK, Job
from scaler_scheduler.core.tables.tables import Tables


def forget_client(tables: Tables, client: Client) -> Job:
    """Oldest first, because the oldest tasks are those that run and are to be stopped."""
    chunks = deque(client.chunks)
    while chunks:
        yield from _forget_chunk(tables, chunks.popleft())
    for graph_id in tuple(client.graphs):
        yield from seal(tables, client, graph_id)
    yield from tables.ready.discard(client)
    tables.combinations.leave(client.combinations)


def _forget_chunk(tables: Tables, chunk: Chunk) -> Job:
    most = tables.backlog.slice_tasks
    for start in range(0, len(chunk.ids), most):
        if not chunk.unfinished:
            break
        ids = chunk.ids[start : start + most]
        if queued.are_plainly_queued(tables, chunk, ids):
            queued.end_queued(tables, chunk, range(start, start + len(ids)), ids)
            yield 3 + len(ids) // 6
        else:
            endings.abandon_all(tables, [task_id for task_id in ids if is_of(tables, task_id, chunk)])
            yield (STEPS_PER_TASK + 1) * len(ids)


def seal(tables: Tables, client: Client, graph_id: GraphId) -> Job:
    """No further batch of this graph follows: results that are kept for it alone are forgotten."""
    ended = iter(client.graphs.pop(graph_id, ()))
    while kept := tuple(islice(ended, tables.backlog.slice_tasks)):
        tables.release(tables.dependencies.sealed(kept))
        yield 1 + len(kept)


def is_of(tables: Tables, task_id: TaskId, chunk: Chunk) -> bool:
    """It has not ended, and no other client has taken it over."""
    place = tables.where.get(task_id)
    return place is chunk or (isinstance(place, Worker) and place.held[task_id] is chunk)
