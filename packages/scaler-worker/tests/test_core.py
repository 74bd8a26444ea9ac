"""The agent's decisions: what runs where, and what may be given back."""

from __future__ import annotations

import pytest
from tests.support.holder_story import OPENED, ids, results, sent
from tests.support.worker_story import LONG, Story, handed

from scaler_protocol import codec
from scaler_protocol.codes import (
    STATUS_REFUSED,
    STATUS_SUCCESS,
    TOO_DEEP,
)
from scaler_protocol.columns import join_u32
from scaler_protocol.messages import (
    Cancel,
    Credit,
    Recall,
    Results,
    Returned,
)
from scaler_worker.core.actions import (
    Interrupt,
    KillProcessor,
    Reclaim,
    Resume,
    Send,
    StartProcessor,
    StopProcessor,
)
from scaler_worker.core.events import (
    GaveBack,
    ProcessorReady,
    ResumeWanted,
    Started,
    TaskBlocked,
)
from scaler_worker.core.handing import (
    FALLBACK_SECONDS,
    IDLE_SECONDS,
    LONGEST_SLICE_SECONDS,
    REFUSE_SECONDS,
    RESUME_SECONDS,
    STUCK_SECONDS,
)
from scaler_worker.core.nesting import LONGEST_WAIT_SECONDS
from scaler_worker.core.processors import TRANSITIONS, IllegalStepError, Processor, State, Step
from scaler_worker.core.starting import PATIENCE_SECONDS


@pytest.fixture
def story() -> Story:
    return Story().start()


# ---------------------------------------------------------------- handing over


def test_a_task_goes_to_the_idle_processor_and_its_result_to_the_scheduler(story: Story) -> None:
    assert handed(story.dispatch(1)) == {1: [1]}
    (action,) = story.end(1, 1, seconds=0.5)
    assert action == Send(Results(ids(1), b"v", join_u32([1]), credit=1))


def test_tasks_of_unknown_duration_go_one_by_one(story: Story) -> None:
    assert handed(story.dispatch(1, 2, 3)) == {1: [1]}
    assert handed(story.end(1, 1, seconds=0.2)) == {1: [2]}


def test_tiny_tasks_are_handed_over_in_slices(story: Story) -> None:
    story.learn(seconds=0.21 * LONGEST_SLICE_SECONDS)
    assert handed(story.dispatch(*range(1, 21))) == {1: [1, 2, 3, 4, 5]}


def test_a_slice_is_topped_up_before_it_runs_out(story: Story) -> None:
    story.learn(seconds=0.24 * LONGEST_SLICE_SECONDS)
    story.dispatch(*range(1, 21))
    assert handed(story.end(1, 1)) == {}
    assert handed(story.end(1, 2, 3)) == {1: [6, 7, 8]}


def test_a_slice_of_tasks_that_turn_out_long_is_taken_back(story: Story) -> None:
    """The same function took no time with other arguments. One slow report may be the machine's fault, two are not."""
    story.learn()
    assert handed(story.dispatch(*range(1, 101))) == {1: list(range(1, 101))}
    assert Reclaim(1, 1) not in story.end(1, 1, seconds=0.02)
    assert Reclaim(1, 1) in story.end(1, 2, seconds=0.02)


def test_long_tasks_go_one_by_one(story: Story) -> None:
    story.learn(LONG, 0.3)
    assert handed(story.dispatch(1, 2, function=LONG)) == {1: [1]}
    assert story.queued() == [2]


def test_a_task_with_a_timeout_goes_alone(story: Story) -> None:
    story.learn()
    assert handed(story.dispatch(1, 2, timeout_seconds=9.0)) == {1: [1]}


def test_the_queue_is_ordered_by_depth_then_priority_then_arrival(story: Story) -> None:
    story.dispatch(1, function=LONG, depth=9)
    story.dispatch(2, 3)
    story.dispatch(4, priority=5)
    story.dispatch(5, depth=1)
    story.dispatch(6, priority=5)
    assert story.queued() == [5, 4, 6, 2, 3]


def test_two_places_share_what_there_is() -> None:
    story = Story(places=2)
    assert story.step(Started()) == [StartProcessor(1), StartProcessor(2)]
    story.step(OPENED, ProcessorReady(1, 1), ProcessorReady(2, 2))
    story.learn(seconds=0.001)
    assert handed(story.dispatch(1, 2, 3, 4)) == {1: [1, 2], 2: [3, 4]}


def test_tasks_that_come_before_a_processor_is_ready_wait_for_it() -> None:
    story = Story()
    story.step(Started(), OPENED)
    assert handed(story.dispatch(1)) == {}
    assert handed(story.step(ProcessorReady(1, 1))) == {1: [1]}


# ---------------------------------------------------------------- credit


def test_credit_follows_the_measured_duration(story: Story) -> None:
    story.dispatch(1)
    assert sent(story.end(1, 1, seconds=0.00002), Results)[0].credit == 1000
    story.dispatch(2, function=LONG)
    assert sent(story.end(1, 2, seconds=4.0), Results)[0].credit == 1


