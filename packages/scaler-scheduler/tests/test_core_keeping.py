"""Results that are kept for unfinished tasks are told to their client, and given back by it. (SCH-51 to SCH-54)"""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import GRAPH, Story, names, peer, task

from scaler_protocol import codes
from scaler_protocol.columns import split_u32
from scaler_protocol.ids import GraphId
from scaler_protocol.messages import Error, KeptResults, Limits
from scaler_scheduler.core import Send
from scaler_scheduler.core.succession import keeping

LOOK = keeping.LOOK_SECONDS
OTHER_GRAPH = GraphId(task("other graph"))


def story_of(*clients: str, window: int = 0, credit: int = 10) -> Story:
    story = Story()
    for name in clients:
        story.client(name, is_told=True, window=window)
    story.worker("w", credit=credit)
    return story


def told(story: Story, client: str = "c") -> list[KeptResults]:
    """What this client is told of at the next look."""
    sent = [action for action in story.actions() if isinstance(action, Send) and action.peer_id == peer(client)]
    return [action.message for action in sent if isinstance(action.message, KeptResults)]


def look(story: Story, client: str = "c") -> list[KeptResults]:
    story.now += LOOK
    return told(story, client)


def ids_in(messages: list[KeptResults]) -> list[str]:
    return [name for message in messages for name in names(message.ids)]


def chain_of(story: Story, *links: str, header: object = GRAPH) -> None:
    graph = {name: [links[index - 1]] if index else [] for index, name in enumerate(links)}
    story.submit_graph("c", graph, unwanted=links[:-1])
    story.settle()


def test_what_unfinished_tasks_need_is_told_once() -> None:
    story = story_of("c")
    chain_of(story, "a", "b", "d")
    story.results("w", ["a"], value=b"of a")
    assert told(story) == [], "its graph is younger than a second"
    (message,) = look(story)
    assert (names(message.ids), bytes(message.payload), split_u32(message.sizes)) == (["a"], b"of a", (4,))
    assert message.graph_id == GRAPH.graph_id
    assert look(story) == []
    story.results("w", ["b"])
    assert ids_in(look(story)) == ["b"], "`a` is needed no more"
    story.results("w", ["d"])
    assert look(story) == []
    assert story.core.next_deadline() is None or story.core.next_deadline() == story.core._balancer.look_at


def test_a_graph_of_less_than_a_second_causes_no_message() -> None:
    story = story_of("c")
    for round_ in range(5):
        links = [f"{name}{round_}" for name in "abc"]
        chain_of(story, *links)
        for name in links:
            story.now += LOOK / 5
            story.results("w", [name])
            assert told(story) == []


def test_objects_are_told_by_their_ids() -> None:
    story = story_of("c")
    chain_of(story, "a", "b")
    story.results("w", ["a"], kind=codes.KIND_OBJECT, value=task("object"))
    story.settle()
    (message,) = look(story)
    assert (message.kinds, bytes(message.payload)) == (bytes([codes.KIND_OBJECT]), task("object"))


def test_failures_and_clients_without_the_feature_are_left_out() -> None:
    story = story_of("c")
    story.client("old")
    story.submit_graph("old", {"x": [], "y": ["x"]}, header=GRAPH)
    story.submit_graph("c", {"a": [], "b": []}, sealed=False)
    story.settle()
    story.results("w", ["x", "b"])
    story.results("w", ["a"], status=codes.STATUS_FAILED)
    story.settle()
    story.now += LOOK
    sent = [action for action in story.actions() if isinstance(action, Send)]
    kept = [(action.peer_id, action.message) for action in sent if isinstance(action.message, KeptResults)]
    assert [(peer_id, names(message.ids)) for peer_id, message in kept] == [(peer("c"), ["b"])]


def test_each_graph_has_messages_of_its_own() -> None:
    story = story_of("c", "e")
    other = GRAPH.__class__(graph_id=OTHER_GRAPH)
    story.submit_graph("c", {"a": [], "b": ["a"]}, unwanted=["a"])
    story.submit_graph("c", {"x": [], "y": ["x"]}, unwanted=["x"], header=other)
    story.submit_graph("e", {"q": [], "r": ["q"]}, unwanted=["q"])
    story.settle()
    story.results("w", ["a", "x", "q"])
    story.settle()
    story.now += LOOK
    sent = [action for action in story.actions() if isinstance(action, Send)]
    kept = [(action.peer_id, action.message) for action in sent if isinstance(action.message, KeptResults)]
    found = {(peer_id, message.graph_id, *names(message.ids)) for peer_id, message in kept}
    assert found == {(peer("c"), GRAPH.graph_id, "a"), (peer("c"), OTHER_GRAPH, "x"), (peer("e"), GRAPH.graph_id, "q")}


def test_what_comes_later_is_found_whatever_is_forgotten_meanwhile() -> None:
    """The look goes back to the last result it has seen, also when that, or all, is kept no more."""
    story = story_of("c", credit=1000)
    leaves = [f"leaf{number}" for number in range(40)]
    story.submit_graph("c", {**{leaf: [] for leaf in leaves}, "early": leaves[:20], "late": leaves}, unwanted=leaves)
    story.settle()
    seen: list[str] = []
    for begin in range(0, 40, 5):
        story.results("w", leaves[begin : begin + 5])
        story.settle()
        seen += ids_in(look(story))
    assert seen == leaves, "each once, in the order in which they ended"
    story.results("w", ["early"])
    story.results("w", ["late"])
    story.settle()
    assert look(story) == []


