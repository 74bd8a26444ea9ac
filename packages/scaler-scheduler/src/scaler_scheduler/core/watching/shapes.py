"""Graphs that run, for monitors (MON-12): a plain query, bounded, nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice, repeat
from operator import itemgetter

from scaler_protocol.columns import join_u16
from scaler_protocol.ids import GraphId, PeerId, TaskId
from scaler_protocol.messages import GraphShape, GraphShapes
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.tables import Tables

GRAPHS_LIMIT = 8
TASKS_LIMIT = 1_000
"""Of all graphs together. A picture of more is a grey cloud."""
FAILED_SHARE = 4
"""Of the tasks of a graph that is cut, one in so many may be listed because it failed."""
CHUNKS_LIMIT = 5_000
"""So many batches are looked at for graphs."""

Runs = Sequence[tuple[Chunk, Sequence[int]]]
"""Tasks: of each batch the indexes of some."""

WAITING, QUEUED, DISPATCHED, CANCELING, ENDED = range(5)


def shapes(tables: Tables) -> GraphShapes:
    found: dict[tuple[Client, GraphId], list[Chunk]] = {}
    # A graph that has just ended is shown once more, as it ended.
    for chunk in chain(tables.history.take_ended_graphs(is_watched=True), _chunks(tables)):
        graph = (chunk.client, chunk.header.graph_id)
        if chunk.header.graph_id and (graph in found or len(found) < GRAPHS_LIMIT):
            found.setdefault(graph, []).append(chunk)
    share = TASKS_LIMIT // max(1, len(found))
    return GraphShapes(graphs=tuple(_shape(tables, *graph, chunks, share) for graph, chunks in found.items()))


def _chunks(tables: Tables) -> Iterator[Chunk]:
    left = CHUNKS_LIMIT
    for client in tables.clients.values():
        for chunk in islice(client.chunks, left):
            left -= 1
            yield chunk


def _shape(tables: Tables, client: Client, graph_id: GraphId, chunks: list[Chunk], limit: int) -> GraphShape:
    nodes = _listed(chunks, limit)
    runs = [(chunk, [index for _, index in own]) for chunk, own in groupby(nodes, itemgetter(0))]
    places = {chunk.ids[index]: place for place, (chunk, index) in enumerate(nodes)}
    count = sum(len(chunk.ids) for chunk in chunks)
    graph = tables.display.of(client.peer_id), graph_id
    return shape_of(tables, graph, chunks, count, runs, places)


def shape_of(
    tables: Tables,
    graph: tuple[PeerId, GraphId],
    chunks: Iterable[Chunk],
    task_count: int,
    runs: Runs,
    places: Mapping[TaskId, int] | None,
) -> GraphShape:
    """These tasks of a graph that has these batches. `graph`: the display id of its client, and its own. `places`: of
    the tasks that others may depend on; None: only states are told."""
    ids = [chunk.ids[index] for chunk, indexes in runs for index in indexes]
    outcomes = bytes(map(tables.history.outcomes.get, ids, repeat(0)))
    shape = GraphShape(
        client_id=graph[0],
        graph_id=graph[1],
        task_count=task_count,
        unfinished_count=sum([chunk.unfinished for chunk in chunks]),
        states=b"".join([_states_of(tables, chunk, indexes) for chunk, indexes in runs]),
        outcomes=outcomes if any(outcomes) else b"",
        failed_count=sum([chunk.failed_count for chunk in chunks]),
        canceled_count=sum([chunk.canceled_count for chunk in chunks]),
    )
    return shape if places is None else _with_columns(tables, shape, ids, runs, places)


def _with_columns(
    tables: Tables, shape: GraphShape, ids: list[TaskId], runs: Runs, places: Mapping[TaskId, int]
) -> GraphShape:
    functions, keys, needs = [], [], []
    for chunk, indexes in runs:
        for index in indexes:
            functions.append(chunk.function_id(index))
            keys.append(chunk.key(index))
            needs.append([places[one] for one in chunk.dependencies(index) if one in places])
    return replace(
        shape,
        ids=b"".join(ids),
        functions=b"".join(functions),
        dependency_counts=join_u16([len(own) for own in needs]),
        dependencies=join_u16([one for own in needs for one in own]),
        function_names=tables.function_names.of_all(dict.fromkeys(functions)),
        key_sizes=bytes(map(len, keys)) if any(keys) else b"",
        keys=b"".join(keys),
    )


def _listed(chunks: list[Chunk], limit: int) -> list[tuple[Chunk, int]]:
    """The first tasks, in the order in which they were submitted. Of a graph that is larger, some places are for tasks
    that failed, wherever they stand."""
    first = list(islice(_nodes(chunks), limit + 1))
    if len(first) <= limit:
        return first
    failed = ((chunk, chunk.index_of[task_id]) for chunk in chunks for task_id in chunk.first_failed)
    wanted = set(islice(failed, limit // FAILED_SHARE))
    first = first[: limit - len(wanted)]
    numbers = {chunk: number for number, chunk in enumerate(chunks)}
    return first + sorted(wanted.difference(first), key=lambda node: (numbers[node[0]], node[1]))


def _nodes(chunks: Iterable[Chunk]) -> Iterable[tuple[Chunk, int]]:
    return ((chunk, index) for chunk in chunks for index in range(len(chunk.ids)))


def _states_of(tables: Tables, chunk: Chunk, indexes: Sequence[int]) -> bytes:
    """One that is not accepted yet is neither queued nor with a worker, and has not ended."""
    ids = [chunk.ids[index] for index in indexes]
    states = bytes(map(state_of, repeat(tables), ids))
    if chunk not in tables.admitting:
        return states
    have_ended, pairs = tables.history.outcomes, zip(ids, states, strict=True)
    return bytes([WAITING if state == ENDED and one not in have_ended else state for one, state in pairs])


def state_of(tables: Tables, task_id: TaskId) -> int:
    where = tables.where.get(task_id)
    if where is None:
        return ENDED
    if isinstance(where, Worker):
        return CANCELING if task_id in tables.canceling else DISPATCHED
    return WAITING if task_id in tables.dependencies.waiting else QUEUED
