"""What a worker holds outlives its scheduler: it is presented to the next one. (WRK-33 to WRK-41)"""

from __future__ import annotations

from dataclasses import replace

from tests.support.holder_story import SCHEDULER, ids, names
from tests.support.presenting_story import LOST, OTHER, opened, presented
from tests.support.worker_story import LONG, Story, handed

from scaler_protocol.codes import HELD_ENDED, HELD_QUEUED, HELD_RUNNING, SESSION_REPLACED
from scaler_protocol.holding import kept_ends
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import NO_PEER, Cancel, Credit, Delivered, Dispatch, Holding, Results, Returned, Shutdown
from scaler_protocol.session import Lost
from scaler_worker.core.actions import Action, AwaitAcknowledgement, Finish, KillProcessor, Reclaim, Send
from scaler_worker.core.events import Acknowledged, DrainRequested, GaveBack


def started(**settings: object) -> Story:
    """In a session with the feature."""
    story = Story(**settings).start()
    story.step(Lost(SCHEDULER, 202, "", False), opened(SCHEDULER, NO_PEER))
    return story


def with_short_tasks() -> Story:
    """A processor is handed several at a time. How it has learned that is with the scheduler."""
    story = started()
    story.learn(seconds=0.001)
    story.receive(Delivered(1))
    return story


def sent(actions: list[Action], *kinds: type) -> list[object]:
    return [one.message for one in actions if isinstance(one, Send) and isinstance(one.message, kinds)]


def test_what_is_held_is_presented_before_anything_else() -> None:
    story = started()
    story.dispatch(1, 2, 3, function=LONG)
    story.end(1, 1, seconds=1.0)
    story.step(LOST)
    story.end(1, 2, seconds=1.0)
    assert story.held(1) == [], "nothing begins without a session (WRK-41)"
    actions = story.step(opened(), after=5.0)
    assert isinstance(actions[0], Send) and isinstance(actions[0].message, Holding)
    assert presented(actions) == {1: HELD_ENDED, 2: HELD_ENDED, 3: HELD_QUEUED}
    (results,) = sent(actions, Results)
    assert isinstance(results, Results) and names(results.ids) == [1, 2]
    assert not handed(actions) and story.held(1) == []
    assert handed(story.receive(Delivered())) == {1: [3]}, "the scheduler has read it (WRK-38)"


def test_what_runs_goes_on() -> None:
    story = started()
    story.dispatch(1, function=LONG)
    assert not [one for one in story.step(LOST) if isinstance(one, KillProcessor)]
    assert presented(story.step(opened(), after=59.0)) == {1: HELD_RUNNING}
    (results,) = sent(story.end(1, 1), Results)
    assert isinstance(results, Results) and names(results.ids) == [1]


def test_what_a_processor_was_handed_and_has_not_begun_is_taken_back() -> None:
    story = with_short_tasks()
    story.dispatch(1, 2, 3)
    assert Reclaim(1, 1) in story.step(LOST)
    story.step(GaveBack(1, 1, story.number()))
    assert (story.held(1), story.queued()) == ([1], [2, 3])
    actions = story.step(opened(), after=1.0)
    assert presented(actions) == {1: HELD_RUNNING, 2: HELD_QUEUED, 3: HELD_QUEUED}
    assert not handed(story.end(1, 1)), "the scheduler has not read it (WRK-38)"
    assert handed(story.receive(Delivered())) == {1: [2, 3]}


def test_what_a_processor_has_not_given_back_is_presented_as_begun() -> None:
    story = with_short_tasks()
    story.dispatch(1, 2)
    story.step(LOST)
    assert presented(story.step(opened(), after=1.0)) == {1: HELD_RUNNING, 2: HELD_RUNNING}


def test_what_no_scheduler_takes_is_dropped() -> None:
    for event, wait in (
        (opened(SCHEDULER), 1.0),  # the same one has given it up (WRK-39)
        (opened(has_feature=False), 1.0),
        (opened(), 60.1),  # too late (WRK-34)
    ):
        story = started()
        story.dispatch(1, 2, function=LONG)
        story.step(LOST)
        actions = story.step(after=wait)
        actions += story.step(event)
        assert [one.processor for one in actions if isinstance(one, KillProcessor)] == [1]
        assert presented(actions) == {} and not story.core.tables.tasks


def test_some_losses_leave_nothing_to_present() -> None:
    for story, lost in (
        (started(present_seconds=0.0), LOST),
        (started(), replace(LOST, code=SESSION_REPLACED)),
        (Story().start(), LOST),  # the session was without the feature
    ):
        story.dispatch(1, function=LONG)
        actions = story.step(lost)
        assert [one.processor for one in actions if isinstance(one, KillProcessor)] == [1]
        assert presented(story.step(opened())) == {}


