"""All tasks of a graph, a part at a time (MON-63 to MON-65, LIM-33)."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import FUNCTION, Story, names, peer, task

from scaler_protocol.codes import STATUS_FAILED, STATUS_REFUSED
from scaler_protocol.columns import split_u16
from scaler_protocol.ids import GraphId
from scaler_protocol.messages import Cancel, Dispatch, FunctionName, GraphPart, GraphRequest, NameFunctions, TaskHeader
from scaler_scheduler.core import Asked, Send
from scaler_scheduler.core.notes import history
from scaler_scheduler.core.watching import graph_parts

CHAIN = {"a": (), "b": ("a",), "c": ("b",), "d": ("a", "c"), "e": ()}


def asked(story: Story, first: int = 0, *, shape: bool = True, client: str = "c", graph: str = "graph") -> GraphPart:
    client_id = story.core.display_id(peer(client))
    return story.core.graph_parts.answer(GraphRequest(9, GraphId(task(graph)), client_id, first, shape), story.now)


def needs(part: GraphPart) -> list[list[int]]:
    """Of each task of a part, the places of what it depends on."""
    places = list(split_u16(part.graph.dependencies))
    return [[places.pop(0) for _ in range(count)] for count in split_u16(part.graph.dependency_counts)]


def with_graph(**others: object) -> Story:
    story = Story()
    story.client("c")
    story.submit_graph("c", CHAIN, **others)  # type: ignore[arg-type]
    return story


def _all_succeed(story: Story) -> None:
    for name in "aebcd":
        story.settle()
        story.results("w", [name])


def test_parts_follow_on_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks in each: what they depend on are places in the whole graph."""
    monkeypatch.setattr(graph_parts, "PART_TASKS", 2)
    story = with_graph(keys=[b"A", b"", b"", b"D", b""])
    story.receive("c", NameFunctions(FUNCTION, ("f",)))
    parts = [asked(story, first) for first in (0, 2, 4, 5)]
    assert [names(part.graph.ids) for part in parts] == [["a", "b"], ["c", "d"], ["e"], []]
    assert [needs(part) for part in parts] == [[[], [0]], [[1], [0, 2]], [[]], []]
    assert [part.graph.states for part in parts] == [b"\1\0", b"\0\0", b"\1", b""]
    assert [(part.graph.key_sizes, part.graph.keys) for part in parts[:3]] == [
        (b"\1\0", b"A"),
        (b"\0\1", b"D"),
        (b"", b""),
    ]
    assert parts[0].graph.function_names == (FunctionName(FUNCTION, "f"),)
    assert {part.described_count for part in parts} == {5} and len({part.order for part in parts}) == 1
    assert [(part.request_id, part.first) for part in parts] == [(9, first) for first in (0, 2, 4, 5)]


def test_states_alone_come_without_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_parts, "PART_STATES", 3)
    story = with_graph()
    for first, states in ((0, b"\1\0\0"), (3, b"\0\1")):
        graph = asked(story, first, shape=False).graph
        assert graph.states == states and graph.task_count == graph.unfinished_count == 5
        assert not graph.ids + graph.functions + graph.dependency_counts + graph.dependencies + graph.keys


def test_a_part_ends_before_too_many_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """One task may have more than a part: it is described alone."""
    monkeypatch.setattr(graph_parts, "PART_NEEDS", 1)
    story = with_graph()
    found = [names(asked(story, first).graph.ids) for first in (0, 2, 3, 4)]
    assert found == [["a", "b"], ["c"], ["d"], ["e"]]


def test_a_task_keeps_its_place_when_batches_end_and_come() -> None:
    """The last batch ends at once, between two questions."""
    story = Story()
    story.client("c")
    story.worker("w", credit=9)
    story.core.watch(tasks=False, logs=False, graphs=True)
    story.submit_graph("c", {"a": (), "b": ()}, sealed=False)
    story.submit_graph("c", {"c": ("a",)}, sealed=False)
    story.settle()
    first = asked(story)
    story.results("w", ["a"])
    story.results("w", ["b"], status=STATUS_FAILED)
    story.submit_graph("c", {"d": ("b",), "e": ("c", "d")})
    story.settle()
    part = asked(story)
    assert part.order == first.order and names(part.graph.ids) == ["a", "b", "c", "d", "e"]
    assert needs(part) == [[], [], [0], [1], [2, 3]]
    assert (part.graph.states, part.graph.outcomes) == (
        b"\4\4\2\4\4",
        bytes((0, STATUS_FAILED, 0, *[STATUS_REFUSED] * 2)),
    )
    assert (part.graph.task_count, part.graph.unfinished_count, part.graph.failed_count) == (5, 1, 3)


def test_a_graph_that_ended_is_known_for_some_seconds_if_graphs_are_watched() -> None:
    story = with_graph()
    story.worker("w", credit=9)
    story.core.watch(tasks=False, logs=False, graphs=True)
    _all_succeed(story)
    chunk = next(iter(story.core.tables.history.kept_graphs))
    assert not len(chunk.batch.payload), "its arguments are not kept"
    story.now += history.GRAPH_SECONDS - 1
    story.core.graph_shapes()
    part = asked(story)
    assert names(part.graph.ids) == list("abcde") and set(part.graph.states) == {4} and not part.graph.unfinished_count
    for _ in range(3):
        story.now += graph_parts.KEPT_SECONDS / 2
        story.worker("tick")
        story.core.watch(tasks=False, logs=False, graphs=True)
        assert asked(story).order == part.order, "it is asked for again and again"
    story.now += graph_parts.KEPT_SECONDS + 1
    story.worker("tick")
    story.core.watch(tasks=False, logs=False, graphs=True)
    assert asked(story) == GraphPart(9)


