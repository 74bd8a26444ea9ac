"""One Symphony core, told what happens and asked what it does about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler_protocol import codec
from scaler_protocol.codes import ROLE_WORKER, STATUS_SUCCESS
from scaler_protocol.columns import join_ids, join_u32, split_ids
from scaler_protocol.ids import ObjectId, PeerId, TaskId
from scaler_protocol.messages import Cancel, CancelReply, Dispatch, Hello, Message, Results, TaskHeader, Welcome
from scaler_protocol.session import Opened, Received
from scaler_symphony.core import Settings, SymphonyCore, events, invariants
from scaler_symphony.core.actions import Action, Send, SendTask

SCHEDULER = PeerId(b"s" * 16)
CLIENT = PeerId(b"c" * 16)
FUNCTION = ObjectId(b"function".ljust(16))
OPENED = Opened(SCHEDULER, Hello(1, 1, ROLE_WORKER, PeerId(b"w" * 16)), Welcome(1, SCHEDULER, 1, 1))
GOOD = events.Reply(STATUS_SUCCESS, 0, b"value", b"", ())


def task_id(name: int) -> TaskId:
    return TaskId(name.to_bytes(16, "big"))


def names(ids: bytes) -> list[int]:
    return [int.from_bytes(id_, "big") for id_ in split_ids(ids)]


class Story:
    """Every step ends its round and checks the invariants. Tasks and their handles are called by small numbers."""

    def __init__(self, base_concurrency: int = 2, **settings: Any) -> None:
        self.core = SymphonyCore(Settings("w", codec.encode_task_error, base_concurrency, **settings))
        self.now = 100.0
        self.seq = 0

    def event(self, event: events.Event) -> list[Action]:
        actions = self.core.handle(event, self.now)
        invariants.check(self.core)
        return actions

    def step(self, *step: events.Event, after: float = 0.0) -> list[Action]:
        self.now += after
        actions = [action for event in step for action in self.event(event)]
        return actions + self.event(events.RoundEnded())

    def receive(self, message: Message, after: float = 0.0) -> list[Action]:
        self.seq += 1
        return self.step(Received(SCHEDULER, self.seq, message), after=after)

    def start(self) -> Story:
        self.step(events.Started())
        self.step(events.SessionOpened(1, "101"))
        self.step(OPENED)
        self.step(events.Fetched(FUNCTION, b"code"))
        return self

    @property
    def session(self) -> int:
        return self.core.tables.session.number

    def dispatch(self, *tasks: int, function: ObjectId = FUNCTION, **header: Any) -> list[Action]:
        ids = join_ids(map(task_id, tasks))
        sizes = join_u32([1] * len(tasks))
        return self.receive(Dispatch(TaskHeader(client=CLIENT, **header), function, ids, b"x" * len(tasks), sizes))

    def sent(self, *tasks: int) -> list[Action]:
        """Symphony accepts their runs."""
        return self.step(*(events.TaskSent(self.session, self.number(task), self.handle(task)) for task in tasks))

    def respond(self, *tasks: int, outcome: events.Reply | str = GOOD) -> list[Action]:
        return self.step(*(events.Responded(self.session, self.handle(task), outcome) for task in tasks))

    def cancel(self, *tasks: int, grace: float = 1.0) -> list[Action]:
        return self.receive(Cancel(join_ids(map(task_id, tasks)), grace_seconds=grace))

    def handle(self, task: int) -> str:
        return f"h{task}"

    def number(self, task: int) -> int:
        return next(run.number for run in self.core.tables.runs.values() if run.task.id == task_id(task))

    def running(self) -> list[int]:
        return [int.from_bytes(run.task.id, "big") for run in self.core.tables.runs.values()]

    def queued(self) -> list[int]:
        return [int.from_bytes(task.id, "big") for task in self.core.tables.queue]


def begun(actions: Sequence[Action]) -> list[int]:
    return [int.from_bytes(action.task.id, "big") for action in actions if isinstance(action, SendTask)]


def messages(actions: Sequence[Action], kind: type) -> list[Any]:
    return [action.message for action in actions if isinstance(action, Send) and type(action.message) is kind]


def results(actions: Sequence[Action]) -> dict[int, int]:
    """Statuses by task."""
    found: dict[int, int] = {}
    for message in messages(actions, Results):
        ids = names(message.ids)
        found.update(zip(ids, message.statuses or bytes(len(ids)), strict=True))
    return found


def cancel_outcomes(actions: Sequence[Action]) -> dict[int, int]:
    found: dict[int, int] = {}
    for message in messages(actions, CancelReply):
        ids = names(message.ids)
        found.update(zip(ids, message.outcomes or bytes(len(ids)), strict=True))
    return found
