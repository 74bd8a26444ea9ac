"""Counted amounts of blocked tasks, which the tasks that they wait for may take. (SCH-47)"""

from __future__ import annotations

from tests.support.scheduler_story import Story, peer, task

from scaler_protocol.messages import Capability, ProcessorStatus, WorkerStatus


def family(story: Story, *children: str, amount: int = 1, gpus: int = 1) -> None:
    """A parent at a worker with so many units, and children that need as many as it does, or as `amount` says."""
    story.client("c")
    story.worker("w", capabilities={"gpu": gpus})
    story.submit("c", ["parent"], capabilities=(Capability("gpu", gpus),))
    assert story.settle() == ["w <- Dispatch parent"]
    if children:
        needed = (Capability("gpu", amount),)
        story.submit("c", children, depth=1, parent_task=task("parent"), capabilities=needed)


def blocked(story: Story, *tasks: str) -> None:
    processors = tuple(ProcessorStatus(state=3, task_id=task(one)) for one in tasks)
    story.receive("w", WorkerStatus(blocked_count=len(tasks), processors=processors))


def test_a_child_gets_the_unit_that_its_blocked_parent_holds() -> None:
    story = Story()
    family(story, "child")
    assert story.settle() == [], "its parent computes with that unit"
    blocked(story, "parent")
    assert story.settle() == ["w <- Dispatch child"]
    story.results("w", ["child"])
    story.results("w", ["parent"])
    story.settle()
    assert story.core.tables.workers[peer("w")].free_amounts == {"gpu": 1}


def test_one_unit_is_lent_once_at_a_time() -> None:
    story = Story()
    family(story, "first", "second")
    blocked(story, "parent")
    assert story.settle() == ["w <- Dispatch first"]
    story.results("w", ["first"])
    assert story.settle() == ["w <- Dispatch second", "c <- Results first"]


def test_what_was_lent_is_lent_on() -> None:
    story = Story()
    family(story, "child")
    blocked(story, "parent")
    story.settle()
    story.submit("c", ["grandchild"], depth=2, parent_task=task("child"), capabilities=(Capability("gpu", 1),))
    assert story.settle() == [], "the unit that the parent lends is with the child"
    blocked(story, "parent", "child")
    assert story.settle() == ["w <- Dispatch grandchild"]


def test_a_family_lends_as_much_as_it_holds() -> None:
    story = Story()
    family(story, "a", "b", "c2", amount=2, gpus=4)
    blocked(story, "parent")
    assert story.settle() == ["w <- Dispatch a b"]


def test_what_a_task_lends_is_for_its_own_descendants() -> None:
    story = Story()
    family(story)
    story.submit("c", ["stranger"], depth=3, capabilities=(Capability("gpu", 1),))
    story.submit("c", ["foundling"], depth=3, parent_task=task("nobody"), capabilities=(Capability("gpu", 1),))
    story.submit("c", ["narcissus"], depth=3, parent_task=task("narcissus"), capabilities=(Capability("gpu", 1),))
    blocked(story, "parent")
    assert story.settle() == []
    story.results("w", ["parent"])
    assert "w <- Dispatch stranger" in story.settle()


def test_a_task_that_goes_on_lends_no_more() -> None:
    story = Story()
    family(story, "first", "second")
    blocked(story, "parent")
    assert story.settle() == ["w <- Dispatch first"]
    blocked(story)
    story.results("w", ["first"])
    assert story.settle() == ["c <- Results first"]


def test_a_worker_that_is_lost_lends_nothing() -> None:
    story = Story()
    family(story, "child")
    blocked(story, "parent")
    story.settle()
    story.lost("w")
    story.settle()
    assert not story.core.tables.lending