def test_messages_keep_the_limits_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.client("c", Limits(batch_tasks=3), is_told=True)
    story.worker("w", credit=1000)
    leaves = [f"leaf{number}" for number in range(10)]
    story.submit_graph("c", {leaf: [] for leaf in leaves[:3]}, sealed=False)
    for begin in range(3, 10, 3):
        story.submit_graph("c", {leaf: [] for leaf in leaves[begin : begin + 3]}, sealed=False)
    story.settle()
    story.results("w", leaves)
    story.settle()
    messages = look(story)
    assert [len(names(message.ids)) for message in messages] == [3, 3, 3, 1]


def test_a_burst_is_told_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "TOLD_RESULTS", 10)
    monkeypatch.setattr(keeping, "LOOKED_AT", 15)
    story = story_of("c", credit=1000)
    leaves = [f"leaf{number}" for number in range(30)]
    story.submit_graph("c", {**{leaf: [] for leaf in leaves}, "sum": leaves}, unwanted=leaves)
    story.settle()
    story.results("w", leaves)
    story.settle()
    assert ids_in(look(story)) == leaves[15:25], "the look begins with 15 of them, and tells 10"
    assert look(story) == [], "what was left out is not told later"


def test_a_client_that_does_not_read_is_told_when_it_does() -> None:
    story = story_of("c", window=100)
    chain_of(story, "a", "b")
    story.submit("c", ["t"])
    story.settle()
    story.results("w", ["a"])
    story.results("w", ["t"], value=bytes(200))
    story.settle()
    story.unacknowledged[peer("c")] = 5_000
    assert look(story) == []
    story.unacknowledged[peer("c")] = 0
    assert ids_in(told(story)) == ["a"]


# ------------------------------------------------------------ what a client gives


def test_given_results_are_inputs_like_any_other() -> None:
    story = story_of("c")
    story.give("c", {"a": b"of a"}, unwanted=["a"])
    story.submit_graph("c", {"b": ["a"]})
    assert story.settle() == ["w <- Dispatch b with a"]
    story.results("w", ["b"])
    assert story.settle() == ["c <- Results b"]
    story.lost("c")
    story.lost("w")
    story.settle()
    assert story.is_empty()


def test_given_results_are_not_told_again() -> None:
    story = story_of("c")
    story.give("c", {"a": b"of a"})
    story.submit_graph("c", {"b": ["a"]})
    story.settle()
    assert look(story) == look(story) == []


def test_the_object_of_an_unwanted_task_is_released_with_its_last_dependent() -> None:
    story = story_of("c")
    story.give("c", {"a": task("object"), "x": task("other")}, kind=codes.KIND_OBJECT, unwanted=["a", "x"])
    story.submit_graph("c", {"b": ["a"]}, sealed=False)
    story.submit_graph("c", {"d": []})
    assert "storage <- Release of c 1 objects" in story.settle(), "sealed, and nothing needs `x`"
    story.results("w", ["b"])
    assert "storage <- Release of c 1 objects" in story.settle()


def test_the_object_of_a_wanted_task_is_its_clients() -> None:
    story = story_of("c")
    story.give("c", {"a": task("object")}, kind=codes.KIND_OBJECT)
    story.submit_graph("c", {"b": ["a"]})
    story.settle()
    story.results("w", ["b"])
    assert not [line for line in story.settle() if "Release" in line]


def refusals(story: Story) -> list[Error]:
    return [a.message for a in story.actions() if isinstance(a, Send) and isinstance(a.message, Error)]


def test_what_cannot_be_true_is_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    story = story_of("c")
    story.submit("c", ["t"])
    story.settle()
    story.give("c", {"a": b"", "t": b""})
    story.give("c", {"a": b""}, graph_id=GraphId(b""))
    monkeypatch.setattr(keeping, "GIVEN_BYTES", keeping.MESSAGE_BYTES + keeping.ROW_BYTES + 50)
    story.give("c", {"a": bytes(100)})
    errors = refusals(story)
    assert [(error.code, error.clause, error.fatal) for error in errors] == [
        (codes.BAD_GRAPH, "SCH-54", False),
        (codes.BAD_GRAPH, "SCH-54", False),
        (codes.TOO_LARGE, "SCH-54", False),
    ]
    assert not story.core.tables.dependencies.kept
    story.give("c", {"a": b"1"})
    story.give("c", {"a": b"2"})
    assert [error.code for error in refusals(story)] == [codes.BAD_GRAPH]


def test_a_new_session_has_what_its_former_self_has() -> None:
    """The old session is still believed alive: what it keeps does not hinder its successor, nor end with it."""
    story = story_of("old", "new")
    story.submit_graph("old", {"a": [], "b": ["a"]}, unwanted=["a"])
    story.settle()
    story.results("w", ["a"], value=b"of a")
    story.settle()
    story.give("new", {"a": b"of a"}, unwanted=["a"])
    story.submit_graph("new", {"b": ["a"]})
    assert refusals(story) == []
    story.lost("old")
    story.canceled("w", ["b"])
    assert story.settle()[-1] == "w <- Dispatch b with a attempt [2]"
    story.results("w", ["b"], attempt=2)
    assert story.settle() == ["new <- Results b"]
    story.lost("new")
    story.lost("w")
    story.settle()
    assert story.is_empty()


def test_a_late_gift_of_the_former_self_is_refused() -> None:
    story = story_of("old", "new")
    story.give("new", {"a": b"1"})
    story.give("old", {"a": b"1"})
    assert [error.code for error in refusals(story)] == [codes.BAD_GRAPH]


def test_nothing_is_left_of_a_client_that_gave_and_left() -> None:
    story = story_of("c")
    story.give("c", {"a": b"of a"})
    story.settle()
    story.lost("c")
    story.lost("w")
    story.settle()
    assert story.is_empty()
