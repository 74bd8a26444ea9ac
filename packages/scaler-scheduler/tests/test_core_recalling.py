"""Workers that live and end nothing: what they have not begun goes to workers that work (SCH-96)."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import Story, names, peer, task

from scaler_protocol.messages import Capability, Credit
from scaler_scheduler.core import Policy
from scaler_scheduler.core.ending.cut_off import REST_SECONDS
from scaler_scheduler.core.placing.recalling import LOOK_SECONDS, STILL_SECONDS


def seconds_pass(story: Story, seconds: float, *, told: str = "") -> list[str]:
    """Second by second: `busy`, if it is there, ends the first of its tasks in each, and a flood keeps it busy. `told`
    says in each that its first task runs."""
    said: list[str] = []
    for _ in range(int(seconds)):
        story.now += LOOK_SECONDS
        if peer("busy") in story.core.tables.workers:
            story.results("busy", held_by(story, "busy")[:1], credit=2)
            story.submit("flood", [f"f{story.now:g}"])
        if told:
            story.runs(told, held_by(story, told)[0])
        said += [line for line in story.settle() if "flood" not in line and "Dispatch f" not in line]
    return said


def held_by(story: Story, worker: str) -> list[str]:
    return names(b"".join(story.core.tables.workers[peer(worker)].held))


def flood(story: Story) -> None:
    """A worker that is never idle."""
    story.client("flood")
    story.worker("busy", credit=2)
    story.submit("flood", ["f0", "f1", "f2"])
    assert story.settle() == ["busy <- Dispatch f0 f1"]


@pytest.fixture
def story() -> Story:
    """`stuck` has begun "endless" and holds two more; `busy` is never idle."""
    story = Story()
    story.client("c")
    story.worker("stuck", credit=3)
    story.submit("c", ["endless", "a", "b"])
    assert story.settle() == ["stuck <- Dispatch endless a b"]
    story.runs("stuck", "endless")
    story.receive("stuck", Credit(limit=1, nested_reserve=2))
    flood(story)
    return story


def test_what_waits_behind_an_endless_task_goes_to_a_worker_that_is_never_idle(story: Story) -> None:
    assert seconds_pass(story, STILL_SECONDS) == []
    assert seconds_pass(story, 1) == ["stuck <- Recall b a"]
    story.give_back("stuck", ["a", "b"])
    said = story.settle() + seconds_pass(story, 6)
    assert {"busy <- Dispatch a", "busy <- Dispatch b", "c <- Results a", "c <- Results b"} <= set(said)


def test_the_last_task_that_has_not_begun_goes_as_well(story: Story) -> None:
    """Balancing leaves a worker the share of the others, which is one task."""
    story.results("stuck", ["a"])
    story.settle()
    seconds_pass(story, STILL_SECONDS + 1)
    assert story.core.tables.workers[peer("stuck")].recalling == {task("b")}


def test_a_worker_that_ends_tasks_keeps_what_it_holds(story: Story) -> None:
    for _ in range(2):
        assert seconds_pass(story, STILL_SECONDS - 1) == []
        story.results("stuck", held_by(story, "stuck")[1:2])
        story.settle()
    assert seconds_pass(story, STILL_SECONDS - 1) == []


def test_a_task_that_has_begun_is_not_asked_for(story: Story) -> None:
    story.results("stuck", ["a", "b"])
    story.settle()
    assert seconds_pass(story, 5 * STILL_SECONDS, told="stuck") == []


def test_it_rests_until_it_has_ended_something(story: Story) -> None:
    seconds_pass(story, STILL_SECONDS + 1)
    story.give_back("stuck", ["a", "b"])
    story.settle()
    assert story.core.tables.workers[peer("stuck")].is_cut_off
    story.results("stuck", ["endless"])
    story.settle()
    seconds_pass(story, 2)
    assert not story.core.tables.workers[peer("stuck")].is_cut_off
    assert story.core.tables.workers[peer("stuck")].still is None


def test_it_rests_for_a_bounded_time(story: Story) -> None:
    """Another task may need what only this worker offers."""
    seconds_pass(story, STILL_SECONDS + 1)
    story.give_back("stuck", ["a", "b"])
    story.settle()
    seconds_pass(story, REST_SECONDS + 1)
    assert not story.core.tables.workers[peer("stuck")].is_cut_off


def test_nothing_moves_between_workers_that_all_stand_still() -> None:
    """The first to be found gives what it has to the other, which has ended nothing either. That one keeps it."""
    story = Story()
    story.client("c")
    story.worker("w0", credit=2)
    story.worker("w1", credit=2)
    story.submit("c", [f"t{number}" for number in range(8)])
    story.settle()
    assert seconds_pass(story, 10 * REST_SECONDS) == [], "both are full, and neither has ended anything"


def test_two_broken_workers_pass_a_task_on_once_and_no_more() -> None:
    """Neither begins anything, and each has room for the other's task."""
    story = Story(Policy(load_balance_seconds=0))
    story.client("c")
    story.worker("w0", credit=2)
    story.submit("c", ["t"])
    story.settle()
    story.worker("w1", credit=2)
    said = []
    for _ in range(10 * int(REST_SECONDS)):
        for line in seconds_pass(story, 1):
            said.append(line)
            if "Recall" in line:
                story.give_back(line.split()[0], ["t"])
                said += story.settle()
    assert said == ["w0 <- Recall t", "w1 <- Dispatch t"]


def test_a_worker_that_cannot_run_it_is_no_reason_to_ask() -> None:
    story = Story()
    story.client("c")
    story.worker("stuck", credit=2, capabilities={"gpu": -1})
    story.submit("c", ["endless", "a"], capabilities=(Capability("gpu", -1),))
    story.settle()
    flood(story)
    assert seconds_pass(story, 5 * STILL_SECONDS) == []
    story.worker("able", credit=1, capabilities={"gpu": -1})
    assert seconds_pass(story, STILL_SECONDS) == ["stuck <- Recall a endless"]


def test_nodes_of_graphs_and_nested_tasks_go_as_well() -> None:
    story = Story()
    story.client("c")
    story.worker("stuck", credit=2, reserve=1)
    story.submit("c", ["endless"])
    story.submit_graph("c", {"node": ()})
    story.settle()
    story.client("child", parent="endless")
    story.submit("child", ["nested"], parent_task=task("endless"), depth=1)
    story.settle()
    assert held_by(story, "stuck") == ["endless", "node", "nested"]
    flood(story)
    seconds_pass(story, STILL_SECONDS + 1)
    assert story.core.tables.workers[peer("stuck")].recalling >= {task("nested"), task("node")}


def test_it_holds_where_balancing_is_switched_off() -> None:
    story = Story(Policy(load_balance_seconds=-1))
    story.client("c")
    story.worker("stuck", credit=2)
    story.submit("c", ["endless", "a"])
    story.settle()
    flood(story)
    assert any("Recall" in line for line in seconds_pass(story, STILL_SECONDS + 1))


def test_a_silent_worker_is_asked_again_only_after_a_while(story: Story) -> None:
    """A worker that says nothing of its processors has perhaps begun all that it was asked for."""
    asked = 0
    for _ in range(2 * int(REST_SECONDS) + int(STILL_SECONDS)):
        for line in seconds_pass(story, 1):
            if "Recall" in line:
                asked += 1
                story.give_back("stuck", [])
                story.settle()
    assert asked == 2
    assert not story.core.tables.workers[peer("stuck")].is_cut_off, "it gave nothing back, and may be well"
