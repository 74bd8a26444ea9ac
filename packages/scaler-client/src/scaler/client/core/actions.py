"""What comes out of the core."""

from __future__ import annotations

from typing import NamedTuple

from scaler.client.core.records import Collector, Definition, LargeError, Outcomes, Submission
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import Capability, Explanation, Message, StackReply
from scaler_protocol.records import dataclass


@dataclass(frozen=True, slots=True)
class Send:
    message: Message


class Complete(NamedTuple):
    """Tell a collector how tasks of its ended. Each task is told exactly once."""

    collector: Collector
    outcomes: Outcomes
    #: of these tasks and perhaps others, when some values are in the storage: if they are lost, it is sent again
    submission: Submission | Definition | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Objects of ours in storage that are not needed any more. (OWN-2)"""

    ids: tuple[ObjectId, ...]


class Hold(NamedTuple):
    """The exception of a task is an object of ours, to be released when this error is not referred to any more."""

    task_id: TaskId
    error: LargeError


@dataclass(frozen=True, slots=True)
class Claim:
    """Results that a lost scheduler kept for our tasks: they are taken over with all that is ours. (CLI-18)"""

    results: tuple[tuple[TaskId, ObjectId], ...]
    #: the storage was restarted: whether they are there is to be found out now
    is_asked_for: bool = False


@dataclass(frozen=True, slots=True)
class Redial:
    """The session is over: begin another, under a new peerId, with all that is stored in the old one's name. (CLI-8)"""


@dataclass(frozen=True, slots=True)
class Print:
    """Something that a task printed."""

    stream: int
    text: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Why a task cannot begin yet, in the words of its worker. Empty: there is no reason any more."""

    task_id: TaskId
    text: str


@dataclass(frozen=True, slots=True)
class AnswerShutdown:
    is_accepted: bool
    text: str


class Explained(NamedTuple):
    """The answer to `Asked`."""

    request_id: int
    #: None: no scheduler could be asked
    explanation: Explanation | None
    #: what the task asks for
    capabilities: tuple[Capability, ...] = ()
    #: of a question for the stack, in place of the explanation
    stack: StackReply | None = None


Action = Send | Complete | Hold | Release | Claim | Redial | Print | Tell | AnswerShutdown | Explained
