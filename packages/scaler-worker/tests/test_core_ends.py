"""The agent's decisions: cancel, timeout, death, and the end of sessions and workers."""

from __future__ import annotations

import pytest
from tests.support.holder_story import OPENED, SCHEDULER, ids, results, sent
from tests.support.worker_story import LONG, Story, handed

from scaler_protocol import codec
from scaler_protocol.codes import (
    CANCEL_TOO_LATE,
    CANCEL_UNKNOWN,
    PROCESSOR_DIED,
    STATUS_CANCELED,
    STATUS_FAILED,
    STATUS_PROCESSOR_DIED,
    STATUS_SUCCESS,
    STATUS_TIMED_OUT,
    TASK_TIMED_OUT,
)
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Credit,
    Results,
    Returned,
    Shutdown,
)
from scaler_protocol.session import Lost
from scaler_worker.core import events
from scaler_worker.core.actions import (
    AwaitAcknowledgement,
    Finish,
    Interrupt,
    KillProcessor,
    Log,
    Reclaim,
    Send,
    StartProcessor,
)
from scaler_worker.core.events import (
    INTERRUPTED,
    Acknowledged,
    DrainRequested,
    GaveBack,
    ProcessorBroken,
    ProcessorExited,
    ProcessorReady,
    ResumeWanted,
    Started,
    TaskBlocked,
    TasksEnded,
)


@pytest.fixture
def story() -> Story:
    return Story().start()


# ---------------------------------------------------------------- cancel and timeout


def test_cancel_of_a_queued_task(story: Story) -> None:
    story.learn(LONG, 0.3)
    story.dispatch(1, 2, function=LONG)
    actions = story.receive(Cancel(ids(2)))
    assert results(actions) == {2: STATUS_CANCELED}
    assert actions[-1] == Send(CancelReply(ids(2)))


def test_cancel_of_an_unknown_task(story: Story) -> None:
    assert Send(CancelReply(ids(7), bytes([CANCEL_UNKNOWN]))) in story.receive(Cancel(ids(7)))


def test_an_id_that_is_repeated_is_answered_once(story: Story) -> None:
    assert story.receive(Cancel(ids(7, 7))) == [Send(CancelReply(ids(7), bytes([CANCEL_UNKNOWN])))]


def test_cancel_of_a_running_task_interrupts_it(story: Story) -> None:
    story.dispatch(1)
    assert Interrupt(1, story.number()) in story.receive(Cancel(ids(1)))
    actions = story.end(1, 1, status=INTERRUPTED)
    assert results(actions) == {1: STATUS_CANCELED}
    assert Send(CancelReply(ids(1))) in actions


def test_a_task_that_does_not_obey_is_killed_after_its_grace(story: Story) -> None:
    story.dispatch(1)
    story.receive(Cancel(ids(1), grace_seconds=2.0))
    assert KillProcessor(1) not in story.step(after=1.9)
    assert story.step(after=0.2)[0] == KillProcessor(1)
    actions = story.step(ProcessorExited(1, -9))
    assert results(actions) == {1: STATUS_CANCELED}
    assert Send(CancelReply(ids(1))) in actions


def test_a_task_that_ends_in_spite_of_a_cancel_was_too_late(story: Story) -> None:
    story.dispatch(1)
    story.receive(Cancel(ids(1)))
    actions = story.end(1, 1, status=STATUS_FAILED)
    assert results(actions) == {1: STATUS_FAILED}
    assert Send(CancelReply(ids(1), bytes([CANCEL_TOO_LATE]))) in actions


def test_every_cancel_is_answered_once_each(story: Story) -> None:
    story.dispatch(1)
    story.receive(Cancel(ids(1)))
    story.receive(Cancel(ids(1)))
    (reply,) = sent(story.end(1, 1, status=INTERRUPTED), CancelReply)
    assert reply == CancelReply(ids(1, 1))


def test_a_canceled_task_behind_another_of_its_slice_is_taken_back_at_once(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2, 3)
    assert story.receive(Cancel(ids(2))) == [Reclaim(1, 1)]
    actions = story.step(GaveBack(1, 1, story.number()))
    assert results(actions) == {2: STATUS_CANCELED}
    assert sent(actions, CancelReply) == [CancelReply(ids(2))]
    assert (story.held(1), handed(actions)) == ([1, 3], {1: [3]}), "what is not canceled goes on"