def test_a_task_that_is_being_canceled_is_not_presented() -> None:
    """Its client counts it as canceled, and will not submit it."""
    story = started()
    story.dispatch(1, 2, function=LONG)
    story.receive(Cancel(ids(1), grace_seconds=60.0))
    actions = story.step(LOST)
    assert [one.processor for one in actions if isinstance(one, KillProcessor)] == [1]
    assert presented(story.step(opened())) == {2: HELD_QUEUED}


def test_a_task_that_is_canceled_behind_another_and_not_given_back_is_not_presented() -> None:
    story = with_short_tasks()
    story.dispatch(1, 2)
    story.receive(Cancel(ids(2), grace_seconds=60.0))
    assert story.held(1) == [1, 2], "the processor has not answered the reclaim"
    story.step(LOST)
    assert presented(story.step(opened(), after=1.0)) == {1: HELD_RUNNING}
    story.step(GaveBack(1, story.core.tables.processors[1].reclaim_serial, story.number()))
    assert story.held(1) == [1] and story.queued() == []


def test_delivered_results_are_not_presented() -> None:
    story = started()
    for name in (1, 2, 3):
        story.dispatch(name, function=LONG)
        story.end(1, name)
    story.receive(Delivered(results_count=2))
    story.step(LOST)
    assert presented(story.step(opened())) == {3: HELD_ENDED}
    story.receive(Delivered(results_count=1))
    story.step(replace(LOST, peer_id=OTHER))
    assert presented(story.step(opened(PeerId(b"u" * 16), OTHER))) == {}, "the count begins anew with each session"


def test_a_task_that_was_tried_again_is_presented_once() -> None:
    story = started()
    story.dispatch(1, function=LONG)
    story.end(1, 1, status=1)
    story.dispatch(1, function=LONG)
    story.step(LOST)
    assert presented(story.step(opened())) == {1: HELD_RUNNING}


def test_results_are_kept_within_a_bound() -> None:
    story = started()
    kept = story.core.tables.presenting.kept
    for name in range(1, 4):
        story.dispatch(name, function=LONG)
        story.end(1, name)
    assert len(kept) == 3
    limit, kept_ends.KEPT_TASKS = kept_ends.KEPT_TASKS, 2
    try:
        story.dispatch(4, function=LONG)
        story.end(1, 4)
    finally:
        kept_ends.KEPT_TASKS = limit
    assert len(kept) == 2
    story.step(LOST)
    assert presented(story.step(opened())) == {3: HELD_ENDED, 4: HELD_ENDED}


def test_a_worker_that_drains_presents_how_its_tasks_ended_and_leaves() -> None:
    story = started()
    story.dispatch(1, function=LONG)
    story.step(LOST, DrainRequested(30.0))
    assert not _leaves(story.end(1, 1)), "its result is not told yet"
    actions = story.step(opened(), after=1.0)
    assert presented(actions) == {1: HELD_ENDED}
    kinds = [type(one.message) for one in actions if isinstance(one, Send)]
    assert kinds == [Holding, Credit, Results]
    assert AwaitAcknowledgement() not in story.receive(Delivered(0, 1)), "its client has not got the result yet"
    assert AwaitAcknowledgement() in story.receive(Delivered(1, 1))
    assert _leaves(story.step(Acknowledged()))


def test_a_drained_worker_leaves_when_the_scheduler_has_its_results() -> None:
    """One that has just died takes nothing more, and its successor is told what it never got. (WRK-32)"""
    story = started()
    story.dispatch(1, function=LONG)
    story.step(DrainRequested(50.0))
    assert AwaitAcknowledgement() in story.end(1, 1)
    assert not _leaves(story.step(LOST, after=1.0)) and not _leaves(story.step(Acknowledged()))
    assert presented(story.step(opened(), after=1.0)) == {1: HELD_ENDED}
    story.receive(Delivered(1, 1))
    assert _leaves(story.step(Acknowledged()))


def test_a_worker_that_is_shut_down_with_its_scheduler_leaves_with_it() -> None:
    """There is no successor to be told anything."""
    story = started()
    story.dispatch(1, function=LONG)
    story.end(1, 1)
    story.receive(Shutdown(50.0))
    assert _leaves(story.step(LOST))


def _leaves(actions: list[Action]) -> bool:
    return any(isinstance(action, Finish) for action in actions)


def test_tasks_of_an_earlier_generation_are_given_back() -> None:
    """(WRK-33)"""
    story = started()
    (header,) = {task.header for task in [*_tasks(story)]}
    batch = Dispatch(replace(header, generation=1), b"f" * 16, ids(7), b"", bytes(4))
    (returned,) = sent(story.receive(batch), Returned)
    assert isinstance(returned, Returned) and names(returned.ids) == [7] and not returned.is_recall_answer
    assert not sent(story.receive(replace(batch, header=replace(header, generation=3))), Returned)
    assert sent(story.receive(replace(batch, ids=ids(8), header=replace(header, generation=2))), Returned)


def _tasks(story: Story) -> list[object]:
    story.dispatch(6, function=LONG)
    tasks = list(story.core.tables.tasks.values())
    story.end(1, 6)
    return tasks  # type: ignore[return-value]
