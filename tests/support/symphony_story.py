"""One Symphony core, told what happens and asked what it does about it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from scaler_protocol import codec
from scaler_protocol.codes import STATUS_SUCCESS
from scaler_protocol.messages import Cancel
from scaler_symphony.core import Settings, SymphonyCore, events, invariants
from scaler_symphony.core.actions import Action, SendTask
from tests.support.holder_story import FUNCTION, OPENED, HolderStory, ids, task_id

GOOD = events.Reply(STATUS_SUCCESS, 0, b"value", b"", ())


class Story(HolderStory[Action]):
    """Tasks and their handles are called by small numbers."""

    def __init__(self, base_concurrency: int = 2, **settings: Any) -> None:
        self.core = SymphonyCore(Settings("w", codec.encode_task_error, base_concurrency, **settings))
        super().__init__(self.core.handle, partial(invariants.check, self.core), events.RoundEnded())

    def start(self) -> Story:
        self.step(events.Started())
        self.step(events.SessionOpened(1, "101"))
        self.step(OPENED)
        self.step(events.Fetched(FUNCTION, b"code"))
        return self

    @property
    def session(self) -> int:
        return self.core.tables.session.number

    def sent(self, *tasks: int) -> list[Action]:
        """Symphony accepts their runs."""
        return self.step(*(events.TaskSent(self.session, self.number(task), self.handle(task)) for task in tasks))

    def respond(self, *tasks: int, outcome: events.Reply | str = GOOD) -> list[Action]:
        return self.step(*(events.Responded(self.session, self.handle(task), outcome) for task in tasks))

    def cancel(self, *tasks: int, grace: float = 1.0) -> list[Action]:
        return self.receive(Cancel(ids(*tasks), grace_seconds=grace))

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
