"""Handling one row costs the same whatever else its client has: laws over pairs of sizes.

A workload that grows with its own size is not enough (`test_growth`): a failing graph of 16,000 tasks cost 18 s beside
a graph of 400,000, and nothing beside none. Each case has some rows, and neighbours that the rows say nothing about.
The bytecodes for the rows are counted beside few neighbours and beside many. Neighbours are cut into small batches, so
that a loop of C over them is one of Python as well, and what stands in columns counts how often it is added up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from scaler.client.core.core import ClientCore
from scaler.client.core.events import CancelRequested, Flush, GraphSubmitted, Unneeded
from scaler.client.core.records import GraphBatch, Submission
from scaler_protocol import codes, columns
from scaler_protocol.codec import encode_task_error
from scaler_protocol.columns import join_ids, join_u32
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId, TaskId
from scaler_protocol.messages import Results, Submit, TaskError, TaskHeader
from scaler_protocol.session import Received
from tests.costs.test_growth import bytecodes_of
from tests.support.client_core import FUNCTION, HEADER, SERVER, Waiter, opened

ROWS = 40
FEW, MANY = 50, 1_000
BATCH = 10
"""Tasks of a neighbour in one message."""

TaskIds = list[TaskId]


def ids_of(salt: int, count: int) -> TaskIds:
    return [TaskId(bytes([salt]) + bytes(7) + number.to_bytes(8, "little")) for number in range(count)]


def graph_of(ids: TaskIds, wanted: TaskIds, name: int = 1) -> GraphSubmitted:
    """Tasks that are independent, as far as their client can see."""
    graph_id = GraphId(name.to_bytes(ID_BYTES, "little"))
    header = TaskHeader(graph_id=graph_id)
    batches: list[GraphBatch] = []
    for begin in range(0, len(ids), BATCH):
        own = ids[begin : begin + BATCH]
        places = tuple((place, one) for place, one in enumerate(own) if one in wanted)
        flags = bytes(0 if one in wanted else codes.TASK_UNWANTED for one in own)
        sizes, is_last = join_u32([0] * len(own)), begin + BATCH >= len(ids)
        message = Submit(
            header, FUNCTION, join_ids(own), b"", sizes, task_flags=flags, is_graph_sealed=is_last
        )  # fmt: skip
        batches.append(GraphBatch(message, places))
    entries = tuple(Submission(header, FUNCTION, (one,), b"", (), Waiter()) for one in wanted)
    return GraphSubmitted(graph_id, tuple(batches), entries, (), ())


class World:
    """A client's core with neighbours."""

    def __init__(self, *events: Any) -> None:
        self.core = ClientCore(timeout_seconds=60)
        self(opened(), *events)

    def __call__(self, *events: Any) -> None:
        for event in events:
            self.core.handle(event, 1.0)
            self.core.handle(Flush(0, 0), 1.0)
            self.core.performed()


def one_large_graph(size: int) -> World:
    ids = ids_of(1, size)
    return World(graph_of(ids, ids[-1:]))


def many_graphs(size: int) -> World:
    return World(*[graph_of([one], [one], 100 + number) for number, one in enumerate(ids_of(1, size))])


def graphs_with_objects(size: int) -> World:
    """Each has ended but for one task; the program was told of a stored value of each."""
    world = World()
    for number, (first, last) in enumerate(zip(ids_of(1, size), ids_of(2, size), strict=True)):
        world(graph_of([first, last], [first, last], 100 + number), rows(stored([first])))
    return world


def many_calls(size: int) -> World:
    return World(*[call_of([one]) for one in ids_of(1, size)])


def one_large_map(size: int) -> World:
    return World(call_of(ids_of(1, size)))


NEIGHBOURS = (one_large_graph, many_graphs, graphs_with_objects, many_calls, one_large_map)


def call_of(ids: TaskIds, objects: tuple[ObjectId, ...] = ()) -> Submission:
    return Submission(HEADER, FUNCTION, tuple(ids), b"", (0,) * len(ids), Waiter(), objects=objects)


def rows(results: Results) -> Received:
    return Received(SERVER, 1, results)


def refused(ids: TaskIds, code: int = codes.DEPENDENCY_FAILED) -> Results:
    return _errors(ids, codes.STATUS_REFUSED, code)


def failed(ids: TaskIds) -> Results:
    return _errors(ids, codes.STATUS_FAILED, codes.TASK_RAISED)


