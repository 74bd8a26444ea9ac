"""The agent's decisions: events, exact actions, invariants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scaler_protocol import codec
from scaler_protocol.codes import (
    CANCEL_TOO_LATE,
    CANCEL_UNKNOWN,
    PROCESSOR_DIED,
    PROTOCOL_VERSION_MAX,
    ROLE_WORKER,
    STATUS_CANCELED,
    STATUS_FAILED,
    STATUS_PROCESSOR_DIED,
    STATUS_REFUSED,
    STATUS_SUCCESS,
    STATUS_TIMED_OUT,
    TASK_TIMED_OUT,
    TOO_DEEP,
)
from scaler_protocol.columns import join_ids, join_u32, split_ids
from scaler_protocol.ids import ObjectId, PeerId, TaskId
from scaler_protocol.messages import (
    Cancel,
    CancelReply,
    Credit,
    Dispatch,
    Hello,
    Message,
    Recall,
    Results,
    Returned,
    Shutdown,
    TaskHeader,
    Welcome,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_worker.core import AgentCore, Settings, events, invariants
from scaler_worker.core.actions import (
    Action,
    Finish,
    HandOver,
    Interrupt,
    KillProcessor,
    Log,
    Reclaim,
    Resume,
    Send,
    StartProcessor,
    StopProcessor,
)
from scaler_worker.core.events import (
    INTERRUPTED,
    DrainRequested,
    GaveBack,
    ProcessorBroken,
    ProcessorExited,
    ProcessorReady,
    ResumeWanted,
    RoundEnded,
    Started,
    TaskBlocked,
    TasksEnded,
)
from scaler_worker.core.handing import FALLBACK_SECONDS, IDLE_SECONDS, REFUSE_SECONDS, STUCK_SECONDS
from scaler_worker.core.processors import TRANSITIONS, IllegalStepError, Processor, State, Step

SCHEDULER = PeerId(b"s" * 16)
CLIENT = PeerId(b"c" * 16)
TINY = ObjectId(b"tiny".ljust(16))
LONG = ObjectId(b"long".ljust(16))
OPENED = Opened(
    SCHEDULER, Hello(1, 1, ROLE_WORKER, PeerId(b"w" * 16)), Welcome(PROTOCOL_VERSION_MAX, SCHEDULER, 1, 1)
)  # fmt: skip


def task_id(name: int) -> TaskId:
    return TaskId(name.to_bytes(16, "big"))


def ids(*names: int) -> bytes:
    return join_ids(task_id(name) for name in names)


class Story:
    """One agent core; every step ends its round and checks the invariants."""

    def __init__(self, **settings: Any) -> None:
        self.core = AgentCore(Settings("w", codec.encode_task_error, **settings))
        self.now = 100.0
        self.seq = 0

    def event(self, event: events.Event) -> list[Action]:
        actions = self.core.handle(event, self.now)
        invariants.check(self.core)
        return actions

    def step(self, *step: events.Event, after: float = 0.0) -> list[Action]:
        self.now += after
        actions = [action for event in step for action in self.event(event)]
        return actions + self.event(RoundEnded())

    def receive(self, message: Message, after: float = 0.0) -> list[Action]:
        self.seq += 1
        return self.step(Received(SCHEDULER, self.seq, message), after=after)

    def start(self) -> Story:
        assert self.step(Started()) == [StartProcessor(1)]
        assert self.step(OPENED)[0] == Send(Credit(2, 2))
        assert self.step(ProcessorReady(1, 1001)) == []
        return self

    def dispatch(self, *names: int, function: ObjectId = TINY, **header: Any) -> list[Action]:
        batch = Dispatch(
            TaskHeader(client=CLIENT, **header), function, ids(*names), b"x" * len(names), join_u32([1] * len(names))
        )  # fmt: skip
        return self.receive(batch)

    def end(self, processor: int, *names: int, seconds: float = 0.001, status: int = STATUS_SUCCESS) -> list[Action]:
        first = self.processor(processor).slice[0].number
        ends = [(first + i, status, 0, seconds, b"v", b"") for i, _ in enumerate(names)]
        assert self.held(processor)[: len(names)] == list(names)
        return self.step(TasksEnded(processor, ends))

    def learn(self, function: ObjectId = TINY, seconds: float = 0.00001) -> None:
        """Let the agent measure a function."""
        self.dispatch(999, function=function)
        self.end(1, 999, seconds=seconds)

    def block(self, processor: int, spare: int) -> None:
        """Its task waits for children, and the spare processor that is started for that is ready."""
        assert StartProcessor(spare) in self.step(TaskBlocked(processor, self.number(processor)))
        self.step(ProcessorReady(spare, spare))

    def processor(self, number: int) -> Processor:
        return self.core.tables.processors[number]

    def held(self, processor: int) -> list[int]:
        return [int.from_bytes(task.id, "big") for task in self.processor(processor).slice]

    def queued(self) -> list[int]:
        return [int.from_bytes(task.id, "big") for task in self.core.tables.queue]

    def number(self, processor: int = 1) -> int:
        return self.processor(processor).slice[0].number


def handed(actions: Sequence[Action]) -> dict[int, list[int]]:
    return {
        action.processor: [int.from_bytes(task.id, "big") for task in action.tasks]
        for action in actions
        if isinstance(action, HandOver)
    }


def results(actions: Sequence[Action]) -> dict[int, int]:
    """Statuses by task."""
    statuses: dict[int, int] = {}
    for message in sent(actions, Results):
        found = split_ids(message.ids)
        statuses.update(
            (int.from_bytes(id_, "big"), status)
            for id_, status in zip(found, message.statuses or bytes(len(found)), strict=True)
        )
    return statuses


def sent(actions: Sequence[Action], kind: type) -> list[Any]:
    return [action.message for action in actions if isinstance(action, Send) and type(action.message) is kind]


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


def test_tiny_tasks_are_handed_over_in_slices_of_about_five_milliseconds(story: Story) -> None:
    story.learn(seconds=0.001)
    assert handed(story.dispatch(*range(1, 21))) == {1: [1, 2, 3, 4, 5]}


def test_a_slice_is_topped_up_before_it_runs_out(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(*range(1, 21))
    assert handed(story.end(1, 1)) == {}
    assert handed(story.end(1, 2, 3)) == {1: [6, 7, 8]}


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


# ---------------------------------------------------------------- cancel and timeout


def test_cancel_of_a_queued_task(story: Story) -> None:
    story.learn(LONG, 0.3)
    story.dispatch(1, 2, function=LONG)
    actions = story.receive(Cancel(ids(2)))
    assert results(actions) == {2: STATUS_CANCELED}
    assert actions[-1] == Send(CancelReply(ids(2)))


def test_cancel_of_an_unknown_task(story: Story) -> None:
    assert Send(CancelReply(ids(7), bytes([CANCEL_UNKNOWN]))) in story.receive(Cancel(ids(7)))


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


def test_a_task_deep_in_a_slice_is_interrupted_when_its_turn_comes(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2)
    assert story.receive(Cancel(ids(2))) == []
    assert Interrupt(1, story.number() + 1) in story.end(1, 1)


def test_a_canceled_task_that_comes_back_from_a_slice_ends(story: Story) -> None:
    story.learn(seconds=0.001)
    story.dispatch(1, 2)
    story.receive(Cancel(ids(2)))
    story.step(after=STUCK_SECONDS)
    assert results(story.step(GaveBack(1, 1, story.number()))) == {2: STATUS_CANCELED}


def test_a_task_that_runs_too_long_is_interrupted_then_killed(story: Story) -> None:
    story.dispatch(1, timeout_seconds=5.0)
    assert story.core.next_deadline() == story.now + 5.0
    assert story.step(after=5.0)[0] == Interrupt(1, story.number())
    assert story.step(after=1.0)[0] == KillProcessor(1)
    actions = story.step(ProcessorExited(1, -9))
    assert results(actions) == {1: STATUS_TIMED_OUT}
    assert codec.decode_task_error(bytes(sent(actions, Results)[0].payload)).code == TASK_TIMED_OUT


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


# ---------------------------------------------------------------- nesting


def test_a_blocked_task_lends_its_place_and_gets_one_back(story: Story) -> None:
    story.dispatch(1)
    assert StartProcessor(2) in story.step(TaskBlocked(1, story.number(1)))
    story.step(ProcessorReady(2, 2))
    assert handed(story.dispatch(2, depth=1)) == {2: [2]}
    assert Resume(1) not in story.step(ResumeWanted(1)), "the child still has the place"
    assert Resume(1) in story.end(2, 2, seconds=0.2)
    assert results(story.end(1, 1)) == {1: STATUS_SUCCESS}


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
    assert story.core.next_deadline() is None, "a processor is starting: that is what is waited for"
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


def test_processors_that_nesting_needed_leave_when_idle(story: Story) -> None:
    for depth in range(5):
        story.dispatch(depth, depth=depth)
        story.block(depth + 1, spare=depth + 2)
    for depth in reversed(range(5)):
        story.step(ResumeWanted(depth + 1))
        story.end(depth + 1, depth, seconds=0.2)
    leaving = story.step(after=IDLE_SECONDS)
    assert [type(action) for action in leaving] == [StopProcessor] * 3


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
    assert Send(Credit(0, 2)) in actions and Send(Returned(ids(2), is_recall_answer=False)) in actions
    actions = story.end(1, 1)
    assert results(actions) == {1: STATUS_SUCCESS} and isinstance(actions[-1], Finish)


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
