"""Tasks that are sent ahead of their time: when, to whom, and how they come back (SCH-36, SCH-37)."""

from __future__ import annotations

from typing import TypeVar

import pytest
from tests.support.scheduler_story import Story, names, peer, task

from scaler_protocol.codes import KIND_OBJECT, STATUS_FAILED, STATUS_REFUSED, STATUS_SUCCESS
from scaler_protocol.columns import split_u16
from scaler_protocol.ids import result_object_id
from scaler_protocol.messages import NO_SALT, Dispatch, Results
from scaler_scheduler.core import Send
from scaler_scheduler.core.entities.results import rows
from scaler_scheduler.core.entities.states import State

Told = TypeVar("Told", Dispatch, Results)
CHAIN = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}


@pytest.fixture
def story() -> Story:
    story = Story()
    story.client("c1")
    return story


def chaining(story: Story, name: str, credit: int) -> None:
    story.worker(name, credit=credit, features=("chains",))


def told(story: Story, name: str, kind: type[Told]) -> list[Told]:
    sends = [action for action in story.actions() if isinstance(action, Send) and action.peer_id == peer(name)]
    return [action.message for action in sends if isinstance(action.message, kind)]


def given(story: Story, worker: str) -> dict[str, list[str]]:
    """What this worker was dispatched, and what each of it awaits."""
    found: dict[str, list[str]] = {}
    for message in told(story, worker, Dispatch):
        tasks, awaited = names(message.ids), iter(names(message.awaited))
        counts = split_u16(message.awaited_counts) or (0,) * len(tasks)
        found.update({one: [next(awaited) for _ in range(count)] for one, count in zip(tasks, counts, strict=True)})
    return found


def ends(story: Story) -> dict[str, int]:
    return {names(row.task_id)[0]: row.status for message in told(story, "c1", Results) for row in rows(message)}


def test_a_chain_goes_to_the_worker_that_has_its_first_link(story: Story) -> None:
    chaining(story, "w1", 10)
    story.submit_graph("c1", CHAIN)
    assert given(story, "w1") == {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}
    story.results("w1", ["a", "b", "c", "d"])
    assert ends(story) == dict.fromkeys("abcd", STATUS_SUCCESS)
    assert story.core.tables.dependencies.kept == {}


def test_a_worker_that_does_not_know_of_it_gets_one_link_at_a_time(story: Story) -> None:
    story.worker("w1", credit=10)
    story.submit_graph("c1", CHAIN)
    assert given(story, "w1") == {"a": []}
    story.results("w1", ["a"])
    assert given(story, "w1") == {"b": []}


def test_no_more_goes_ahead_than_the_credit_allows(story: Story) -> None:
    chaining(story, "w1", 2)
    story.submit_graph("c1", CHAIN)
    assert list(given(story, "w1")) == ["a", "b"]
    story.results("w1", ["a"])
    assert given(story, "w1") == {"c": ["b"]}


def test_what_is_queued_comes_first(story: Story) -> None:
    chaining(story, "w1", 3)
    story.submit_graph("c1", CHAIN)
    story.submit("c1", ["x", "y"])
    assert given(story, "w1") == {"a": [], "x": [], "y": []}


def test_a_sum_goes_where_both_of_its_numbers_are(story: Story) -> None:
    chaining(story, "w1", 10)
    story.submit_graph("c1", {"a": [], "b": [], "sum": ["a", "b"]})
    assert given(story, "w1")["sum"] == ["a", "b"]


def test_a_sum_of_numbers_on_two_workers_goes_nowhere(story: Story) -> None:
    chaining(story, "w1", 10)
    chaining(story, "w2", 10)
    story.submit_graph("c1", {"a": [], "b": [], "sum": ["a", "b"]})
    assert {*given(story, "w1")} <= {"a", "b"}
    assert story.core.tables.counts[State.WAITING] == 1


def test_tasks_that_could_run_side_by_side_are_not_sent_ahead(story: Story) -> None:
    chaining(story, "w1", 10)
    story.submit_graph("c1", {"a": [], "b": ["a"], "c": ["a"]})
    assert given(story, "w1") == {"a": []}


def test_a_result_that_the_scheduler_has_comes_along(story: Story) -> None:
    chaining(story, "w1", 1)
    story.submit_graph("c1", {"a": [], "b": [], "sum": ["a", "b"]})
    assert given(story, "w1") == {"a": []}
    story.results("w1", ["a"], value=b"one", credit=5)
    first, second = told(story, "w1", Dispatch)
    assert names(first.ids) == ["b"]
    assert (names(second.ids), names(second.awaited), names(second.input_ids)) == (["sum"], ["b"], ["a"])
    assert bytes(second.payload).endswith(b"one")


def test_what_comes_later_follows_what_is_held_already(story: Story) -> None:
    chaining(story, "w1", 10)
    story.submit_graph("c1", {"a": []}, sealed=False)
    assert given(story, "w1") == {"a": []}
    story.submit_graph("c1", {"b": ["a"]})
    assert given(story, "w1") == {"b": ["a"]}


def test_a_link_that_comes_back_waits_again(story: Story) -> None:
    chaining(story, "w1", 2)
    story.submit_graph("c1", {"a": [], "b": ["a"]})
    given(story, "w1")
    story.give_back("w1", ["b"])
    assert story.core.tables.counts[State.WAITING] == 1
    assert given(story, "w1") == {}, "it is not sent ahead again before something has changed"
    story.results("w1", ["a"])
    assert given(story, "w1") == {"b": []}


@pytest.mark.parametrize("comes_back_first", [True, False])
def test_a_failure_ends_what_was_sent_ahead(story: Story, comes_back_first: bool) -> None:
    """Whichever the worker says first."""
    chaining(story, "w1", 10)
    story.submit_graph("c1", CHAIN)
    given(story, "w1")
    steps = [
        lambda: story.give_back("w1", ["b", "c", "d"]),
        lambda: story.results("w1", ["a"], status=STATUS_FAILED, value=b"no error"),
    ]
    for step in steps if comes_back_first else reversed(steps):
        step()
    assert ends(story) == {"a": STATUS_FAILED, **dict.fromkeys("bcd", STATUS_REFUSED)}
    assert story.core.tables.dependencies.kept == {}


def test_a_lost_worker_gives_back_the_chain_as_it_was(story: Story) -> None:
    chaining(story, "w1", 10)
    story.submit_graph("c1", CHAIN, unwanted=["a"])
    given(story, "w1")
    story.results("w1", ["a"], kind=KIND_OBJECT, value=result_object_id(task("a"), 1, NO_SALT, peer("c")))
    story.lost("w1")
    assert story.core.tables.lost_workers.keys() == {task("b")}, "the others have not begun"
    chaining(story, "w2", 10)
    assert given(story, "w2") == {"b": [], "c": ["b"], "d": ["c"]}
    story.results("w2", ["b", "c", "d"], attempt=2)
    assert ends(story) == dict.fromkeys("bcd", STATUS_SUCCESS)
