"""No descendant of a task that is being canceled begins. (CAN-13)"""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import Story, ids, peer, task

from scaler_protocol.codes import CANCEL_UNKNOWN, STATUS_FAILED
from scaler_protocol.messages import Cancel, CancelReply, Credit
from scaler_scheduler.core.tables import families


@pytest.fixture
def family(story: Story) -> Story:
    """The parent runs, and its client is in it. The worker has one place for it and one for a child."""
    story.worker("w", credit=1, reserve=1)
    story.submit("c", ["parent"])
    story.client("n")
    story.settle()
    return story


def nest(story: Story, tasks: list[str], parent: str = "parent", client: str = "n", **header: object) -> None:
    story.submit(client, tasks, parent_task=task(parent), depth=1, **header)


def dispatched(lines: list[str]) -> list[str]:
    return [line for line in lines if "Dispatch" in line]


def test_no_child_of_a_task_that_is_being_canceled_begins(family: Story) -> None:
    nest(family, ["running"])
    nest(family, ["queued", "last"])
    assert family.settle() == ["w <- Dispatch running"]
    family.cancel("c", ["parent"])
    family.results("w", ["running"])
    family.receive("w", Credit(limit=4, nested_reserve=4))
    assert family.settle() == ["w <- Cancel parent", "n <- Results running"]
    nest(family, ["late"])
    assert not family.settle(), "the parent has not ended: its children wait"
    family.canceled("w", ["parent"])
    told = family.settle()
    assert "c <- Results parent canceled" in told and not dispatched(told)
    assert "n <- Results late canceled, last canceled, queued canceled" in told
    family.lost("n")
    family.lost("c")
    family.lost("w")
    family.work_off()
    assert family.is_empty()


def test_others_go_on_meanwhile(family: Story) -> None:
    nest(family, ["doomed"])
    family.receive("w", Credit(limit=0, nested_reserve=0))
    family.settle()
    family.cancel("c", ["parent"])
    nest(family, ["child"], parent="of another cluster")
    family.submit("n", ["nested"], depth=1)
    family.submit("c", ["plain"])
    family.receive("w", Credit(limit=10, nested_reserve=1))
    assert dispatched(family.settle()) == ["w <- Dispatch child", "w <- Dispatch nested", "w <- Dispatch plain"]


def test_no_grandchild_begins_either(family: Story) -> None:
    nest(family, ["child"])
    family.settle()
    family.client("m")
    family.receive("w", Credit(limit=0, nested_reserve=0))
    nest(family, ["grandchild"], parent="child", client="m")
    family.cancel("c", ["parent"])
    family.receive("w", Credit(limit=10, nested_reserve=10))
    assert family.settle() == ["w <- Cancel parent"]
    family.canceled("w", ["parent"])
    assert "w <- Cancel child" in family.settle(), "and its child waits until it has ended"
    assert not family.settle()
    family.canceled("w", ["child"])
    assert "m <- Results grandchild canceled" in family.settle()


def test_a_child_that_arrives_after_its_parents_end_is_canceled(family: Story) -> None:
    family.cancel("c", ["parent"])
    family.canceled("w", ["parent"])
    family.settle()
    nest(family, ["late"])
    assert family.settle() == ["n <- Results late canceled"]
    family.submit("c", ["parent"])
    family.settle()
    nest(family, ["own"])
    assert dispatched(family.settle()) == ["w <- Dispatch own"], "a task that is here again has children again"


@pytest.mark.parametrize("has_dependencies", (False, True))
def test_so_is_one_of_a_large_batch(family: Story, has_dependencies: bool) -> None:
    family.core.tables.backlog.units_at_once = family.core.tables.backlog.slice_tasks = 1
    family.cancel("c", ["parent"])
    family.canceled("w", ["parent"])
    family.settle()
    nest(family, [f"t{number}" for number in range(20)])
    family.work_off()
    assert not dispatched(family.settle()) and not family.core.tables.where