def test_a_blocked_task_does_not_use_up_credit(story: Story) -> None:
    story.dispatch(1)
    assert story.core.credit(story.now).limit == 2
    assert Send(Credit(3, 2)) in story.step(TaskBlocked(1, story.number()))


def test_however_many_tasks_are_blocked_one_more_may_come(story: Story) -> None:
    """The scheduler goes by the limit it was told: as blocked tasks add up it has to hear of each that uses it up."""
    story.learn(LONG, 0.02)
    for number in range(1, 40):
        story.dispatch(number, depth=number - 1, function=LONG)
        story.block(number, spare=number + 1)
        assert story.core.tables.sent_credit > number


# ---------------------------------------------------------------- recall and reclaim


def test_recall_gives_back_what_has_not_begun(story: Story) -> None:
    story.learn(LONG, 0.3)
    story.dispatch(1, 2, 3, function=LONG)
    assert Send(Returned(ids(3))) in story.receive(Recall(ids(3, 1, 77)))
    assert story.queued() == [2]


def test_recall_is_answered_even_with_nothing(story: Story) -> None:
    assert Send(Returned(b"")) in story.receive(Recall(ids(5)))


def test_what_waits_behind_a_task_that_turned_out_long_is_taken_back(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2, 3)
    assert story.core.next_deadline() == story.now + STUCK_SECONDS
    assert Reclaim(1, 1) in story.step(after=STUCK_SECONDS)
    story.step(GaveBack(1, 1, story.number()))
    assert (story.held(1), story.queued()) == ([1], [2, 3])
    assert Send(Returned(ids(2, 3))) in story.receive(Recall(ids(1, 2, 3)))


def test_a_reclaim_that_finds_the_processor_between_two_tasks_returns_the_whole_slice(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2, 3)
    story.step(after=STUCK_SECONDS)
    # Nothing had begun, so all three are at the front of the queue, and at once handed over again.
    assert handed(story.step(GaveBack(1, 1, 0))) == {1: [1, 2, 3]}


def test_nothing_is_handed_over_while_a_reclaim_is_unanswered(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2)
    story.step(after=STUCK_SECONDS)
    story.end(1, 1, 2)
    assert handed(story.dispatch(3)) == {}
    assert handed(story.step(GaveBack(1, 1, 0))) == {1: [3]}


# ---------------------------------------------------------------- nesting


def test_a_blocked_task_lends_its_place_and_gets_one_back(story: Story) -> None:
    story.dispatch(1)
    assert StartProcessor(2) in story.step(TaskBlocked(1, story.number(1)))
    story.step(ProcessorReady(2, 2))
    assert handed(story.dispatch(2, depth=1)) == {2: [2]}
    assert Resume(1) not in story.step(ResumeWanted(1)), "the child still has the place"
    assert Resume(1) in story.end(2, 2, seconds=0.2)
    assert results(story.end(1, 1)) == {1: STATUS_SUCCESS}


def waits_for_the_place_of(story: Story, foreign: int, *parents: int) -> None:
    """The children of these have ended elsewhere, while a task that is none of theirs has borrowed the only place."""
    for processor, parent in enumerate(parents, 1):
        story.dispatch(parent)
        story.step(after=LONGEST_WAIT_SECONDS)
        story.block(processor, spare=processor + 1)
    story.dispatch(foreign, function=LONG)
    story.step(after=LONGEST_WAIT_SECONDS)
    story.step(*(ResumeWanted(processor) for processor in range(1, len(parents) + 1)))


def test_a_task_goes_on_beside_a_foreign_one_that_has_borrowed_its_place(story: Story) -> None:
    waits_for_the_place_of(story, 2, 1)
    assert story.core.next_deadline() == story.now + RESUME_SECONDS
    assert Resume(1) not in story.step(after=RESUME_SECONDS / 2)
    assert Resume(1) in story.step(after=RESUME_SECONDS)
    assert results(story.end(1, 1)) == {1: STATUS_SUCCESS}


def test_tasks_go_on_one_by_one_and_ever_more_slowly_beyond_the_places() -> None:
    story = Story(max_processors=64).start()
    parents = range(1, 9)
    waits_for_the_place_of(story, 100, *parents)
    waited, begun = [], story.now
    while len(waited) < len(parents):
        due_at = story.core.next_deadline()
        assert due_at is not None, "a task waits without a bound"
        resumed = [action for action in story.step(after=due_at - story.now) if isinstance(action, Resume)]
        waited += [round(story.now - begun, 3)] * len(resumed)
        begun = story.now if resumed else begun
    assert waited == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert len(story.core.tables.processors) <= len(parents) + 2, "no process was started for them"