def test_what_waits_behind_a_canceled_task_is_taken_back_before_that_is_interrupted(story: Story) -> None:
    """In the other order the processor would begin the second as soon as the first makes way."""
    story.learn(seconds=0.001)
    story.dispatch(1, 2, 3)
    assert story.receive(Cancel(ids(1, 2, 3))) == [Reclaim(1, 1), Interrupt(1, story.number())]
    assert results(story.step(GaveBack(1, 1, story.number()))) == {2: STATUS_CANCELED, 3: STATUS_CANCELED}
    assert results(story.end(1, 1, status=INTERRUPTED)) == {1: STATUS_CANCELED}


def test_cancels_that_follow_one_another_take_a_slice_back_once(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2, 3)
    assert story.receive(Cancel(ids(3))) == [Reclaim(1, 1)]
    assert story.receive(Cancel(ids(2))) == []
    assert story.receive(Cancel(ids(3))) == []
    actions = story.step(GaveBack(1, 1, story.number()))
    assert results(actions) == {2: STATUS_CANCELED, 3: STATUS_CANCELED}
    assert sorted(sent(actions, CancelReply)[0].ids) == sorted(ids(2, 3, 3))


def test_a_canceled_task_that_finds_its_processor_between_two_tasks_does_not_begin(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2, 3)
    story.receive(Cancel(ids(2)))
    story.end(1, 1)
    actions = story.step(GaveBack(1, 1, 0))
    assert results(actions) == {2: STATUS_CANCELED}
    assert handed(actions) == {1: [3]}


def test_a_canceled_task_that_has_begun_before_it_is_taken_back_is_interrupted(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2, 3)
    story.receive(Cancel(ids(2)))
    assert Interrupt(1, story.number() + 1) in story.end(1, 1)
    assert results(story.step(GaveBack(1, 1, story.number()))) == {}
    assert results(story.end(1, 2, status=INTERRUPTED)) == {2: STATUS_CANCELED}


def test_a_task_that_runs_too_long_is_interrupted_then_killed(story: Story) -> None:
    story.dispatch(1, timeout_seconds=5.0)
    assert story.core.next_deadline() == story.now + 5.0
    assert story.step(after=5.0)[0] == Interrupt(1, story.number())
    assert story.step(after=1.0)[0] == KillProcessor(1)
    actions = story.step(ProcessorExited(1, -9))
    assert results(actions) == {1: STATUS_TIMED_OUT}
    assert codec.decode_task_error(bytes(sent(actions, Results)[0].payload)).code == TASK_TIMED_OUT


@pytest.mark.parametrize(("general", "own", "seconds"), [(5.0, 0.0, 5.0), (5.0, 2.0, 2.0), (2.0, 5.0, 2.0)])
def test_a_worker_may_have_a_timeout_for_every_task(general: float, own: float, seconds: float) -> None:
    story = Story(task_timeout_seconds=general).start()
    story.dispatch(1, timeout_seconds=own)
    assert story.core.next_deadline() == story.now + seconds
    assert story.step(after=seconds)[0] == Interrupt(1, story.number())
    actions = story.end(1, 1, status=INTERRUPTED)
    assert results(actions) == {1: STATUS_TIMED_OUT}
    error = codec.decode_task_error(bytes(sent(actions, Results)[0].payload))
    assert f"timeout of {seconds:g} s" in error.message


# ---------------------------------------------------------------- deaths


def test_the_culprit_of_a_death_is_the_first_task_without_a_result(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2, 3, 4)
    actions = story.step(
        TasksEnded(1, [(story.number(), 0, 0, 0.001, b"v", b"")]), ProcessorExited(1, -11, peak_memory_bytes=2**20)
    )
    assert results(actions) == {1: STATUS_SUCCESS, 2: STATUS_PROCESSOR_DIED}
    assert StartProcessor(2) in actions and story.queued() == [3, 4]
    error = codec.decode_task_error(bytes(sent(actions, Results)[0].payload)[1:])
    assert (error.code, error.exit_code, error.peak_memory_bytes) == (PROCESSOR_DIED, -11, 2**20)
    assert "SIGSEGV" in error.message and error.workers == (error.workers[0],) and "w" in error.workers[0]
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [3, 4]}


