"""Random orders of events: every task dispatched ends once or is given back, and nothing leaks.

The model plays schedulers, which follow one on another, and Symphony, which may lose sessions, refuse tasks, answer
twice, early and late. What Symphony has been sent is sent again only if Symphony may have lost it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.holder_story import SCHEDULER, cancel_outcomes, names, results, sent
from tests.support.presenting_story import LOST, OTHER, opened, presented
from tests.support.symphony_story import GOOD, Story

from scaler_protocol.codes import HELD_ENDED, STATUS_CANCELED
from scaler_protocol.messages import NO_PEER, Delivered, Results, Returned
from scaler_symphony.core import events, invariants
from scaler_symphony.core.actions import Action, CloseSession, Fetch, Finish, OpenSession, Send, SendTask

DEPTHS = st.integers(0, 3)
PICKS = st.integers(0, 1000)
PRESENT_SECONDS = 15.0


class Adapter(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.story = Story(2, queue_size=6, give_up_seconds=1e9, present_seconds=PRESENT_SECONDS)
        self.is_connected = self.is_open = False
        self.last_task = 0
        self.server = NO_PEER  #: of the present session, or the last one
        self.is_presenter = False  #: that session has the feature
        self.awaits_delivered = False  #: something was presented in this session, and its scheduler has not said so
        self.lost_at = 0.0
        self.held: set[int] = set()
        self.begun: set[int] = set()  #: sent to Symphony, which has not lost them
        self.sent_count = 0  #: of Results in this session
        self.kept: list[set[int]] = []  #: the ends in those of them that may not be with the clients
        self.undelivered: set[int] = set()  #: the same, of the session before
        self.asked: set[int] = set()  #: to be canceled, not answered
        self.wanted_session = 0  #: asked for, not opened
        self.session = 0
        self.unsent: list[SendTask] = []
        self.unanswered: list[str] = []
        self.answered: list[str] = []
        self.last_handle = 0
        self.fetching: list[Any] = []
        self.see(self.story.step(events.Started()))

    def see(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, OpenSession):
                self.wanted_session = action.session
            elif isinstance(action, CloseSession):
                self.unsent, self.unanswered, self.answered, self.session = [], [], [], 0
                self.begun.clear()
            elif isinstance(action, SendTask):
                assert action.session == self.session and self.is_connected and not self.awaits_delivered
                task = int.from_bytes(action.task.id, "big")
                assert task not in self.begun, "it begins again only if Symphony has lost it"
                self.begun.add(task)
                self.unsent.append(action)
            elif isinstance(action, Fetch):
                self.fetching.append(action.object_id)
            assert not isinstance(action, Finish)
        for message in sent(actions, Results) + sent(actions, Returned):
            ended = names(message.ids)
            assert set(ended) <= self.held and len(set(ended)) == len(ended), "each ends once"
            self.held -= set(ended)
        if self.is_presenter:
            for message in sent(actions, Results):
                self.sent_count += 1
                self.kept.append(
                    {name for name, status in results([Send(message)]).items() if status != STATUS_CANCELED}
                )
        outcomes = cancel_outcomes(actions)
        assert outcomes.keys() <= self.asked
        self.asked -= outcomes.keys()

    def do(self, *step: events.Event, after: float = 0.0) -> None:
        self.see(self.story.step(*step, after=after))

    # ------------------------------------------------------------ the scheduler

    @precondition(lambda self: not self.is_connected)
    @rule(is_other=st.booleans(), has_feature=st.integers(0, 4))
    def connect(self, is_other: bool, has_feature: int) -> None:
        previous, self.is_connected = self.server, True
        was_presenter, self.is_presenter = self.is_presenter, bool(has_feature)
        if is_other or not previous:
            self.server = OTHER if previous == SCHEDULER else SCHEDULER
        actions = self.story.event(opened(self.server, previous, has_feature=self.is_presenter))
        self.awaits_delivered = self.is_presenter and previous not in (NO_PEER, self.server)
        is_kept = was_presenter and self.story.now < self.lost_at + PRESENT_SECONDS
        self.check_presented(presented(actions), is_kept and self.awaits_delivered)
        self.undelivered = set()
        self.see(actions)
        self.do()

    def check_presented(self, rows: dict[int, int], is_kept: bool) -> None:
        """All that has begun or has ended is named, and nothing that was canceled."""
        if not is_kept:
            assert not rows
            self.held.clear()
            self.begun.clear()
            return
        assert rows.keys() <= self.held | self.undelivered
        assert self.begun & self.held <= rows.keys() and self.undelivered <= rows.keys()
        self.held = set(rows)
        assert {name for name, state in rows.items() if state != HELD_ENDED} == self.core_tasks()

    @precondition(lambda self: self.is_connected)
    @rule()
    def disconnect(self) -> None:
        self.is_connected = self.awaits_delivered = False
        self.lost_at = self.story.now
        self.held -= self.asked
        self.asked.clear()
        self.undelivered = set().union(*self.kept)
        self.kept.clear()
        self.sent_count = 0
        begun = set(self.begun)
        self.do(replace(LOST, peer_id=self.server))
        self.begun = begun

    @precondition(lambda self: self.is_connected and self.is_presenter)
    @rule(count=st.integers(0, 3))
    def deliver(self, count: int) -> None:
        """The first of those that are kept are with their clients."""
        del self.kept[:count]
        self.awaits_delivered = False
        self.see(self.story.receive(Delivered(self.sent_count - len(self.kept))))

    @precondition(lambda self: self.is_connected)
    @rule(count=st.integers(1, 4), depth=DEPTHS, timeout=st.sampled_from([0.0, 1.0]))
    def dispatch(self, count: int, depth: int, timeout: float) -> None:
        tasks = range(self.last_task + 1, self.last_task + 1 + count)
        self.last_task += count
        self.held.update(tasks)
        self.see(self.story.dispatch(*tasks, depth=depth, timeout_seconds=timeout))

    @precondition(lambda self: self.is_connected and self.held - self.asked)
    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        candidates = sorted(self.held - self.asked)
        task = candidates[pick % len(candidates)]
        self.asked.add(task)
        self.see(self.story.cancel(task))

    # ------------------------------------------------------------ Symphony

    @precondition(lambda self: self.wanted_session)
    @rule(is_good=st.booleans())
    def open_session(self, is_good: bool) -> None:
        number, self.wanted_session = self.wanted_session, 0
        if is_good or number == 1:
            self.session = number
            self.do(events.SessionOpened(number, "x"))
        else:
            self.do(events.SessionFailed(number, "no cluster"))

    @precondition(lambda self: self.session)
    @rule()
    def lose_session(self) -> None:
        self.do(events.SessionLost(self.session, "aborted"))

    @precondition(lambda self: self.unsent)
    @rule(is_early=st.booleans(), is_good=st.integers(0, 5))
    def accept(self, is_early: bool, is_good: int) -> None:
        action = self.unsent.pop(0)
        if not is_good:
            self.begun.discard(int.from_bytes(action.task.id, "big"))
            self.do(events.SendFailed(action.session, action.number, "refused"))
            return
        self.last_handle += 1
        handle = str(self.last_handle)
        if is_early:
            self.do(events.Responded(action.session, handle, GOOD))
            self.answered.append(handle)
        else:
            self.unanswered.append(handle)
        self.do(events.TaskSent(action.session, action.number, handle))

    @precondition(lambda self: self.unanswered)
    @rule(pick=PICKS, is_good=st.booleans())
    def answer(self, pick: int, is_good: bool) -> None:
        handle = self.unanswered.pop(pick % len(self.unanswered))
        self.answered.append(handle)
        self.do(events.Responded(self.session, handle, GOOD if is_good else "failed by the system"))

    @precondition(lambda self: self.answered)
    @rule(pick=PICKS)
    def answer_again(self, pick: int) -> None:
        self.do(events.Responded(self.session, self.answered[pick % len(self.answered)], GOOD))

    @precondition(lambda self: self.fetching)
    @rule(is_good=st.booleans())
    def fetch(self, is_good: bool) -> None:
        object_id = self.fetching.pop()
        self.do(events.Fetched(object_id, b"code") if is_good else events.FetchFailed(object_id, 400, "lost"))

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.do(after=seconds)

    def core_tasks(self) -> set[int]:
        return {int.from_bytes(task, "big") for task in self.story.core.tables.tasks}

    # ------------------------------------------------------------ what always holds

    @invariant()
    def holds(self) -> None:
        invariants.check(self.story.core)
        held = self.core_tasks()
        assert held == self.held if self.is_connected else held <= self.held
        assert len(self.story.core.tables.queue) <= 6 + 4

    def teardown(self) -> None:
        """Left alone with a Symphony and a scheduler that work, everything ends."""
        if not self.is_connected:
            self.connect(is_other=True, has_feature=1)
        if self.awaits_delivered:
            self.deliver(0)
        for _ in range(200 + 3 * self.last_task):
            if not self.held:
                break
            if self.wanted_session:
                self.open_session(is_good=True)
            elif self.fetching:
                self.fetch(is_good=True)
            elif self.unsent:
                self.accept(is_early=False, is_good=1)
            elif self.unanswered:
                self.answer(0, is_good=True)
            else:
                self.wait(60.0)
        assert not self.held and not self.asked


TestAdapter = Adapter.TestCase
TestAdapter.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
