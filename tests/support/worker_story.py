"""One agent core, told what happens and asked what it does about it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from scaler_protocol import codec
from scaler_protocol.codes import STATUS_SUCCESS
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import Credit
from scaler_worker.core import AgentCore, Settings, invariants
from scaler_worker.core.actions import Action, HandOver, Send, StartProcessor
from scaler_worker.core.events import ProcessorReady, RoundEnded, Started, TaskBlocked, TasksEnded
from scaler_worker.core.processors import Processor
from tests.support.holder_story import FUNCTION, OPENED, HolderStory

TINY = FUNCTION
LONG = ObjectId(b"long".ljust(16))


class Story(HolderStory[Action]):
    """One agent core."""

    def __init__(self, **settings: Any) -> None:
        self.core = AgentCore(Settings("w", codec.encode_task_error, **settings))
        super().__init__(self.core.handle, partial(invariants.check, self.core), RoundEnded())

    def start(self) -> Story:
        assert self.step(Started()) == [StartProcessor(1)]
        assert self.step(OPENED)[0] == Send(Credit(2, 2))
        assert self.step(ProcessorReady(1, 1001)) == []
        return self

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