def test_few_ended_batches_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three batches of one task and one of five, each canceled: of all together some tasks, at least the last batch."""
    monkeypatch.setattr(history, "GRAPH_TASKS", 2)
    story = with_graph(sealed=False)
    story.core.watch(tasks=False, logs=False, graphs=True)
    kept = []
    for name in ("x", "y", "z"):
        story.receive("c", Cancel(b"", is_all=True))
        story.settle()
        kept.append([names(b"".join(one.ids)) for one in story.core.tables.history.kept_graphs])
        story.submit_graph("c", {name: ()}, sealed=False)
    assert kept == [[list("abcde")], [["x"]], [["x"], ["y"]]]
    monkeypatch.setattr(history, "GRAPHS_KEPT", 1)
    story.receive("c", Cancel(b"", is_all=True))
    assert [names(b"".join(one.ids)) for one in story.core.tables.history.kept_graphs] == [["z"]]


def test_ended_batches_are_not_kept_while_no_session_watches_graphs() -> None:
    story = with_graph()
    story.worker("w", credit=9)
    story.core.watch(tasks=True, logs=False)
    _all_succeed(story)
    assert not list(story.core.tables.history.kept_graphs) and asked(story) == GraphPart(9)


def test_a_graph_is_that_of_one_client() -> None:
    story = with_graph()
    story.client("other")
    story.submit_graph("other", {"x": ()})
    assert names(asked(story, client="other").graph.ids) == ["x"]
    assert asked(story, client="none") == asked(story, graph="none") == GraphPart(9)
    assert asked(story).order != asked(story, client="other").order


def test_few_lists_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two, the one that was asked for last; a list that is made anew has another number."""
    monkeypatch.setattr(graph_parts, "ORDERS_KEPT", 2)
    story = with_graph()
    for name in ("g1", "g2"):
        story.submit_graph("c", {name: ()}, header=TaskHeader(graph_id=GraphId(task(name))))
    orders = [asked(story, graph=name).order for name in ("graph", "g1", "g2")]
    assert len(set(orders)) == 3
    assert [asked(story, graph=name).order for name in ("g2", "g1")] == [orders[2], orders[1]]
    assert asked(story).order not in orders


def test_tasks_beyond_what_places_can_say_are_not_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_parts, "DESCRIBED_LIMIT", 3)
    story = with_graph(sealed=False)
    story.submit_graph("c", {"f": ()})
    part = asked(story)
    assert names(part.graph.ids) == ["a", "b", "c"] and part.described_count == 3 and part.graph.task_count == 6
    assert asked(story, 3).graph.states == b""


def test_who_asks_is_answered_by_the_service() -> None:
    story = Story()
    story.receive("m", GraphRequest(7))
    assert any(isinstance(one, Asked) and one.message == GraphRequest(7) for one in story.actions())


def test_a_batch_that_is_being_accepted_has_not_ended() -> None:
    """One of its tasks is accepted in each turn. The first one then never runs, because what it needs has failed."""
    story = Story()
    backlog = story.core.tables.backlog
    backlog.turn_steps = backlog.slice_tasks = backlog.units_at_once = 1
    story.client("c")
    story.worker("w", credit=9)
    story.core.watch(tasks=False, logs=False, graphs=True)
    story.submit_graph("c", {"x": ()}, sealed=False)
    story.settle()
    story.results("w", ["x"], status=STATUS_FAILED)
    story.submit_graph("c", {"a": ("x",), "b": (), "c": ("b",)})
    seen, sent = [], []
    for _ in range(40):
        for action in story.actions():
            if isinstance(action, Send) and isinstance(action.message, Dispatch):
                sent += names(action.message.ids)
                story.results("w", names(action.message.ids))
        graph = asked(story).graph
        seen.append(graph.states)
        states = dict(zip(names(graph.ids), graph.states, strict=True))
        for shape in story.core.graph_shapes().graphs:
            assert dict(zip(names(shape.ids), shape.states, strict=True)).items() <= states.items()
    expected = [b"\4", b"\4\0\0\0", b"\4\4\0\0", b"\4\4\1\0", b"\4\4\4\1", b"\4\4\4\4"]
    assert list(dict.fromkeys(seen)) == expected and sent == ["b", "c"]


def test_what_workers_have_presented_is_listed_once() -> None:
    """A part of a batch has tasks of it: the batch is listed, and the unfinished of both are counted."""
    story = with_graph()
    chunk = story.core.tables.chunk_of(task("a"))
    part = chunk.part([1, 3])
    part.unfinished, chunk.unfinished = 2, 3
    for chunks in ([part, chunk], [chunk, part]):
        order = graph_parts._Order(1)
        order.add(chunks)
        assert order.listed == [chunk] and set(order.chunks) == {part, chunk} and order.described_count == 5
