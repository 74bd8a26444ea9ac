"""What can happen to the adapter. With `Opened`, `Received` and `Lost` of the scheduler's session these are all of it.

Whatever comes from Symphony bears the number of the Symphony session that it is about: what a former session still says
changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from scaler_protocol.ids import ObjectId
from scaler_protocol.session import Lost, Opened, Received


@dataclass(frozen=True, slots=True)
class Started:
    """The first event."""


@dataclass(frozen=True, slots=True)
class SessionOpened:
    session: int
    name: str  #: what Symphony calls it


@dataclass(frozen=True, slots=True)
class SessionFailed:
    """It could not be opened."""

    session: int
    text: str


@dataclass(frozen=True, slots=True)
class SessionLost:
    """It was open, and none of its tasks will be answered any more."""

    session: int
    text: str


@dataclass(frozen=True, slots=True)
class TaskSent:
    """Symphony has accepted run `number`, and calls it `handle`. The response may have come before."""

    session: int
    number: int
    handle: str


@dataclass(frozen=True, slots=True)
class SendFailed:
    session: int
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What the service says of a task that it has run, well or not."""

    status: int
    kind: int
    value: bytes
    profile: bytes
    printed: tuple[tuple[int, str], ...]  #: stream and text, in order


@dataclass(frozen=True, slots=True)
class Responded:
    """`outcome` is a text when Symphony could not run the task, or its service said nothing that we understand. May
    come twice, in any order, and before TaskSent."""

    session: int
    handle: str
    outcome: Reply | str


@dataclass(frozen=True, slots=True)
class Fetched:
    """A function or serializer is here. None: it is too large to go with each task, so the service fetches it."""

    object_id: ObjectId
    content: bytes | None
    family: bytes = b""  #: for whose tasks it was fetched; empty where there are no keys


@dataclass(frozen=True, slots=True)
class FetchFailed:
    object_id: ObjectId
    code: int
    text: str
    family: bytes = b""


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """The operator wants this worker to leave (SIGTERM)."""

    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The scheduler has all that was sent, as `AwaitAcknowledgement` wanted to know."""


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """Everything that was ready has been handled: what piled up may leave, and what is due is done."""


Event = (
    Opened | Received | Lost | Started | SessionOpened | SessionFailed | SessionLost | TaskSent | SendFailed
    | Responded | Fetched | FetchFailed | DrainRequested | Acknowledged | RoundEnded
)  # fmt: skip
