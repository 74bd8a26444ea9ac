"""Queued tasks that end without having begun, by the column: nothing else has to do with them (SCH-22, CAN-5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import repeat

from scaler_protocol.codes import KIND_NONE, STATUS_CANCELED
from scaler_protocol.columns import join_ids
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Results
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.results import canceled_row
from scaler_scheduler.core.entities.states import Move, State
from scaler_scheduler.core.tables.tables import Tables


def are_plainly_queued(tables: Tables, chunk: Chunk, ids: Sequence[TaskId]) -> bool:
    """All of these wait for a worker and for nothing else, and no other task has to do with them."""
    if chunk.has_dependencies or chunk.header.graph_id:
        return False
    if list(map(tables.where.get, ids)).count(chunk) < len(ids):
        return False
    others = (tables.dependencies.waiting, tables.dependencies.users, tables.children)
    return all(table.keys().isdisjoint(ids) for table in others if table)


def cancel_queued(tables: Tables, chunk: Chunk, ids: Sequence[TaskId]) -> None:
    """Their client is told, and they end; `are_plainly_queued` is true of them."""
    if len(ids) == 1:
        tables.deliver(chunk.client, canceled_row(ids[0], tables.attempt(ids[0])))
    elif not chunk.client.is_gone:
        tables.answer(chunk.client, canceled_results(tables, ids), len(ids))
    end_queued(tables, chunk, [chunk.index_of[task_id] for task_id in ids], ids)


def end_queued(tables: Tables, chunk: Chunk, indexes: range | list[int], ids: Sequence[TaskId]) -> None:
    """They are canceled; `are_plainly_queued` is true of them."""
    deque(map(tables.where.__delitem__, ids), 0)
    if tables.attempts:
        deque(map(tables.families.note_end, filter(tables.attempts.__contains__, ids)), 0)
    tables.ready.drop_all(chunk, indexes)
    tables.functions.ended(chunk, indexes, tables.move(State.QUEUED, Move.CANCEL, len(ids)), tables.history.now)
    for table in (tables.attempts, tables.lost_workers, tables.retried, tables.deaths):
        if table:
            deque(map(table.pop, ids, repeat(None)), 0)
    if chunk.header.graph_id:
        tables.history.note_outcomes(chunk, ids, STATUS_CANCELED)
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
