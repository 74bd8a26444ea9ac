"""Random orders of events: whatever happens, every task dispatched ends or is given back, once, and nothing leaks.

The model plays the scheduler and the processors. A model processor does what a real one may do in its state, so every
sequence is legal; what the agent asked for (interrupts, reclaims, kills) is answered late, or overtaken by results.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scaler_protocol.codes import ROLE_WORKER, STATUS_FAILED, STATUS_SUCCESS
from scaler_protocol.columns import join_ids, join_u16, join_u32, split_ids
from scaler_protocol.ids import USER_BYTES, ObjectId, PeerId, TaskId
from scaler_protocol.messages import (
    NO_OBJECT,
    Cancel,
    CancelReply,
    Capability,
    Credit,
    Dispatch,
    Hello,
    Recall,
    Results,
    Returned,
    TaskHeader,
    Welcome,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_worker.core import AgentCore, Settings, events, invariants, suspension
from scaler_worker.core.actions import (
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
    Suspend,
    TellStatus,
    Unsuspend,
)
from scaler_worker.core.events import INTERRUPTED

SCHEDULER = PeerId(b"s" * 16)
OPENED = Opened(SCHEDULER, Hello(1, 1, ROLE_WORKER, PeerId(b"w" * 16)), Welcome(1, SCHEDULER, 1, 1))
FUNCTIONS = [ObjectId(name.encode().ljust(16)) for name in ("tiny", "short", "long")]
SECONDS = dict(zip(FUNCTIONS, (0.0001, 0.002, 0.5), strict=True))
PLACES = 2


class ModelProcessor:
    """What a real processor would have: tasks in order, and orders it has not obeyed yet."""

    def __init__(self) -> None:
        self.is_ready = False
        self.is_blocked = False
        self.has_asked = False
        self.tasks: deque[Any] = deque()
        self.awaited: dict[int, frozenset[TaskId]] = {}  #: by number, as it was handed over
        self.succeeded: set[TaskId] = set()
        self.marks: list[int] = []  #: reclaims that were not answered
        self.interrupted: set[int] = set()
        self.is_dying = False
        self.is_leaving = False
        self.code_sets: set[ObjectId] = set()  #: of all tasks that it was ever handed
        self.users: set[bytes] = set()  #: the same, from their grants
        self.gpus: tuple[str, ...] | None = None  #: that it was told to show its tasks
        self.is_stuck = False  #: code that a task has left behind holds it up: it begins nothing more
        self.is_suspended = False  #: the process stands still: only a kill reaches it

    @property
    def is_moving(self) -> bool:
        return not self.is_suspended and not self.is_stuck

    def pass_over(self) -> None:
        """What awaits a task that did not succeed is not begun, and nothing is said of it."""
        while self.tasks and not self.awaited[self.tasks[0].number] <= self.succeeded:
            self.tasks.popleft()

    def end_first(self, status: int) -> events.TaskEnd:
        task = self.tasks.popleft()
        if status == STATUS_SUCCESS:
            self.succeeded.add(task.id)
        self.pass_over()
        return (task.number, status, 0, SECONDS[task.function], b"", b"")


def needed_gpus(header: TaskHeader, all_gpus: tuple[str, ...]) -> int:
    amount = sum(item.amount for item in header.capabilities)
    return len(all_gpus) if amount < 0 else amount


class AgentMachine(RuleBasedStateMachine):
    SETTINGS = Settings("w", lambda error: b"error", 50, 6, PLACES, task_timeout_seconds=30.0, suspends_hard=True)
    CODE_SETS = (NO_OBJECT,)
    GRANTS = (b"",)
    GPU_AMOUNTS = (0,)

    def __init__(self) -> None:
        super().__init__()
        self.core = AgentCore(self.SETTINGS)
        self.now = 0.0
        self.count = 0
        self.is_open = False
        self.processors: dict[int, ModelProcessor] = {}
        self.held: set[TaskId] = set()  #: dispatched, and neither ended nor returned
        self.needs: dict[TaskId, frozenset[TaskId]] = {}  #: what each task awaited when it came
        self.succeeded: set[TaskId] = set()
        self.unanswered: dict[TaskId, int] = {}  #: cancels not replied to
        self.recalls = 0
        self.limit = 0
        self.handle(events.Started())

    # ------------------------------------------------------------ the shell

    def handle(self, event: events.Event) -> None:
        actions = [*self.core.handle(event, self.now), *self.read_memory()]
        for action in [*actions, *self.core.handle(events.RoundEnded(), self.now)]:
            self.perform(action)

    def read_memory(self) -> list[Any]:
        """Before each end of a round, if there is a limit."""
        return []

    def perform(self, action: Any) -> None:
        if isinstance(action, Send):
            self.on_message(action.message)
        elif isinstance(action, StartProcessor):
            assert action.processor not in self.processors
            self.processors[action.processor] = ModelProcessor()
        elif isinstance(action, HandOver):
            self.on_hand_over(action)
        elif isinstance(action, Resume):
            model = self.processors[action.processor]
            model.is_blocked = model.has_asked = False
        elif isinstance(action, Reclaim):
            self.processors[action.processor].marks.append(action.serial)
        elif isinstance(action, Interrupt):
            self.processors[action.processor].interrupted.add(action.number)
        elif isinstance(action, Suspend):
            model = self.processors[action.processor]
            assert model.is_blocked and not model.is_suspended and not model.is_dying
            model.is_suspended = True
        elif isinstance(action, Unsuspend):
            self.processors[action.processor].is_suspended = False
        elif isinstance(action, KillProcessor):
            self.processors[action.processor].is_dying = True
        elif isinstance(action, StopProcessor):
            self.processors[action.processor].is_leaving = True
        elif isinstance(action, TellStatus):
            tables = self.core.tables
            is_blocked = any(model.is_blocked for model in self.processors.values())
            assert is_blocked or tables.told_lenders == () or tables.trouble
        else:
            # A model never breaks the channel and nobody drains: neither warnings of that kind nor an end.
            assert isinstance(action, Log) and "broke" not in action.text and not isinstance(action, Finish)

    def on_hand_over(self, action: HandOver) -> None:
        model = self.processors[action.processor]
        assert model.is_ready and not model.is_dying and not model.is_leaving and not model.is_blocked
        assert all(task.id in self.held for task in action.tasks)
        model.code_sets.update(task.header.code_set for task in action.tasks)
        assert len(model.code_sets) == 1, "a processor that has run one code set is handed tasks of another (WRK-50)"
        model.users.update(task.header.owner_grant[:USER_BYTES] for task in action.tasks)
        assert len(model.users) == 1, "a processor that has run tasks of one user is handed another's (WRK-70)"
        if self.SETTINGS.gpus:
            assert (action.gpus is None) == (model.gpus is not None), "its GPUs are told once, before its first task"
            model.gpus = model.gpus if action.gpus is None else action.gpus
            assert {needed_gpus(task.header, self.SETTINGS.gpus) for task in action.tasks} == {len(model.gpus or ())}
            leaving = {gpu for other in self.processors.values() if other.is_dying for gpu in other.gpus or ()}
            assert model.tasks or leaving.isdisjoint(model.gpus or ()), "of a process that has not exited yet"
        at_hand = {task.id for task in [*list(model.tasks)[-1:], *action.tasks]}
        for task in action.tasks:
            model.awaited[task.number] = frozenset(task.awaits or ())
            assert at_hand.issuperset(task.awaits or ()), "a processor keeps no other results than these"
            assert set(action.numbers) >= model.awaited[task.number]
        model.tasks.extend(action.tasks)

    def on_message(self, message: Any) -> None:
        assert self.is_open
        if isinstance(message, Results):
            self.limit = message.credit or self.limit
            statuses = message.statuses or bytes(len(message.sizes) // 4)
            for task_id, status in zip(map(TaskId, split_ids(message.ids)), statuses, strict=True):
                self.held.remove(task_id)
                if status == STATUS_SUCCESS:
                    assert self.needs[task_id] <= self.succeeded, "it ran before its time"
                    self.succeeded.add(task_id)
        elif isinstance(message, Returned):
            self.recalls -= message.is_recall_answer
            for task_id in split_ids(message.ids):
                self.held.remove(TaskId(task_id))
        elif isinstance(message, CancelReply):
            for task_id in split_ids(message.ids):
                self.unanswered[TaskId(task_id)] -= 1
        else:
            assert isinstance(message, Credit)
            assert (message.nested_reserve >= 1) == (not self.core.tables.trouble)
            assert message.limit == 0 or not self.core.tables.trouble
            self.limit = message.limit

    # ------------------------------------------------------------ the scheduler

    @precondition(lambda self: not self.is_open)
    @rule()
    def open(self) -> None:
        self.is_open = True
        self.handle(OPENED)

    @precondition(lambda self: self.is_open)
    @rule()
    def lose(self) -> None:
        self.is_open = False
        self.held.clear()
        self.unanswered.clear()
        self.handle(Lost(SCHEDULER, 205, "lease expired", False))

    @precondition(lambda self: self.is_open)
    @rule(
        count=st.integers(1, 30),
        function=st.sampled_from(FUNCTIONS),
        depth=st.integers(0, 2),
        timeout_seconds=st.sampled_from([0.0, 0.0, 1.0]),
        shape=st.sampled_from(["free", "free", "chain", "pairs"]),
        data=st.data(),
    )
    def dispatch(
        self, count: int, function: ObjectId, depth: int, timeout_seconds: float, shape: str, data: st.DataObject
    ) -> None:
        count = min(count, self.limit - len(self.held))
        if count <= 0:
            return
        ids = [TaskId((self.count + index).to_bytes(16, "big")) for index in range(count)]
        self.count += count
        self.held.update(ids)
        code_set = data.draw(st.sampled_from(self.CODE_SETS))
        amount = data.draw(st.sampled_from(self.GPU_AMOUNTS))
        needs = (Capability("gpu", amount),) if amount else ()
        header = TaskHeader(
            depth=depth,
            timeout_seconds=timeout_seconds,
            code_set=code_set,
            capabilities=needs,
            owner_grant=data.draw(st.sampled_from(self.GRANTS)),
        )
        before = data.draw(st.sampled_from(sorted(self.needs.keys() - set(ids)))) if self.needs else None
        awaited: list[list[TaskId]] = []
        for index in range(count):
            if shape == "chain":  # its first link follows what came earlier, and may have ended
                awaited.append(ids[index - 1 : index] if index else [before] if before else [])
            else:
                awaited.append(ids[index - 2 : index] if shape == "pairs" and index % 3 == 2 else [])
        self.needs.update(zip(ids, map(frozenset, awaited), strict=True))
        columns = {
            "awaited_counts": join_u16([len(own) for own in awaited]),
            "awaited": join_ids(other for own in awaited for other in own),
        }
        self.receive(Dispatch(header, function, join_ids(ids), b"", join_u32([0] * count), **columns))

    @precondition(lambda self: self.is_open and self.held)
    @rule(data=st.data(), grace_seconds=st.sampled_from([0.0, 1.0]))
    def cancel(self, data: st.DataObject, grace_seconds: float) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.held)))
        self.unanswered[chosen] = self.unanswered.get(chosen, 0) + 1
        self.receive(Cancel(chosen, grace_seconds=grace_seconds))

    @precondition(lambda self: self.is_open)
    @rule()
    def recall(self) -> None:
        self.recalls += 1
        self.receive(Recall(join_ids(sorted(self.held))))
        assert self.recalls == 0, "a recall is answered at once"

    def receive(self, message: Any) -> None:
        self.handle(Received(SCHEDULER, 1, message))

    # ------------------------------------------------------------ the processors

    def choose(self, data: st.DataObject, may: Any) -> tuple[int, ModelProcessor] | None:
        able = [number for number, model in self.processors.items() if may(model) and model.is_moving]
        if not able:
            return None
        number = data.draw(st.sampled_from(able))
        return number, self.processors[number]

    @rule(data=st.data())
    def become_ready(self, data: st.DataObject) -> None:
        if chosen := self.choose(data, lambda model: not model.is_ready):
            chosen[1].is_ready = True
            self.handle(events.ProcessorReady(chosen[0], 1000 + chosen[0]))

    @rule(data=st.data(), count=st.integers(1, 10), fails=st.booleans())
    def end_tasks(self, data: st.DataObject, count: int, fails: bool) -> None:
        chosen = self.choose(data, lambda model: model.tasks and not model.is_blocked)
        if chosen is None:
            return
        number, model = chosen
        ends: list[events.TaskEnd] = []
        while model.tasks and len(ends) < count:
            is_interrupted = model.tasks[0].number in model.interrupted
            ends.append(model.end_first(INTERRUPTED if is_interrupted else STATUS_FAILED if fails else STATUS_SUCCESS))
        self.handle(events.TasksEnded(number, ends))

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        chosen = self.choose(data, lambda model: model.marks and not model.has_asked)
        if chosen is None:
            return
        number, model = chosen
        serial = model.marks.pop(0)
        first = model.tasks[0].number if model.tasks else 0
        while len(model.tasks) > 1:
            model.tasks.pop()
        self.handle(events.GaveBack(number, serial, first))

    @rule(data=st.data())
    def block(self, data: st.DataObject) -> None:
        chosen = self.choose(data, lambda model: model.tasks and not model.is_blocked)
        if chosen is None:
            return
        number, model = chosen
        while len(model.tasks) > 1:
            model.tasks.pop()
        model.is_blocked = True
        self.handle(events.TaskBlocked(number, model.tasks[0].number))

    @rule(data=st.data())
    def ask_to_resume(self, data: st.DataObject) -> None:
        chosen = self.choose(data, lambda model: model.is_blocked and not model.has_asked)
        if chosen:
            chosen[1].has_asked = True
            self.handle(events.ResumeWanted(chosen[0]))

    @rule(data=st.data())
    def get_stuck(self, data: st.DataObject) -> None:
        """Between two tasks."""
        if chosen := self.choose(data, lambda model: model.is_ready and not model.tasks and not model.is_blocked):
            chosen[1].is_stuck = True

    @rule()
    def look_at_begun(self) -> None:
        """Reports what the processors have begun. A stuck processor has begun nothing. Each other processor has begun
        the first of its tasks."""
        for number, model in list(self.processors.items()):
            begun = 0 if model.is_stuck or not model.tasks else model.tasks[0].number
            if model.is_stuck or begun:
                self.handle(events.BegunSeen(number, begun, self.now))

    @rule(data=st.data(), is_sudden=st.booleans())
    def exit(self, data: st.DataObject, is_sudden: bool) -> None:
        """A kill reaches one that stands still, too."""

        def may_exit(model: ModelProcessor) -> bool:
            return is_sudden or model.is_dying or (model.is_leaving and not model.tasks)

        able = [number for number, model in self.processors.items() if may_exit(model)]
        if able:
            number = data.draw(st.sampled_from(able))
            del self.processors[number]
            self.handle(events.ProcessorExited(number, -9))

    # ------------------------------------------------------------ time

    @rule(seconds=st.sampled_from([0.001, 0.05, 0.5, 20.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.handle(events.RoundEnded())

    @rule()
    def wait_for_deadline(self) -> None:
        deadline = self.core.next_deadline()
        if deadline is not None and deadline > self.now:
            self.now = deadline
            self.handle(events.RoundEnded())

    # ------------------------------------------------------------ laws

    @invariant()
    def indexes_agree(self) -> None:
        invariants.check(self.core)

    @invariant()
    def what_is_held_is_what_was_dispatched(self) -> None:
        assert set(self.core.tables.tasks) == self.held

    @invariant()
    def every_cancel_of_what_has_ended_was_answered(self) -> None:
        assert all(count == 0 for task, count in self.unanswered.items() if task not in self.held)

    @invariant()
    def no_deadline_stays_in_the_past(self) -> None:
        """Else the shell would spin. What falls due by what a round has sent, as when the credit that it tells is less
        than there are tasks, is done in one more round at once."""
        deadline = self.core.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.handle(events.RoundEnded())
            deadline = self.core.next_deadline()
        assert deadline is None or deadline > self.now

    @invariant()
    def a_worker_without_processors_keeps_no_task_that_has_not_begun(self) -> None:
        tables = self.core.tables
        assert not (tables.trouble and tables.is_connected and (len(tables.queue) or tables.ahead.waiting))

    @invariant()
    def a_suspended_processor_is_woken(self) -> None:
        """At a time that is known: a process that stands still cannot ask for anything."""
        deadline = self.core.next_deadline()
        for model in self.processors.values():
            assert not model.is_suspended or (deadline is not None and deadline <= self.now + suspension.ASLEEP_SECONDS)

    @invariant()
    def no_more_run_than_places_allow(self) -> None:
        tables = self.core.tables
        beyond = [one for one in tables.processors.values() if one.is_extra or (one.slice and one.slice[0].stop)]
        assert tables.free_places() + len(beyond) >= 0, "but for those that unwind, or had waited too long (WRK-67)"

    def teardown(self) -> None:
        """Let everything end: then nothing may be left."""
        if not self.is_open:
            self.open()
        for _ in range(2000):
            if not self.held and not any(model.tasks for model in self.processors.values()):
                break
            for number, model in list(self.processors.items()):
                self.finish_one(number, model)
            self.now += 0.2
            self.look_at_begun()
            self.handle(events.RoundEnded())
        assert not self.held, "with willing processors every task ends"
        assert not any(self.unanswered.values())

    def finish_one(self, number: int, model: ModelProcessor) -> None:
        if model.is_dying or (model.is_leaving and not model.tasks):
            del self.processors[number]
            self.handle(events.ProcessorExited(number, -9))
        elif not model.is_moving:
            return
        elif not model.is_ready:
            model.is_ready = True
            self.handle(events.ProcessorReady(number, number))
        elif model.is_blocked:
            if not model.has_asked:
                model.has_asked = True
                self.handle(events.ResumeWanted(number))
        elif model.marks:
            serial = model.marks.pop(0)
            first = model.tasks[0].number if model.tasks else 0
            while len(model.tasks) > 1:
                model.tasks.pop()
            self.handle(events.GaveBack(number, serial, first))
        elif model.tasks:
            self.handle(events.TasksEnded(number, [model.end_first(STATUS_SUCCESS)]))


AgentMachine.TestCase.settings = settings(
    max_examples=50, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAgent = AgentMachine.TestCase
