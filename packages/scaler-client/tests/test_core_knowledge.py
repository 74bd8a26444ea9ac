"""Nodes of a graph that have ended are not run again when the scheduler is lost. (CLI-17, CLI-18)"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.client_chains import NAME, STORED, begun, chain, kept, lines, messages, node, opened
from tests.support.client_core import (
    GRAPH,
    OBJECT,
    Told,
    call,
    completions,
    ended,
    lost,
    names_in,
    succeeded,
    task,
)
from tests.support.client_graphs import GraphNode, graph_of

from scaler.client.core import invariants, knowledge, remaining
from scaler.client.core.actions import Claim, Release
from scaler.client.core.batching import bounds_of
from scaler.client.core.core import ClientCore
from scaler.client.core.events import CancelRequested, ObjectsLost, TakenOver, Unneeded
from scaler.client.core.records import Definition, Entry, Graph, Known
from scaler.client.core.states import State
from scaler_protocol import codec, codes, columns
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId, PeerId, TaskId
from scaler_protocol.messages import KeptResults, Limits, Submit


def test_what_is_known_is_given_and_the_rest_submitted() -> None:
    told = begun(chain("a", "b", "c", "d"))
    told(kept({"b": b"of b"}))
    told(lost())
    told(opened())
    given_, rest = messages(told)
    assert isinstance(given_, KeptResults)
    assert (given_.ids, given_.payload, given_.task_flags) == (task("b"), b"of b", bytes([codes.TASK_UNWANTED]))
    assert given_.graph_id == GRAPH
    assert isinstance(rest, Submit)
    assert names_in(rest) == ["c", "d"]
    assert columns.split_ids(rest.dependencies) == (task("b"), task("c")), "`b` is a dependency like any other"
    assert rest.is_graph_sealed
    assert completions(told(succeeded("d"))) == {task("d"): codes.STATUS_SUCCESS}
    assert told.core._knowledge.known_bytes == 0


def test_each_loss_begins_where_the_last_one_left_off() -> None:
    told = begun(chain("a", "b", "c", "d", "e", batch_tasks=2))
    told(kept({"a": b"1"}))
    told(lost())
    told(opened())
    assert lines(told) == ["given a", "submit b", "submit c d", "submit e sealed"]
    told(kept({"c": b"3"}))
    told(lost())
    told(opened())
    assert lines(told) == ["given c", "submit d", "submit e sealed"]
    told(lost())
    told(opened())
    assert lines(told) == ["given c", "submit d", "submit e sealed"]


def test_a_scheduler_that_takes_no_results_runs_everything_again() -> None:
    told = begun(chain("a", "b", "c"))
    told(kept({"b": b"2"}))
    told(lost())
    told(opened(may_give=False))
    assert lines(told) == ["submit a b c sealed"]


def test_nodes_that_only_ended_ones_needed_are_left_out() -> None:
    graph = graph_of(GRAPH, [node("a"), node("b", "a", is_wanted=True), node("c"), node("d", "c", is_wanted=True)])
    told = begun(graph)
    told(succeeded("b"))
    told(lost())
    told(opened(may_give=False))
    assert lines(told) == ["submit c d sealed"]


def test_wanted_nodes_are_known_from_their_results() -> None:
    graph = graph_of(GRAPH, [node("a", is_wanted=True), node("b", "a", is_wanted=True)])
    told = begun(graph)
    told(succeeded("a"))
    told(lost())
    told(opened())
    given_, rest = messages(told)
    assert isinstance(given_, KeptResults)
    assert (given_.ids, given_.payload, given_.task_flags) == (task("a"), b"a", b"")
    assert isinstance(rest, Submit)
    assert names_in(rest) == ["b"]


def test_what_is_told_of_other_graphs_is_passed_over() -> None:
    told = begun(chain("a", "b"))
    told(kept({"a": b"1"}, graph_id=GraphId(task("another"))))
    told(kept({"b": b"it has not ended"}))
    assert told.core._knowledge.known_bytes == 0


# ------------------------------------------------------------ objects


def claimed(told: Told) -> list[tuple[TaskId, ObjectId]]:
    return [one for action in told(lost()) if isinstance(action, Claim) for one in action.results]


def test_objects_are_claimed_and_waited_for() -> None:
    told = begun(chain("a", "b", "c"))
    told(kept({"b": STORED}, kind=codes.KIND_OBJECT))
    assert claimed(told) == [(task("b"), STORED)]
    told(opened())
    assert lines(told) == [], "the storage may have lost it"
    told(TakenOver(PeerId(b"of an earlier life")))
    assert lines(told) == []
    told(TakenOver(NAME))
    assert lines(told) == ["given b", "submit c sealed"]
    released = [action for action in told(succeeded("c")) if isinstance(action, Release)]
    assert released == [Release((STORED,))], "if the scheduler was lost before it could"


def test_nodes_whose_objects_are_gone_run_again() -> None:
    told = begun(chain("a", "b", "c", "d"))
    told(kept({"a": b"1"}))
    told(kept({"c": STORED}, kind=codes.KIND_OBJECT))
    told(lost())
    told(opened())
    told(ObjectsLost((STORED,), is_session_lost=True))
    told(TakenOver(NAME))
    assert lines(told) == ["given a", "submit b c d sealed"]


def test_objects_that_cannot_be_looked_for_are_made_again() -> None:
    told = begun(chain("a", "b", "c"))
    told(kept({"b": STORED}, kind=codes.KIND_OBJECT))
    told(lost())
    told(opened())
    told(TakenOver(NAME, is_complete=False))
    assert lines(told) == ["submit a b c sealed"]


def test_a_graph_that_waits_for_the_storage_can_be_canceled() -> None:
    told = begun(chain("a", "b", "c"))
    told(kept({"b": STORED}, kind=codes.KIND_OBJECT))
    told(lost())
    told(opened())
    actions = told(CancelRequested((task("c"),)))
    assert completions(actions) == {task("c"): codes.STATUS_CANCELED}
    assert Release((STORED,)) in actions
    told(TakenOver(NAME))
    assert lines(told) == []


def test_the_next_loss_begins_the_wait_anew() -> None:
    told = begun(chain("a", "b", "c"))
    told(kept({"b": STORED}, kind=codes.KIND_OBJECT))
    told(lost())
    told(opened())
    assert claimed(told) == [(task("b"), STORED)]
    other = PeerId(b"another name".ljust(16, b"."))
    told(opened(name=other))
    told(TakenOver(NAME))
    assert lines(told) == []
    told(TakenOver(other))
    assert lines(told) == ["given b", "submit c sealed"]


def test_the_object_of_a_wanted_node_stays_the_clients() -> None:
    graph = graph_of(GRAPH, [node("a", is_wanted=True), node("b", "a"), node("c", "b", is_wanted=True)])
    told = begun(graph)
    told(ended("a", codes.STATUS_SUCCESS, codes.KIND_OBJECT, OBJECT))
    assert claimed(told) == [], "it is among what the client holds"
    told(opened())
    told(TakenOver(NAME))
    given_, _ = messages(told)
    assert isinstance(given_, KeptResults)
    assert (given_.kinds, given_.task_flags) == (bytes([codes.KIND_OBJECT]), b""), "not the scheduler's to release"


def resubmitted() -> Told:
    """Two wanted nodes run again, of which the first had ended and stored its value as OBJECT."""
    told = begun(graph_of(GRAPH, [node("a", is_wanted=True), node("b", "a", is_wanted=True)]))
    told(ended("a", codes.STATUS_SUCCESS, codes.KIND_OBJECT, OBJECT))
    told(lost())
    told(opened(may_give=False))
    told(TakenOver(NAME))
    return told


def test_a_stored_result_that_runs_again_is_not_released() -> None:
    """Another run stores under the same id. The scheduler must not release it, and the client does not count it as a
    result of an unknown task."""
    told = resubmitted()
    (again,) = messages(told)
    assert isinstance(again, Submit)
    assert names_in(again) == ["a", "b"]
    assert not any(again.task_flags)
    assert told(ended("a", codes.STATUS_SUCCESS, codes.KIND_OBJECT, OBJECT)) == []


def test_what_another_attempt_has_stored_is_released_with_the_graph() -> None:
    """The scheduler takes it for wanted, and passes it on to nodes that depend on it."""
    told = resubmitted()
    messages(told)
    assert told(ended("a", codes.STATUS_SUCCESS, codes.KIND_OBJECT, STORED)) == []
    assert told(Unneeded((OBJECT,))) == []
    assert told(succeeded("b"))[-1] == Release((STORED, OBJECT))


# ------------------------------------------------------------ bounds


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no unfinished node can need goes first, then what has been known for the longest time."""
    monkeypatch.setattr(knowledge, "KNOWN_BYTES", 4 * (knowledge.ROW_BYTES + 100))
    leaves = [f"leaf{number}" for number in range(10)]
    first = [node("x"), node("y", "x")]
    told = begun(graph_of(GRAPH, [*first, *map(node, leaves), node("sum", "y", *leaves, is_wanted=True)]))
    told(kept({"x": bytes(100)}))
    told(kept({"y": bytes(100)}))
    for leaf in leaves[:2]:
        told(kept({leaf: bytes(100)}))
    (graph,) = told.core._table.graphs.values()
    assert list(graph.known) == [task(name) for name in ("x", "y", "leaf0", "leaf1")]
    told(kept({leaves[2]: bytes(100)}))
    assert list(graph.known) == [task("leaf1"), task("leaf2")]
    for leaf in leaves[3:]:
        told(kept({leaf: bytes(100)}))
        assert told.core._knowledge.known_bytes <= knowledge.KNOWN_BYTES


