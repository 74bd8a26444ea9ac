"""One agent core, told what happens and asked what it does about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler_protocol import codec
from scaler_protocol.codes import (
    PROTOCOL_VERSION_MAX,
    ROLE_WORKER,
    STATUS_SUCCESS,
)
from scaler_protocol.columns import join_ids, join_u32, split_ids
from scaler_protocol.ids import ObjectId, PeerId, TaskId
from scaler_protocol.messages import (
    Credit,
    Dispatch,
    Hello,
    Message,
    Results,
    TaskHeader,
    Welcome,
)
from scaler_protocol.session import Opened, Received
from scaler_worker.core import AgentCore, Settings, events, invariants
from scaler_worker.core.actions import (
    Action,
    HandOver,
    Send,
    StartProcessor,
)
from scaler_worker.core.events import (
    ProcessorReady,
    RoundEnded,
    Started,
    TaskBlocked,
    TasksEnded,
)
from scaler_worker.core.processors import Processor

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
