"""Everything the adapter knows, and the few changes to it that more than one rule needs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from scaler_protocol.codes import KIND_INLINE, PROCESSOR_DIED, STATUS_PROCESSOR_DIED
from scaler_protocol.holding.cancels import CancelReplies
from scaler_protocol.holding.code import CodeGuard
from scaler_protocol.holding.durations import Durations
from scaler_protocol.holding.presenting import Presenting
from scaler_protocol.holding.queue import TaskQueue
from scaler_protocol.holding.results import ResultCollector
from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import Credit, TaskError
from scaler_symphony.core.actions import Action, Log, Send
from scaler_symphony.core.events import Reply
from scaler_symphony.core.sessions import SymphonySession


@dataclass(frozen=True, slots=True)
class Settings:
    worker_name: str
    encode_error: Callable[[TaskError], bytes]
    base_concurrency: int
    queue_size: int = 1000
    give_up_seconds: float = 300.0  #: without a session, before the scheduler gets everything back
    present_seconds: float = 60.0  #: how long tasks are kept for a successor of the scheduler; zero: not at all
    code_tags: tuple[str, ...] = ()  #: the code that runs on its hosts (WRK-26); empty: it takes any task


@dataclass(slots=True, eq=False)
class Run:
    """One Symphony task. It holds a place until Symphony has answered, whatever has become of the task meanwhile."""

    number: int
    task: Task
    begun_at: float
    handle: str = ""  #: empty until Symphony has accepted it
    is_given_up: bool = False  #: its end was reported without waiting for it
    stop_at: float | None = None  #: from then on the session may be closed to end it
    timeout_at: float | None = None


@dataclass(slots=True)
class Tables:
    settings: Settings
    is_connected: bool = False  #: to the scheduler
    session: SymphonySession = field(default_factory=SymphonySession)
    #: every task held: in the queue, or in exactly one run that is not given up
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    queue: TaskQueue = field(default_factory=TaskQueue)
    runs: dict[int, Run] = field(default_factory=dict)  #: all of the present session, by number
    last_run: int = 0
    handles: dict[str, int] = field(default_factory=dict)  #: number of each run that has a handle
    #: responses that came before we were told their handles
    early: dict[str, Reply | str] = field(default_factory=dict)
    #: functions and serializers; None for one that the service is to fetch. The one not used for longest is first.
    #: By family and id (WRK-43).
    objects: OrderedDict[tuple[bytes, ObjectId], bytes | None] = field(default_factory=OrderedDict)
    object_bytes: int = 0
    fetching: set[tuple[bytes, ObjectId]] = field(default_factory=set)
    #: how often a held task was in a session that was lost, or could not be sent; those that never were are not here
    mishaps: dict[TaskId, int] = field(default_factory=dict)
    send_not_before: float = 0.0  #: after a failure; zero when nothing is put off
    unsendable: set[TaskId] = field(default_factory=set)  #: since the last task that could be sent
    durations: Durations = field(default_factory=Durations)
    results: ResultCollector = field(default_factory=ResultCollector)
    cancel_replies: CancelReplies = field(default_factory=CancelReplies)
    sent_credit: Credit | None = None
    drain_until: float | None = None  #: set while draining: when what still runs is given up
    #: of a worker that has drained: whether it has asked, and knows, that the scheduler has its last results
    awaits_acknowledgement: bool = False
    is_acknowledged: bool = False
    actions: list[Action] = field(default_factory=list)  #: of the event being handled
    code_guard: CodeGuard = field(init=False)
    presenting: Presenting = field(init=False)

    def __post_init__(self) -> None:
        settings = self.settings
        self.code_guard = CodeGuard(settings.worker_name, settings.encode_error, settings.code_tags)
        self.presenting = Presenting(settings.present_seconds)

    @property
    def is_draining(self) -> bool:
        return self.drain_until is not None

    def is_drained(self) -> bool:
        """Nothing is held, and no result waits for a scheduler."""
        return not self.tasks and self.presenting.has_told(self.results, self.is_connected)

    def log(self, text: str, *, is_warning: bool = True) -> None:
        self.actions.append(Log(is_warning, text))

    def send(self, message: object) -> None:
        self.actions.append(Send(message))  # type: ignore[arg-type]

    def forget(self, task: Task) -> None:
        """The task has ended here."""
        del self.tasks[task.id]
        self.mishaps.pop(task.id, None)

    def end_run(self, run: Run) -> None:
        del self.runs[run.number]
        self.handles.pop(run.handle, None)
        self.tidy_early()

    def tidy_early(self) -> None:
        """When every run has its handle, what is left there are responses that came twice."""
        if all(run.handle for run in self.runs.values()):
            self.early.clear()

    def end_broken(self, task: Task, text: str) -> None:
        """Symphony could not run it. It counts as a task whose processor died, because it may be what killed it."""
        self.forget(task)
        worker = self.settings.worker_name
        message = f"Symphony could not run this task for worker {worker}: {text}"
        error = TaskError(PROCESSOR_DIED, "ProcessorDiedError", message, workers=(f"{worker}: {text}",))
        value = self.settings.encode_error(error)
        self.results.add(task.id, task.attempt, STATUS_PROCESSOR_DIED, KIND_INLINE, value, task.header)