def test_a_task_innocent_of_a_kill_runs_again(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2)
    story.receive(Cancel(ids(1), grace_seconds=0.001))
    story.step(after=0.002)
    assert results(story.end(1, 1)) == {1: STATUS_SUCCESS}
    story.step(ProcessorExited(1, -9))
    assert story.queued() == [2]


def test_processors_that_die_while_starting_are_started_ever_more_slowly() -> None:
    story = Story()
    story.step(Started(), OPENED)
    pauses = []
    for number in range(1, 5):
        actions = story.step(ProcessorExited(number, 1))
        assert not any(isinstance(action, StartProcessor) for action in actions)
        deadline = story.core.next_deadline()
        assert deadline is not None
        pauses.append(deadline - story.now)
        assert StartProcessor(number + 1) in story.step(after=pauses[-1])
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8])


@pytest.mark.parametrize(
    "nonsense",
    [
        TasksEnded(1, [(77, 0, 0, 0.1, b"", b"")]),
        TaskBlocked(1, 77),
        ResumeWanted(1),
        GaveBack(1, 5, 0),
        ProcessorReady(1, 1),
        ProcessorBroken(1, "wrote junk"),
    ],
)
def test_a_processor_that_talks_nonsense_is_killed_and_its_task_dies(story: Story, nonsense: events.Event) -> None:
    story.dispatch(1)
    actions = story.step(nonsense)
    assert KillProcessor(1) in actions and any(isinstance(action, Log) for action in actions)
    assert results(story.step(ProcessorExited(1, -9))) == {1: STATUS_PROCESSOR_DIED}


# ---------------------------------------------------------------- the end


def test_a_lost_session_drops_everything_and_kills_what_runs(story: Story) -> None:
    story.dispatch(1, 2)
    assert KillProcessor(1) in story.step(Lost(SCHEDULER, 205, "lease expired", False))
    assert sent(story.step(ProcessorExited(1, -9)), Results) == []
    story.step(ProcessorReady(2, 2))
    assert story.step(OPENED)[0] == Send(Credit(2, 2))
    assert handed(story.dispatch(1)) == {2: [1]}


@pytest.mark.parametrize("is_operators", [True, False])
def test_draining_hands_back_the_queue_and_finishes_what_runs(story: Story, is_operators: bool) -> None:
    story.dispatch(1, 2)
    actions = story.step(DrainRequested(5.0)) if is_operators else story.receive(Shutdown(5.0))
    assert Send(Credit(0, 0)) in actions and Send(Returned(ids(2), is_recall_answer=False)) in actions
    actions = story.end(1, 1)
    assert results(actions) == {1: STATUS_SUCCESS} and isinstance(actions[-1], AwaitAcknowledgement)
    assert isinstance(story.step(Acknowledged())[-1], Finish)


def test_draining_takes_back_what_a_slice_has_not_begun(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2, 3)
    assert Reclaim(1, 1) in story.step(DrainRequested(5.0))
    assert Send(Returned(ids(2, 3), is_recall_answer=False)) in story.step(GaveBack(1, 1, story.number()))


def test_draining_does_not_wait_for_ever(story: Story) -> None:
    story.dispatch(1)
    story.step(DrainRequested(5.0))
    assert isinstance(story.step(after=5.0)[-1], Finish)


def test_a_dispatch_to_a_draining_worker_comes_back(story: Story) -> None:
    story.dispatch(1)
    story.step(DrainRequested(5.0))
    assert Send(Returned(ids(2), is_recall_answer=False)) in story.dispatch(2)


def test_a_task_dispatched_twice_ends_the_worker(story: Story) -> None:
    story.dispatch(1)
    (finish,) = [action for action in story.dispatch(1) if isinstance(action, Finish)]
    assert finish.is_failure