def test_what_runs_beyond_the_places_counts_when_a_place_is_given_out(story: Story) -> None:
    waits_for_the_place_of(story, 2, 1)
    story.step(after=RESUME_SECONDS)
    story.dispatch(3)
    assert handed(story.end(2, 2, seconds=1.0)) == {}, "the task that went on has the place now"
    assert handed(story.end(1, 1, seconds=1.0)) != {}


def test_blocking_gives_back_the_rest_of_the_slice(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2, 3)
    story.step(TaskBlocked(1, story.number()))
    assert story.queued() == [2, 3]


def test_the_deepest_resumes_first(story: Story) -> None:
    story.dispatch(1)
    story.block(1, spare=2)
    story.dispatch(2, depth=1)
    story.block(2, spare=3)
    story.dispatch(3, depth=2)
    story.step(ResumeWanted(1), ResumeWanted(2))
    actions = story.end(3, 3, seconds=0.2)
    assert Resume(2) in actions and Resume(1) not in actions


def test_a_canceled_blocked_task_resumes_at_once_to_unwind(story: Story) -> None:
    story.dispatch(1)
    story.block(1, spare=2)
    story.dispatch(2, depth=1, function=LONG)
    assert Interrupt(1, story.number(1)) in story.receive(Cancel(ids(1)))
    assert Resume(1) in story.step(ResumeWanted(1))


def test_a_task_that_ends_without_unblocking_is_told_to_go_on(story: Story) -> None:
    story.dispatch(1)
    story.step(TaskBlocked(1, story.number(1)))
    actions = story.end(1, 1)
    assert Resume(1) in actions and results(actions) == {1: STATUS_SUCCESS}


def test_a_deeper_task_that_waited_runs_beyond_the_places(story: Story) -> None:
    story.dispatch(1)
    story.dispatch(2, depth=1)
    assert story.core.next_deadline() == story.now + PATIENCE_SECONDS, "a processor starts: that is what is waited for"
    story.step(ProcessorReady(2, 2))
    assert story.core.next_deadline() == story.now + FALLBACK_SECONDS
    assert handed(story.step(after=FALLBACK_SECONDS)) == {2: [2]}
    assert story.core.next_deadline() is None
    assert results(story.end(2, 2)) == {2: STATUS_SUCCESS}


def test_a_sibling_never_runs_beyond_the_places(story: Story) -> None:
    story.dispatch(1, depth=1)
    story.dispatch(2, depth=1)
    assert handed(story.step(after=10.0)) == {}


def test_nesting_beyond_the_bound_is_an_error() -> None:
    story = Story(max_processors=2).start()
    story.dispatch(1)
    story.block(1, spare=2)
    story.dispatch(2, depth=1)
    story.step(TaskBlocked(2, story.number(2)))
    story.dispatch(3, depth=2)
    actions = story.step(after=FALLBACK_SECONDS)
    assert results(actions) == {3: STATUS_REFUSED}
    error = codec.decode_task_error(bytes(sent(actions, Results)[0].payload))
    assert error.code == TOO_DEEP and "--max-processors" in error.message


def test_at_the_bound_a_task_that_may_only_be_waiting_for_long_ones_waits_much_longer() -> None:
    story = Story(max_processors=1).start()
    story.dispatch(1)
    story.dispatch(2, depth=1)
    assert results(story.step(after=REFUSE_SECONDS - 1)) == {}
    assert results(story.step(after=1.0)) == {2: STATUS_REFUSED}


def test_a_task_that_has_waited_long_is_not_refused_while_a_processor_comes_for_it() -> None:
    story = Story(max_processors=2).start()
    story.dispatch(1, depth=1)
    story.dispatch(2, depth=1)
    actions = story.receive(Cancel(ids(1), grace_seconds=0.0), after=REFUSE_SECONDS + 1) + story.step()
    assert KillProcessor(1) in actions and StartProcessor(2) in actions
    assert story.core.next_deadline() == story.now + PATIENCE_SECONDS, "for the one to exit, or the other to be ready"
    assert results(story.step(after=1.0)) == {}
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [2]}


def test_processors_that_nesting_needed_leave_when_idle(story: Story) -> None:
    for depth in range(5):
        story.dispatch(depth, depth=depth)
        story.block(depth + 1, spare=depth + 2)
    for depth in reversed(range(5)):
        story.step(ResumeWanted(depth + 1))
        story.end(depth + 1, depth, seconds=0.2)
    leaving = story.step(after=IDLE_SECONDS)
    assert [type(action) for action in leaving] == [StopProcessor] * 3


# ---------------------------------------------------------------- transitions


def test_every_illegal_step_raises_and_changes_nothing() -> None:
    for state in State:
        for step in Step:
            processor = Processor(1, 0.0, state)
            if (state, step) in TRANSITIONS:
                processor.step(step, 5.0)
                assert processor.state is TRANSITIONS[state, step]
            else:
                with pytest.raises(IllegalStepError):
                    processor.step(step, 5.0)
                assert (processor.state, processor.since) == (state, 0.0)
