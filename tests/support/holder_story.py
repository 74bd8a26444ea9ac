"""A core that holds tasks, a worker's agent or the Symphony adapter: what its scheduler tells it, and is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from scaler_protocol.codes import PROTOCOL_VERSION_MAX, ROLE_WORKER
from scaler_protocol.columns import join_ids, join_u32, split_ids
from scaler_protocol.ids import ObjectId, PeerId, TaskId
from scaler_protocol.messages import CancelReply, Dispatch, Hello, Message, Results, TaskHeader, Welcome
from scaler_protocol.session import Opened, Received

SCHEDULER = PeerId(b"s" * 16)
CLIENT = PeerId(b"c" * 16)
FUNCTION = ObjectId(b"function".ljust(16))
OPENED = Opened(
    SCHEDULER, Hello(1, 1, ROLE_WORKER, PeerId(b"w" * 16)), Welcome(PROTOCOL_VERSION_MAX, SCHEDULER, 1, 1)
)  # fmt: skip

Action = TypeVar("Action")


def task_id(name: int) -> TaskId:
    return TaskId(name.to_bytes(16, "big"))


def ids(*names: int) -> bytes:
    return join_ids(map(task_id, names))


def names(ids: bytes) -> list[int]:
    return [int.from_bytes(id_, "big") for id_ in split_ids(ids)]


class HolderStory(Generic[Action]):
    """Every step ends its round and checks the invariants. Tasks are called by small numbers."""

    def __init__(self, handle: Callable[[Any, float], list[Action]], check: Callable[[], None], end: object) -> None:
        """`end`: the event that ends a round."""
        self._handle = handle
        self._check = check
        self._end = end
        self.now = 100.0
        self.seq = 0

    def event(self, event: object) -> list[Action]:
        actions = self._handle(event, self.now)
        self._check()
        return actions

    def step(self, *step: object, after: float = 0.0) -> list[Action]:
        self.now += after
        actions = [action for event in step for action in self.event(event)]
        return actions + self.event(self._end)

    def receive(self, message: Message, after: float = 0.0) -> list[Action]:
        self.seq += 1
        return self.step(Received(SCHEDULER, self.seq, message), after=after)

    def dispatch(self, *tasks: int, function: ObjectId = FUNCTION, **header: Any) -> list[Action]:
        sizes = join_u32([1] * len(tasks))
        header_of_all = TaskHeader(**{"client": CLIENT, **header})
        return self.receive(Dispatch(header_of_all, function, ids(*tasks), b"x" * len(tasks), sizes))


def sent(actions: Sequence[Any], kind: type) -> list[Any]:
    """The messages of this kind, of those that are sent."""
    return [action.message for action in actions if type(getattr(action, "message", None)) is kind]


def results(actions: Sequence[Any]) -> dict[int, int]:
    """Statuses by task."""
    return _by_task((message.ids, message.statuses) for message in sent(actions, Results))


def cancel_outcomes(actions: Sequence[Any]) -> dict[int, int]:
    return _by_task((message.ids, message.outcomes) for message in sent(actions, CancelReply))


def _by_task(columns: Any) -> dict[int, int]:
    """Where a column is empty, all its values are zero."""
    found: dict[int, int] = {}
    for ids_, values in columns:
        tasks = names(ids_)
        found.update(zip(tasks, values or bytes(len(tasks)), strict=True))
    return found