def _errors(ids: TaskIds, status: int, code: int) -> Results:
    value = encode_task_error(TaskError(code=code, type_name="x", message="it depends on a task that failed"))
    sizes = join_u32([len(value)] * len(ids))
    return Results(join_ids(ids), value * len(ids), sizes, b"", bytes([status]) * len(ids), b"")


def stored(ids: TaskIds) -> Results:
    sizes = join_u32([ID_BYTES] * len(ids))
    return Results(join_ids(ids), join_ids(ids), sizes, kinds=bytes([codes.KIND_OBJECT]) * len(ids))


def values(ids: TaskIds) -> Results:
    return Results(join_ids(ids), b"v" * len(ids), join_u32([1] * len(ids)))


class Case(NamedTuple):
    """The contents of the world besides its neighbours, and the events that are counted."""

    before: Callable[[TaskIds], tuple[Any, ...]]
    counted: Callable[[TaskIds], tuple[Any, ...]]


CASES = {
    "dependents of an ended graph are refused": Case(lambda _: (), lambda ids: (rows(refused(ids)),)),
    "tasks of an ended graph miss a value": Case(lambda _: (), lambda ids: (rows(refused(ids, codes.NO_SUCH_OBJECT)),)),
    "tasks of an ended graph fail": Case(lambda _: (), lambda ids: (rows(failed(ids)),)),
    "tasks of an ended graph store values": Case(lambda _: (), lambda ids: (rows(stored(ids)),)),
    "a graph fails by an unwanted task": Case(
        lambda ids: (graph_of(ids, ids[-1:]),), lambda ids: (rows(failed(ids[:1])), rows(refused(ids[1:])))
    ),
    "a graph fails by a wanted task": Case(
        lambda ids: (graph_of(ids, ids),), lambda ids: (rows(failed(ids[:1])), rows(refused(ids[1:])))
    ),
    "tasks of a graph are refused because of one that is not known": Case(
        lambda ids: (graph_of([*ids, *ids_of(8, 1)], ids_of(8, 1)),), lambda ids: (rows(refused(ids)),)
    ),
    "a graph ends": Case(lambda ids: (graph_of(ids, ids),), lambda ids: (rows(stored(ids)),)),
    "graphs begin": Case(
        lambda _: (), lambda ids: tuple(graph_of([one], [one], number + 1) for number, one in enumerate(ids))
    ),
    "a map ends": Case(lambda ids: (call_of(ids),), lambda ids: (rows(values(ids)),)),
    "calls end": Case(lambda ids: tuple(call_of([one]) for one in ids), lambda ids: (rows(values(ids)),)),
    "calls begin": Case(lambda _: (), lambda ids: tuple(call_of([one]) for one in ids)),
    "calls are canceled": Case(
        lambda ids: tuple(call_of([one]) for one in ids), lambda ids: (CancelRequested(tuple(ids)),)
    ),
    "a graph is canceled": Case(lambda ids: (graph_of(ids, ids),), lambda ids: (CancelRequested(tuple(ids)),)),
    "values are dropped": Case(
        lambda ids: (call_of(ids), rows(stored(ids))), lambda ids: (Unneeded(tuple(map(ObjectId, ids))),)
    ),
}


def counted(neighbours: Callable[[int], World], size: int, case: Case) -> int:
    world, ids = neighbours(size), ids_of(9, ROWS)
    world(*case.before(ids))
    return bytecodes_of(lambda: world(*case.counted(ids)))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("name", CASES)
def test_rows_cost_the_same_beside_any_neighbours(name: str, neighbours: Callable[[int], World]) -> None:
    few, many = (counted(neighbours, size, CASES[name]) for size in (FEW, MANY))
    assert many <= 1.05 * few + 100, f"{many:,} steps beside {MANY:,} neighbours, {few:,} beside {FEW}"


class Added(int):
    """A size that counts how often it is added up."""

    count = 0

    def __add__(self, other: int) -> Added:
        Added.count += 1
        return Added(int(self) + int(other))

    __radd__ = __add__


@pytest.mark.parametrize("make", (refused, failed, values, stored))
def test_rows_are_added_up_once(make: Callable[[TaskIds], Results], monkeypatch: pytest.MonkeyPatch) -> None:
    """For each row the sizes of all rows before it were added up."""
    ids = ids_of(9, 10 * ROWS)
    world = World(graph_of([*ids, *ids_of(8, 1)], ids_of(8, 1)))
    split = columns.split_u32
    monkeypatch.setattr(columns, "split_u32", lambda column: tuple(map(Added, split(column))))
    Added.count = 0
    world(rows(make(ids)))
    assert Added.count <= 8 * len(ids)
