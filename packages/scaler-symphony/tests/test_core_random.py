"""Random orders of events: every task dispatched ends once or is given back, and nothing leaks.

The model plays the scheduler and Symphony, which may lose sessions, refuse tasks, answer twice, early and late.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.holder_story import OPENED, SCHEDULER, cancel_outcomes, names, sent
from tests.support.symphony_story import GOOD, Story

from scaler_protocol.messages import Results, Returned
from scaler_protocol.session import Lost
from scaler_symphony.core import events, invariants
from scaler_symphony.core.actions import Action, CloseSession, Fetch, Finish, OpenSession, SendTask

DEPTHS = st.integers(0, 3)
PICKS = st.integers(0, 1000)


class Adapter(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.story = Story(2, queue_size=6, give_up_seconds=1e9)
        self.is_connected = self.is_open = False
        self.last_task = 0
        self.held: set[int] = set()
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
            elif isinstance(action, SendTask):
                assert action.session == self.session
                self.unsent.append(action)
            elif isinstance(action, Fetch):
                self.fetching.append(action.object_id)
            assert not isinstance(action, Finish)
        for message in sent(actions, Results) + sent(actions, Returned):
            ended = names(message.ids)
            assert set(ended) <= self.held and len(set(ended)) == len(ended), "each ends once"
            self.held -= set(ended)
        outcomes = cancel_outcomes(actions)
        assert outcomes.keys() <= self.asked
        self.asked -= outcomes.keys()

    def do(self, *step: events.Event, after: float = 0.0) -> None:
        self.see(self.story.step(*step, after=after))

    # ------------------------------------------------------------ the scheduler

    @precondition(lambda self: not self.is_connected)
    @rule()
    def connect(self) -> None:
        self.is_connected = True
        self.do(OPENED)

    @precondition(lambda self: self.is_connected)
    @rule()
    def disconnect(self) -> None:
        self.is_connected = False
        self.held.clear()
        self.asked.clear()
        self.do(Lost(SCHEDULER, 0, "gone", False))

    @precondition(lambda self: self.is_connected)
    @rule(count=st.integers(1, 4), depth=DEPTHS, timeout=st.sampled_from([0.0, 1.0]))
    def dispatch(self, count: int, depth: int, timeout: float) -> None:
        tasks = range(self.last_task + 1, self.last_task + 1 + count)
        self.last_task += count
        self.held.update(tasks)
        self.see(self.story.dispatch(*tasks, depth=depth, timeout_seconds=timeout))

    @precondition(lambda self: self.held - self.asked)
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

    # ------------------------------------------------------------ what always holds

    @invariant()
    def holds(self) -> None:
        invariants.check(self.story.core)
        held = {int.from_bytes(task, "big") for task in self.story.core.tables.tasks}
        assert held == self.held
        assert len(self.story.core.tables.queue) <= 6 + 4

    def teardown(self) -> None:
        """Left alone with a Symphony and a scheduler that work, everything ends."""
        if not self.is_connected:
            self.connect()
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
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
