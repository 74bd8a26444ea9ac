"""Tasks that come ahead of their time: where they wait, when they run, and when they go back (WRK-23, WRK-24)."""

from __future__ import annotations

import pytest
from tests.support.holder_story import CLIENT, ids, results, sent, task_id
from tests.support.worker_story import TINY, Story, handed

from scaler_protocol.codes import (
    CANCEL_CANCELED,
    CANCEL_UNKNOWN,
    KIND_INLINE,
    KIND_TASK,
    STATUS_CANCELED,
    STATUS_FAILED,
    STATUS_PROCESSOR_DIED,
    STATUS_SUCCESS,
)
from scaler_protocol.columns import join_u16, join_u32, split_ids
from scaler_protocol.messages import Cancel, CancelReply, Dispatch, Recall, Returned, TaskHeader
from scaler_worker.core.actions import Action, HandOver, Reclaim
from scaler_worker.core.events import DrainRequested, GaveBack, ProcessorExited, TaskBlocked
from scaler_worker.core.handing import STUCK_SECONDS


@pytest.fixture
def story() -> Story:
    return Story().start()


def dispatch(story: Story, *chain: int, behind: int | None = None) -> list[Action]:
    """Each takes the result of the one before it; the first that of `behind`."""
    awaited = [other for other in (behind, *chain[:-1]) if other is not None]
    free = len(chain) - len(awaited)
    batch = Dispatch(
        TaskHeader(client=CLIENT),
        TINY,
        ids(*chain),
        b"x" * free + ids(*awaited),
        join_u32([1] * free + [16] * len(awaited)),
        part_kinds=bytes([KIND_INLINE] * free + [KIND_TASK] * len(awaited)),
        awaited_counts=join_u16([0] * free + [1] * len(awaited)),
        awaited=ids(*awaited),
    )
    return story.receive(batch)


def waiting(story: Story) -> list[int]:
    return [int.from_bytes(one, "big") for one in story.core.tables.ahead.waiting]


def returned(actions: list[Action]) -> list[int]:
    return [int.from_bytes(one, "big") for message in sent(actions, Returned) for one in split_ids(message.ids)]


def test_a_chain_is_handed_over_as_one_slice(story: Story) -> None:
    story.learn()
    (action,) = dispatch(story, 1, 2, 3)
    assert isinstance(action, HandOver)
    first, second, third = action.tasks
    assert action.numbers == {task_id(1): first.number, task_id(2): second.number}
    assert third.parts == ((KIND_TASK, task_id(2)),)
    assert results(story.end(1, 1, 2, 3)) == dict.fromkeys((1, 2, 3), STATUS_SUCCESS)


def test_links_of_unknown_duration_run_one_by_one_with_their_inputs(story: Story) -> None:
    assert handed(dispatch(story, 1, 2, 3)) == {1: [1]}
    assert waiting(story) == [2, 3]
    (action,) = [action for action in story.end(1, 1, seconds=0.05) if isinstance(action, HandOver)]
    assert [(task.id, task.awaits, task.parts) for task in action.tasks] == [(task_id(2), None, b"v")]
    assert waiting(story) == [3]


def test_what_comes_later_runs_behind_the_last_of_the_slice(story: Story) -> None:
    story.learn()
    dispatch(story, 1, 2)
    (action,) = dispatch(story, 3, 4, behind=2)
    assert isinstance(action, HandOver) and [task.id for task in action.tasks] == [task_id(3), task_id(4)]
    assert set(action.numbers) == {task_id(2), task_id(3)}


def test_behind_any_other_it_waits_for_the_result(story: Story) -> None:
    """A processor keeps results for tasks of one order, and the last one."""
    story.learn()
    dispatch(story, 1, 2)
    assert handed(dispatch(story, 3, behind=1)) == {}
    assert handed(story.end(1, 1)) == {1: [3]}


