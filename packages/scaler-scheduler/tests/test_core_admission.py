"""A bound on the tasks that wait for a worker (SCH-32)."""

from __future__ import annotations

from tests.support.scheduler_story import Story, task

from scaler_protocol.codec import decode_task_error
from scaler_protocol.codes import QUEUE_FULL, STATUS_REFUSED
from scaler_protocol.messages import Results
from scaler_scheduler.core import Policy, Send


def bounded(limit: int) -> Story:
    story = Story(Policy(waiting_limit=limit))
    story.client("c")
    return story


def test_what_arrives_beyond_the_bound_is_refused_and_the_rest_waits() -> None:
    story = bounded(2)
    story.submit("c", range(4))
    (send,) = story.actions()
    assert isinstance(send, Send) and isinstance(send.message, Results)
    assert sorted(map(bytes, (send.message.ids[:16], send.message.ids[16:]))) == [task(2), task(3)]
    assert set(send.message.statuses) == {STATUS_REFUSED}
    error = decode_task_error(bytes(send.message.payload[: len(send.message.payload) // 2]))
    assert error.code == QUEUE_FULL and "--max-number-of-tasks-waiting" in error.message
    story.worker("w")
    assert story.settle() == ["w <- Dispatch 0 1"]


def test_what_workers_have_room_for_does_not_wait() -> None:
    story = bounded(0)
    story.worker("w", credit=3)
    story.submit("c", range(3))
    assert story.settle() == ["w <- Dispatch 0 1 2"]
    story.submit("c", ["one more"])
    assert story.settle() == ["c <- Results one more refused"]


def test_what_came_back_from_a_lost_worker_is_not_refused() -> None:
    story = bounded(1)
    story.worker("w", credit=3)
    story.submit("c", range(3))
    story.settle()
    story.submit("c", ["waits"])
    assert story.settle() == []
    story.lost("w")
    assert story.settle() == ["storage <- Release of c 1 objects"] * 3
    story.worker("v", credit=9)
    assert story.settle() == ["v <- Dispatch 0 1 2 attempt [2, 2, 2]", "v <- Dispatch waits"]


def test_dependents_of_a_refused_task_end_with_it() -> None:
    story = bounded(0)
    story.submit_graph("c", {"a": [], "b": ["a"]})
    (send,) = story.actions()
    assert isinstance(send, Send) and isinstance(send.message, Results)
    assert len(send.message.ids) == 32 and story.core.tables.where == {}


def test_without_a_bound_any_number_waits(story: Story) -> None:
    story.submit("c", range(5000))
    assert story.settle() == [] and not story.core.tables.arrived
