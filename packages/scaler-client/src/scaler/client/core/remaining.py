"""What of a graph is left to be run by a scheduler that knows nothing of it. (CLI-17)

Nodes stand after all they depend on, so one pass from the last to the first finds what unfinished wanted nodes need: it
stops at results that are known. Those are given to the scheduler first, and all other nodes are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import replace

from scaler.client.core.batching import Bounds, runs_of
from scaler.client.core.cutting import Layout, picked
from scaler.client.core.records import Definition, Graph, GraphBatch, Known
from scaler_protocol import codes, columns
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId, TaskId, new_object_id
from scaler_protocol.messages import KeptResults, TaskHeader

_RESULT_BYTES = ID_BYTES + 1 + 1 + 4
"""Columns of one given result."""


def remaining(graph: Graph, *, may_give: bool, bounds: Bounds) -> list[GraphBatch | KeptResults]:
    """`may_give`: the scheduler takes results of nodes that have ended elsewhere."""
    if not graph.known and graph.wanted_count == len(graph.entries):
        return [*graph.batches]
    known = graph.known if may_give else {}
    given: dict[TaskId, Known] = {}
    left = [picked(batch, indexes) for batch, indexes in _rows_left(graph.batches, _unfinished(graph), known, given)]
    left.reverse()
    last = left[-1]
    left[-1] = GraphBatch(replace(last.message, is_graph_sealed=True), last.wanted)
    return [*_messages(graph, given, bounds), *left]


def needed_results(graph: Graph) -> Container[TaskId]:
    """Of all that is known of this graph, what unfinished nodes depend on, as far as can be told from here."""
    return _needed(graph)


def _needed(graph: Graph) -> dict[TaskId, Known]:
    given: dict[TaskId, Known] = {}
    for _ in _rows_left(graph.batches, _unfinished(graph), graph.known, given):
        pass
    return given


def needs_any(graph: Graph, objects: Container[ObjectId]) -> bool:
    """Some unfinished node depends on a known result that is one of these objects in the storage."""
    every = _needed(graph).values() if graph.has_objects else ()
    return any(known.kind == codes.KIND_OBJECT and ObjectId(known.value) in objects for known in every)


def nodes_again(
    definition: Definition, wanted: Collection[TaskId], new_ids: Callable[[int], Sequence[TaskId]]
) -> tuple[tuple[GraphBatch, ...], dict[TaskId, TaskId]]:
    """These nodes, and all that they need, as a graph of its own with new ids: the old graph may not have ended, and
    may run the same nodes again. Also answers the new id of each."""
    left = [picked(batch, rows) for batch, rows in _rows_left(definition.batches, set(wanted), {}, {})]
    left.reverse()
    old: list[TaskId] = [task_id for batch in left for task_id in columns.split_ids(batch.message.ids)]  # type: ignore[misc]
    new_id_of = dict(zip(old, new_ids(len(old)), strict=True))
    header = replace(left[0].message.header, graph_id=GraphId(new_object_id()))
    batches = [_renamed(batch, new_id_of, wanted, header, is_last=batch is left[-1]) for batch in left]
    return tuple(batches), new_id_of


def _renamed(
    batch: GraphBatch, new_id_of: dict[TaskId, TaskId], wanted: Collection[TaskId], header: TaskHeader, *, is_last: bool
) -> GraphBatch:
    message, payload = batch.message, bytearray(batch.message.payload)
    ids = [TaskId(one) for one in columns.split_ids(message.ids)]
    starts = columns.offsets(columns.split_u32(message.part_sizes))
    for kind, start in zip(message.part_kinds, starts, strict=False):
        if kind == codes.KIND_TASK:
            payload[start : start + ID_BYTES] = new_id_of[TaskId(bytes(payload[start : start + ID_BYTES]))]
    flags = bytes([0 if task_id in wanted else codes.TASK_UNWANTED for task_id in ids])
    renamed = replace(
        message,
        header=header,
        ids=columns.join_ids([new_id_of[task_id] for task_id in ids]),
        payload=bytes(payload),
        dependencies=columns.join_ids([new_id_of[TaskId(one)] for one in columns.split_ids(message.dependencies)]),
        task_flags=flags if any(flags) else b"",
        is_graph_sealed=is_last,
    )
    places = [(place, new_id_of[task_id]) for place, task_id in enumerate(ids) if task_id in wanted]
    return GraphBatch(renamed, tuple(places))


def _unfinished(graph: Graph) -> set[TaskId]:
    return {task_id for entry in graph.entries if entry.unfinished_count for task_id in entry.submission.ids}


def _rows_left(
    batches: Sequence[GraphBatch], needed: set[TaskId], known: dict[TaskId, Known], given: dict[TaskId, Known]
) -> Iterator[tuple[GraphBatch, list[int]]]:
    """What is needed for these, batch by batch, from the last to the first; into `given` goes what of it is known."""
    for batch in reversed(batches):
        ids: tuple[TaskId, ...] = columns.split_ids(batch.message.ids)  # type: ignore[assignment]
        dependencies, starts = columns.split_ids(batch.message.dependencies), Layout(batch.message).needs
        indexes: list[int] = []
        for index in range(len(ids) - 1, -1, -1):
            if ids[index] not in needed:
                continue
            needed.discard(ids[index])
            indexes.append(index)
            for other in map(TaskId, dependencies[starts[index] : starts[index + 1]]):
                if other in known:
                    given[other] = known[other]
                else:
                    needed.add(other)
        if indexes:
            indexes.reverse()
            yield batch, indexes


def _messages(graph: Graph, given: dict[TaskId, Known], bounds: Bounds) -> Iterator[KeptResults]:
    rows = list(given.items())
    for begin, end in runs_of([(len(known.value), _RESULT_BYTES) for _, known in rows], bounds):
        piece = rows[begin:end]
        kinds = bytes([known.kind for _, known in piece])
        flags = bytes([0 if known.is_wanted else codes.TASK_UNWANTED for _, known in piece])
        yield KeptResults(
            ids=columns.join_ids([task_id for task_id, _ in piece]),
            payload=b"".join([known.value for _, known in piece]),
            sizes=columns.join_u32([len(known.value) for _, known in piece]),
            kinds=kinds if any(kinds) else b"",
            task_flags=flags if any(flags) else b"",
            graph_id=graph.graph_id,
        )