def test_what_is_given_keeps_the_limits_of_the_session() -> None:
    leaves = [f"leaf{number}" for number in range(10)]
    told = begun(graph_of(GRAPH, [*map(node, leaves), node("sum", *leaves, is_wanted=True)]))
    told(kept({leaf: bytes(10) for leaf in leaves}))
    told(lost())
    told(opened(limits=Limits(batch_tasks=4)))
    sent = messages(told)
    assert [len(message.ids) // ID_BYTES for message in sent] == [4, 4, 2, 1]
    assert [type(message) for message in sent] == [KeptResults, KeptResults, KeptResults, Submit]


def test_nothing_of_it_is_left_when_the_graph_has_ended() -> None:
    told = begun(chain("a", "b", "c"))
    told(kept({"a": b"1", "b": b"2"}))
    (graph,) = told.core._table.graphs.values()
    told(ended("c", codes.STATUS_FAILED))
    assert (graph.known, told.core._knowledge.known_bytes, told.core._knowledge.objects) == ({}, 0, {})


def test_an_inheritor_knows_as_much() -> None:
    told = begun(chain("a", "b", "c"))
    told(kept({"a": b"1"}))
    told(kept({"b": STORED}, kind=codes.KIND_OBJECT))
    heir = ClientCore(timeout_seconds=60.0)
    actions = heir.inherit(told.core, lambda task_id, entry: False, told.now)
    invariants.check(heir)
    assert actions == [Claim(((task("b"), STORED),))]
    (graph,) = heir._table.graphs.values()
    assert list(graph.known) == [task("a"), task("b")]


# ------------------------------------------------------------ any graph


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[GraphNode], set[int], set[int]]:
    """Nodes, which of the wanted ones have ended, and which results are known."""
    count = draw(st.integers(1, 12))
    needs = [draw(st.sets(st.integers(0, index - 1), max_size=4)) if index else set() for index in range(count)]
    wanted = draw(st.sets(st.integers(0, count - 1), min_size=1))
    nodes = [node(str(index), *map(str, sorted(own)), is_wanted=index in wanted) for index, own in enumerate(needs)]
    finished = draw(st.sets(st.sampled_from(sorted(wanted)), max_size=len(wanted) - 1))
    known = draw(st.sets(st.integers(0, count - 1))) - (wanted - finished)
    return nodes, finished, known


