"""What the core can ask for. The shell performs these in order and decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scaler_protocol.holding.tasks import Task
from scaler_protocol.ids import ObjectId, Owner
from scaler_protocol.messages import Message


@dataclass(frozen=True, slots=True)
class Send:
    message: Message


@dataclass(frozen=True, slots=True)
class OpenSession:
    session: int


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Symphony ends whatever still runs in it."""

    session: int


@dataclass(frozen=True, slots=True)
class SendTask:
    """As run `number`. `brought` are the functions and serializers that go with it."""

    session: int
    number: int
    task: Task
    brought: Mapping[ObjectId, bytes]


@dataclass(frozen=True, slots=True)
class Fetch:
    """A function or serializer, from the storage."""

    object_id: ObjectId
    owner: Owner


@dataclass(frozen=True, slots=True)
class Log:
    """One line for people."""

    is_warning: bool
    text: str


@dataclass(frozen=True, slots=True)
class Remember:
    """A later generation of the scheduler, for the next Hello. (HSK-36)"""

    generation: int


@dataclass(frozen=True, slots=True)
class AwaitAcknowledgement:
    """Tell when the scheduler has all that was sent until now."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Say Bye and exit."""

    text: str
    is_failure: bool = False


Action = Send | OpenSession | CloseSession | SendTask | Fetch | Log | Remember | AwaitAcknowledgement | Finish