def test_a_task_that_a_later_client_has_taken_over_takes_its_children_along(story: Story) -> None:
    """Its worker runs the attempt of the earlier client still."""
    story.worker("w", credit=2, reserve=5)
    story.submit("c", ["parent"])
    story.settle()
    story.client("n")
    story.client("again")
    story.submit("again", ["parent"])
    assert "w <- Cancel parent" in story.settle()
    nest(story, ["child"])
    assert not story.settle()
    story.canceled("w", ["parent"])
    assert story.settle() == ["w <- Dispatch parent attempt [2]", "n <- Results child canceled"]
    nest(story, ["next"])
    assert dispatched(story.settle()) == ["w <- Dispatch next"]


def test_what_comes_back_from_a_worker_is_not_given_to_another(family: Story) -> None:
    nest(family, ["child"])
    family.settle()
    family.cancel("c", ["parent"])
    family.settle()
    family.worker("v", credit=5)
    family.give_back("w", ["child"])
    assert not family.settle()
    family.receive("w", CancelReply(ids(["parent"]), bytes([CANCEL_UNKNOWN])))
    told = family.settle()
    assert "n <- Results child canceled" in told and not dispatched(told)


def test_the_next_attempt_of_a_failed_parent_has_children(story: Story) -> None:
    story.worker("w", credit=1, reserve=1)
    story.submit("c", ["parent"], retries=1)
    story.settle()
    story.client("n")
    nest(story, ["first", "second"])
    story.settle()
    story.results("w", ["parent"], status=STATUS_FAILED)
    story.canceled("w", ["first"])
    story.settle()
    nest(story, ["third"])
    assert dispatched(story.settle()) == ["w <- Dispatch third"]


def test_claims_of_parents_in_a_circle_end(family: Story) -> None:
    family.receive("w", Credit(limit=0, nested_reserve=0))
    nest(family, ["one"], parent="two")
    nest(family, ["two"], parent="one")
    family.cancel("c", ["parent"])
    family.receive("w", Credit(limit=4, nested_reserve=4))
    assert sorted(dispatched(family.settle())) == ["w <- Dispatch one", "w <- Dispatch two"]


def test_a_turn_looks_at_a_bounded_number(family: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    family.receive("w", Credit(limit=0, nested_reserve=0))
    for number in range(20):
        nest(family, [f"t{number}"])
    nest(family, ["other"], parent="of another cluster")
    family.cancel("c", ["parent"])
    family.receive("w", Credit(limit=30, nested_reserve=4))
    monkeypatch.setattr("scaler_scheduler.core.placing.placement.LOOKS_A_TURN", 6)
    turns = 0
    while not dispatched(family.settle()):
        turns += 1
        assert family.core.next_deadline() == 0.0 and turns < 20
    assert turns > 2
    family.settle()
    assert family.core.next_deadline() != 0.0


def test_only_so_many_ended_parents_are_remembered(family: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "REMEMBERED", 2)
    known, names = family.core.tables.families, ("one", "two", "three")
    for name in names:
        known.note_end(task(name))
    assert [known.has_ended(task(name)) for name in names] == [False, True, True]


def test_a_cancel_of_everything_holds_the_children_of_all(family: Story) -> None:
    family.receive("w", Credit(limit=0, nested_reserve=0))
    nest(family, ["child"])
    family.receive("c", Cancel(is_all=True))
    family.receive("w", Credit(limit=4, nested_reserve=4))
    assert family.settle() == ["w <- Cancel parent"]
    family.lost("c")
    told = family.settle()
    assert "n <- Results child canceled" in told and not dispatched(told)
    assert peer("n") in family.core.tables.clients


def test_a_grandchild_that_comes_after_the_ends_of_both_is_canceled(story: Story) -> None:
    """The child ends by itself, before the Cancel that follows from the end of the parent is worked off."""
    backlog = story.core.tables.backlog
    backlog.turn_steps = backlog.slice_tasks = backlog.units_at_once = 1
    story.settle()
    story.worker("w", credit=4, reserve=4)
    story.submit("c", ["parent"])
    nest(story, ["child"], client="c")
    story.work_off()
    story.cancel("c", ["parent"])
    nest(story, ["grandchild"], parent="child", client="c")
    story.results("w", ["parent"])
    story.results("w", ["child"])
    story.work_off()
    told = story.settle()
    assert not any("Dispatch grandchild" in line for line in told)
    assert any("grandchild canceled" in line for line in told)