@settings(max_examples=200)
@given(graphs(), st.integers(1, 12), st.booleans())
def test_exactly_what_is_needed_is_left(
    drawn: tuple[list[GraphNode], set[int], set[int]], batch_tasks: int, may_give: bool
) -> None:
    nodes, finished, known_numbers = drawn
    event = graph_of(GRAPH, nodes, batch_tasks=batch_tasks)
    entries = tuple(Entry(one, State.QUEUED, int(one.ids[0].rstrip(b".")) not in finished) for one in event.wanted)
    graph = Graph(GRAPH, event.batches, entries, wanted_count=sum(entry.unfinished_count for entry in entries))
    graph.known = {task(number): Known(codes.KIND_INLINE, b"v", False) for number in known_numbers}

    by_id = {one.submission.ids[0]: one for one in nodes}
    known = set(graph.known) if may_give else set()
    needed: set[TaskId] = set()
    given_: set[TaskId] = set()
    waiting = [entry.submission.ids[0] for entry in entries if entry.unfinished_count]
    while waiting:
        one = waiting.pop()
        if one in known:
            given_.add(one)
        elif one not in needed:
            needed.add(one)
            waiting += by_id[one].dependencies
    if not finished and not graph.known:
        needed = set(by_id)

    left = remaining.remaining(graph, may_give=may_give, bounds=bounds_of(Limits(batch_tasks=batch_tasks)))
    submits = [one.message for one in left if not isinstance(one, KeptResults)]
    told = [one for one in left if isinstance(one, KeptResults)]
    assert left[: len(told)] == told, "what is given comes first"
    for message in (*submits, *told):
        codec.check(message, Limits())
    assert [one.is_graph_sealed for one in submits] == [False] * (len(submits) - 1) + [True]
    assert {one for message in told for one in columns.split_ids(message.ids)} == given_
    rows = [row for message in submits for row in rows_of(message)]
    assert rows == [row_of(one) for one in nodes if one.submission.ids[0] in needed], "as they were, and in their order"
    places = [message.message.ids[16 * at : 16 * at + 16] == task_id for message in left
              if not isinstance(message, KeptResults) for at, task_id in message.wanted]  # fmt: skip
    assert all(places)