def test_a_result_that_was_just_reported_is_still_known(story: Story) -> None:
    story.learn()
    dispatch(story, 1, 2)
    story.end(1, 1, 2)
    (action,) = dispatch(story, 3, behind=2)
    assert isinstance(action, HandOver) and action.tasks[0].parts == b"v"
    assert returned(dispatch(story, 4, 5, behind=1)) == [4, 5], "only the last of what was reported is"


def test_what_follows_a_failure_goes_back_before_it_is_reported(story: Story) -> None:
    story.learn()
    dispatch(story, 1, 2, 3)
    actions = story.end(1, 1, status=STATUS_FAILED)
    assert returned(actions[:1]) == [2, 3]
    assert results(actions[1:]) == {1: STATUS_FAILED}
    assert story.held(1) == []


def test_what_follows_a_dead_processor_goes_back(story: Story) -> None:
    story.learn()
    dispatch(story, 1, 2, 3)
    actions = story.step(ProcessorExited(1, -9))
    assert (returned(actions), results(actions)) == ([2, 3], {1: STATUS_PROCESSOR_DIED})


def test_what_follows_a_blocked_task_waits_for_it(story: Story) -> None:
    story.learn()
    dispatch(story, 1, 2)
    story.step(TaskBlocked(1, story.number()))
    assert (waiting(story), story.queued()) == ([2], [])


def test_a_canceled_task_takes_along_what_follows_it(story: Story) -> None:
    story.dispatch(9)
    dispatch(story, 1, 2)
    actions = story.receive(Cancel(ids(1)))
    assert (returned(actions), results(actions)) == ([2], {1: STATUS_CANCELED})


def test_a_follower_can_be_canceled_by_itself(story: Story) -> None:
    dispatch(story, 1, 2, 3)
    actions = story.receive(Cancel(ids(2)))
    assert (returned(actions), results(actions)) == ([3], {2: STATUS_CANCELED})
    assert sent(actions, CancelReply) == [CancelReply(ids(2), bytes([CANCEL_CANCELED]) if CANCEL_CANCELED else b"")]


def test_a_cancel_of_what_goes_back_is_answered(story: Story) -> None:
    story.learn()
    dispatch(story, 1, 2)
    assert story.receive(Cancel(ids(2))) == [Reclaim(1, 1)]
    actions = story.end(1, 1, status=STATUS_FAILED)
    assert returned(actions) == [2]
    assert sent(actions, CancelReply) == [CancelReply(ids(2), bytes([CANCEL_UNKNOWN]))]


def test_a_recall_takes_along_what_follows(story: Story) -> None:
    story.dispatch(9)
    dispatch(story, 1, 2, 3)
    (message,) = sent(story.receive(Recall(ids(1))), Returned)
    assert message.is_recall_answer and message.ids == ids(1, 2, 3)


def test_a_draining_worker_keeps_nothing_for_later(story: Story) -> None:
    dispatch(story, 1, 2, 3)
    assert sorted(returned(story.step(DrainRequested(5.0)))) == [2, 3]
    assert results(story.end(1, 1)) == {1: STATUS_SUCCESS}


def test_nothing_waits_behind_a_task_that_takes_long(story: Story) -> None:
    """A more urgent task could not be dispatched while they are held (CRD-1)."""
    story.learn(seconds=0.001)
    dispatch(story, 1, 2, 3)
    story.step(after=STUCK_SECONDS)
    assert story.processor(1).is_reclaiming
    assert story.step(GaveBack(1, 1, story.number())) == []
    assert waiting(story) == [2, 3]
    assert sorted(returned(story.step(after=0.1))) == [2, 3]
    assert results(story.end(1, 1)) == {1: STATUS_SUCCESS}


def test_what_awaits_a_stranger_goes_back(story: Story) -> None:
    assert returned(dispatch(story, 2, 3, behind=1)) == [2, 3]
    assert story.core.tables.tasks == {}
