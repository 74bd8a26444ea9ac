"""Many tasks of graphs succeed at once: what `endings` does with one, by the column (SCH-14 to SCH-18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from scaler_protocol.codes import KIND_OBJECT, TASK_UNWANTED
from scaler_protocol.columns import offsets, split_u32
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import Results
from scaler_scheduler.core.ending import endings
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.tables.dependencies import Kept
from scaler_scheduler.core.tables.tables import Tables


def pass_on(
    tables: Tables,
    message: Results,
    ids: Sequence[TaskId],
    chunks: Sequence[Chunk],
    indexes: Mapping[Chunk | None, Sequence[int]],
) -> list[int]:
    """To those that wait for them. Answers the rows that a client or a dependent waits for.

    `indexes`: which tasks of each batch these are."""
    dependencies = tables.dependencies
    wanted: list[int] = []
    unused: list[tuple[Chunk, ObjectId]] = []
    columns = zip(ids, chunks, message.kinds or bytes(len(ids)), _values(message), strict=True)
    users, kept, last = dependencies.users, dependencies.kept, None
    for row, (task_id, chunk, kind, value) in enumerate(columns):
        if chunk is not last:  # what is the same for all of one batch
            last, index_of, flags = chunk, chunk.index_of, chunk.batch.task_flags
            is_open = chunk.header.graph_id in chunk.client.graphs
        is_wanted = not flags or not flags[index_of[task_id]] & TASK_UNWANTED
        if is_wanted:
            wanted.append(row)
        if is_open:
            dependencies.keep(task_id, Kept(chunk, kind, value, is_wanted))
        elif task_id in users:
            kept[task_id] = Kept(chunk, kind, value, is_wanted)
        elif kind == KIND_OBJECT and not is_wanted:
            unused.append((chunk, ObjectId(value)))
    endings.resume_waiting(tables, dependencies.succeeded(ids))
    for batch, of_batch in indexes.items():
        if batch is not None and batch.has_dependencies:
            unused += dependencies.ended(batch, of_batch)
    tables.release(unused)
    return wanted


def _values(message: Results) -> list[bytes]:
    payload = bytes(message.payload)
    return [payload[start:stop] for start, stop in pairwise(offsets(split_u32(message.sizes)))]