Row = tuple[TaskId, bytes, bytes, tuple[TaskId, ...], bool]


def row_of(one: GraphNode) -> Row:
    submission = one.submission
    return submission.ids[0], bytes(submission.payload), submission.part_kinds, one.dependencies, one.is_wanted


def rows_of(message: Submit) -> list[Row]:
    found: list[Row] = []
    parts = needs = offset = 0
    sizes, dependencies = columns.split_u32(message.part_sizes), columns.split_ids(message.dependencies)
    for index, task_id in enumerate(columns.split_ids(message.ids)):
        part_count = columns.split_u16(message.part_counts)[index]
        need_count = columns.split_u16(message.dependency_counts)[index]
        size = sum(sizes[parts : parts + part_count])
        own = tuple(map(TaskId, dependencies[needs : needs + need_count]))
        is_wanted = not message.task_flags or not message.task_flags[index]
        payload = bytes(message.payload[offset : offset + size])
        found.append((TaskId(task_id), payload, message.part_kinds[parts : parts + part_count], own, is_wanted))
        parts, needs, offset = parts + part_count, needs + need_count, offset + size
    return found


def test_calls_are_not_touched_by_any_of_this() -> None:
    told = begun(chain("a", "b"))
    told.submit(call("t"))
    told(kept({"a": b"1", "t": b"no node"}))
    told(lost())
    told(opened())
    assert sorted(lines(told)) == ["given a", "submit b sealed", "submit t sealed"]


@settings(max_examples=100)
@given(graphs(), st.integers(1, 12))
def test_nodes_run_again_as_a_graph_of_their_own(
    drawn: tuple[list[GraphNode], set[int], set[int]], batch_tasks: int
) -> None:
    """With new ids throughout: the old graph may run the same nodes again."""
    nodes, finished, _ = drawn
    wanted = {task(number) for number in finished} or {nodes[-1].submission.ids[0]}
    event = graph_of(GRAPH, nodes, batch_tasks=batch_tasks)
    definition = Definition(Graph(GRAPH, event.batches))
    new_ids = [task(f"new {number}") for number in range(len(nodes))]
    batches, new_id_of = remaining.nodes_again(definition, wanted, lambda count: new_ids[:count])

    by_id = {one.submission.ids[0]: one for one in nodes}
    needed: set[TaskId] = set()
    waiting = list(wanted)
    while waiting:
        one = waiting.pop()
        if one not in needed:
            needed.add(one)
            waiting += by_id[one].dependencies
    assert new_id_of.keys() == needed
    for batch in batches:
        codec.check(batch.message, Limits())
        assert batch.message.header.graph_id == batches[0].message.header.graph_id != GRAPH
    assert [batch.message.is_graph_sealed for batch in batches] == [False] * (len(batches) - 1) + [True]
    expected = []
    for one in nodes:
        task_id, payload, kinds, own, _ = row_of(one)
        if task_id in needed:
            renamed = tuple([new_id_of[other] for other in own])
            name = payload[: len(payload) - ID_BYTES * len(own)]
            expected.append((new_id_of[task_id], name + b"".join(renamed), kinds, renamed, task_id in wanted))
    assert [row for batch in batches for row in rows_of(batch.message)] == expected
    assert {task_id for batch in batches for _, task_id in batch.wanted} == {new_id_of[one] for one in wanted}
