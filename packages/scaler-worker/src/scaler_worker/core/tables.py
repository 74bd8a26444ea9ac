"""Everything a worker knows, and the few changes to it that more than one rule needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from math import inf

from scaler_protocol.codes import CANCEL_UNKNOWN, STATUS_SUCCESS
from scaler_protocol.holding.cancels import CancelReplies
from scaler_protocol.holding.code import CodeGuard
from scaler_protocol.holding.credit import Load
from scaler_protocol.holding.durations import Durations
from scaler_protocol.holding.presenting import Presenting
from scaler_protocol.holding.queue import TaskQueue
from scaler_protocol.holding.results import ResultCollector
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import TaskError
from scaler_protocol.records import dataclass
from scaler_worker.core.actions import Action, Reclaim
from scaler_worker.core.ahead import Ahead
from scaler_worker.core.processors import Processor, State
from scaler_worker.core.run_times import RunTimes
from scaler_worker.core.sampling import Sampler
from scaler_worker.core.stack_samples import StackSamples

_IDLE, _RUNNING = State.IDLE, State.RUNNING
"""Looked up once: what is asked in every round is asked with few steps."""

SPARE_PROCESSORS = 2
"""So many more than there are places may stay when they are idle."""


@dataclass(frozen=True, slots=True)
class Settings:
    worker_name: str
    encode_error: Callable[[TaskError], bytes]
    queue_size: int = 1000
    max_processors: int = 128
    places: int = 1  #: how many tasks run at once
    task_timeout_seconds: float = 0.0  #: how long any task may run; zero: as long as its own header says
    code_tags: tuple[str, ...] = ()  #: the code its processors read (WRK-26); empty: it takes any task
    suspends_hard: bool = False  #: blocked processors are stopped while deeper tasks run
    memory_bytes: int = 0  #: the most that a processor may have; zero: any
    tasks_per_processor: int = 0  #: how many a processor runs before it is replaced; zero: any number
    shares_processors: bool = False  #: one processor may run tasks of several users
    gpus: tuple[str, ...] = ()  #: devices that tasks get by their amount of `gpu`; empty: none are shared out
    present_seconds: float = 60.0  #: how long tasks are kept for a successor of the scheduler; zero: not at all


@dataclass(slots=True)
class Room:
    """The limit that the worker keeps to, at least, so that a task deeper than those that wait here can come (CRD-9).

    The limit follows the durations of tasks, and falls below what is held when they turn out longer. What is held and
    has not begun then keeps out the children that others of the held tasks wait for. So the limit is raised to what is
    held: the reserve on top of it is free again. A task that is no deeper may fill it; then it is raised once more, at
    growing intervals, for the scheduler sends the deepest that it has (SCH-9).
    """

    floor: int = 0  #: the least limit to tell; zero: any
    raised_at: float = -inf
    pause_seconds: float = 0.0  #: until it may be raised again while nothing changes


@dataclass(slots=True)
class StackQuestion:
    """Where is this task in its code? (WRK-56)"""

    request_ids: list[int]
    task: Task
    serial: int
    until: float  #: when the processor has had its time to answer
    is_overdue: bool = False  #: it has not, and the operating system is asked


@dataclass(slots=True)
class Tables:
    settings: Settings
    is_connected: bool = False
    #: every task held: in one of the queue, `ahead.waiting` and the slices
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    queue: TaskQueue = field(default_factory=TaskQueue)
    ahead: Ahead = field(default_factory=Ahead)
    processors: dict[int, Processor] = field(default_factory=dict)  #: all that have not exited
    last_processor: int = 0
    durations: Durations = field(default_factory=Durations)
    results: ResultCollector = field(default_factory=ResultCollector)
    cancel_replies: CancelReplies = field(default_factory=CancelReplies)
    #: tasks whose time will not come here, to be given back before the ends that are the reason (WRK-24)
    untimely: list[TaskId] = field(default_factory=list)
    sent_credit: int = 0
    resumed_at: float = -inf  #: when a task last went on beyond the places (WRK-67)
    told_lenders: tuple[TaskId, ...] = ()  #: blocked tasks with amounts to lend, as last told (SCH-47)
    room: Room = field(default_factory=Room)  #: for tasks that those held here wait for (CRD-9)
    start_failures: int = 0  #: in a row, of processors that exited before they were ready
    trouble: str = ""  #: why no processor can be had, for people; the worker takes no tasks until it is empty again
    trouble_at: float = 0.0  #: since when
    is_resting: bool = False  #: as the credit that was told last says, because of the trouble
    start_not_before: float = 0.0  #: after failures; zero when nothing is put off
    run_times: RunTimes = field(default_factory=RunTimes)  #: of tasks that have ended since the last status (WRK-54)
    stack_samples: StackSamples = field(default_factory=StackSamples)  #: empty unless a monitor watches (WRK-61)
    sampler: Sampler | None = None  #: set while a monitor watches tasks (MON-11)
    #: of a drained worker, in this session: the scheduler was asked whether it has all, and it has
    awaits_acknowledgement: bool = False
    is_acknowledged: bool = False
    drain_until: float | None = None  #: set while draining: when what still runs is given up
    recycled_count: int = 0  #: processors that were replaced between two tasks (WRK-44)
    limited_count: int = 0  #: tasks that were ended because of their memory (WRK-46)
    stacks: dict[int, StackQuestion] = field(default_factory=dict)  #: by processor, those that wait for its answer
    stack_serial: int = 0  #: of the last question to a processor
    actions: list[Action] = field(default_factory=list)  #: of the event being handled
    code_guard: CodeGuard = field(init=False)
    presenting: Presenting = field(init=False)
    #: of all tasks until processors belong to groups: the head of their families' names (WRK-70); None: none has come
    user: bytes | None = None
    is_grouped: bool = False  #: tasks of two users or with a code set have come, or there are GPUs (grouping.py)
    recycles: bool = field(init=False)  #: a processor may become worn

    def __post_init__(self) -> None:
        settings = self.settings
        self.code_guard = CodeGuard(settings.worker_name, settings.encode_error, settings.code_tags)
        self.presenting = Presenting(settings.present_seconds)
        self.is_grouped = bool(settings.gpus)
        self.recycles = settings.memory_bytes > 0 or settings.tasks_per_processor > 0

    @property
    def is_draining(self) -> bool:
        return self.drain_until is not None

    @property
    def takes_none(self) -> bool:
        """No task may come, of any depth."""
        return self.drain_until is not None or self.trouble != ""

    def is_drained(self) -> bool:
        """Nothing is held, and no result waits for a scheduler."""
        return not self.tasks and self.presenting.has_told(self.results, self.is_connected)

    def count(self, *states: State) -> int:
        return sum(processor.state in states for processor in self.processors.values())

    def is_quiet(self) -> bool:
        """Nothing waits, and every processor runs one task or none: there is nothing to hand out, to take back or to
        end, and no time that will come."""
        settings = self.settings
        if self.queue or self.ahead.waiting or self.drain_until is not None or settings.suspends_hard or self.stacks:
            return False
        if self.presenting.until is not None:
            return False
        if self.start_not_before or not settings.places <= len(self.processors) <= settings.places + SPARE_PROCESSORS:
            return False
        for processor in self.processors.values():
            state = processor.state
            if (state is not _RUNNING and state is not _IDLE) or len(processor.slice) > 1 or processor.is_extra:
                return False
            if processor.is_worn:
                return False
            if processor.kill_at is not None or processor.timeout_at is not None:
                return False
        return True

    def free_places(self) -> int:
        """Negative while tasks run beyond the places: then the next that end leave no place free."""
        free = self.settings.places
        for processor in self.processors.values():
            if processor.state is _RUNNING:
                free -= 1
        return free

    def load(self, now: float) -> Load:
        """What the credit depends on, of all processors in one sweep: it is asked for in every round."""
        running_seconds, lent_places = 0.0, 0
        for processor in self.processors.values():
            if processor.state is _RUNNING:
                running_seconds = max(running_seconds, now - processor.first_since)
                lent_places += processor.is_extra
            elif processor.is_waiting:
                lent_places += 1
        settings = self.settings
        return Load(settings.places, settings.queue_size, self.durations.overall, running_seconds, lent_places)

    def withdraw(self, task: Task) -> None:
        """It is in no slice: take it out of where it waits."""
        if task.awaits:
            self.ahead.leave(task)
        else:
            self.queue.remove(task)

    def forget(self, task: Task) -> None:
        """The task has ended here without success, or has gone: those that await it go back."""
        del self.tasks[task.id]
        for follower in self.ahead.ended_otherwise(task.id):
            self._give_back(follower)

    def settle_followers(self, task: Task, status: int, kind: int, value: bytes) -> None:
        """The task has ended and is forgotten."""
        if status == STATUS_SUCCESS:
            # They go first, for they free what they take as input (SCH-11).
            self.queue.put_back(self.ahead.succeeded(task.id, kind, value))
            return
        for follower in self.ahead.ended_otherwise(task.id):
            self._give_back(follower)

    def _give_back(self, task: Task) -> None:
        """Its processor, when it has one, passes it over."""
        del self.tasks[task.id]
        if task.processor is not None:
            processor = self.processors[task.processor]
            processor.slice.remove(task)
            processor.outstanding_seconds -= task.estimate_seconds
        self.cancel_replies.answer(task, CANCEL_UNKNOWN)
        self.untimely.append(task.id)

    def give_back_waiting(self) -> None:
        """Everything whose time has not come."""
        for task in list(self.ahead.waiting.values()):
            if task.id in self.ahead.waiting:  # else it went with one that it awaits
                self.withdraw(task)
                self.forget(task)
                self.untimely.append(task.id)

    def return_to_queue(self, tasks: list[Task]) -> None:
        """Tasks handed to a processor that has not begun them wait again, at the front."""
        for task in tasks:
            task.processor = None
            task.number = 0
            if task.awaits:
                self.ahead.waiting[task.id] = task
        self.queue.put_back([task for task in tasks if not task.awaits])

    def reclaim(self, processor: Processor) -> None:
        """Ask for what its slice has behind the first task. An unanswered reclaim covers all that it was handed."""
        if processor.can_give_back:
            processor.is_reclaiming = True
            processor.reclaim_serial += 1
            self.actions.append(Reclaim(processor.number, processor.reclaim_serial))

    def take_rest(self, processor: Processor) -> list[Task]:
        """Remove from the slice everything behind its first task."""
        rest = list(processor.slice)[1:]
        while len(processor.slice) > 1:
            processor.slice.pop()
        first = processor.first
        processor.outstanding_seconds = first.estimate_seconds if first else 0.0
        return rest
