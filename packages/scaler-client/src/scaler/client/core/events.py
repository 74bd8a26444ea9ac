"""What goes into the core, besides the events of its session: what the program wants."""

from __future__ import annotations

from typing import NamedTuple

from scaler.client.core.records import GraphBatch, Submission
from scaler_protocol.ids import GraphId, ObjectId, PeerId, TaskId
from scaler_protocol.records import dataclass
from scaler_protocol.session import SessionEvent


@dataclass(frozen=True, slots=True)
class GraphSubmitted:
    """A whole graph, tasks after all they depend on. Its header carries its id, and its last batch is sealed."""

    graph_id: GraphId
    batches: tuple[GraphBatch, ...]
    #: one for each task whose result is wanted, without its arguments: these are in the batches
    wanted: tuple[Submission, ...]
    #: argument objects that several nodes share: released when the graph has ended
    objects: tuple[ObjectId, ...] = ()
    #: functions, and references among the arguments: they live until it has ended
    kept: tuple[object, ...] = ()
    #: wanted nodes on which others depend
    inputs: frozenset[TaskId] = frozenset()


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """These tasks shall end. Each does: canceled, or otherwise when that came first. Ended ones are passed over."""

    ids: tuple[TaskId, ...]
    grace_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Cleared:
    """Every unfinished task of this owner shall end."""

    owner: object
    grace_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class ShutdownRequested:
    """Ask the scheduler to stop the cluster."""

    grace_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Left:
    """The client is gone. What is pending ends at once: canceled, or failed with `text` when it did not mean to go."""

    text: str = ""


class Asked(NamedTuple):
    """Why does this task wait? Without a task: which one can no worker run? Answered by `Explained`."""

    request_id: int
    task_id: TaskId
    #: where is it in its code, instead (SCH-93)
    wants_stack: bool = False
    #: instead of `task_id`, the parts of its short form (MON-43)
    short: tuple[bytes, int] = (b"", 0)


class Named(NamedTuple):
    """What people call this function. It travels with what is sent next. (MON-13)"""

    function_id: ObjectId
    name: str


class Numbered(NamedTuple):
    """A Submit has this place in the session. Only a refusal of it asks for that. (CLI-10)"""

    seq: int
    ids: bytes


@dataclass(frozen=True, slots=True)
class Unneeded:
    """Result objects that the program has read, or will never ask for. (OWN-10)"""

    ids: tuple[ObjectId, ...]


@dataclass(frozen=True, slots=True)
class ObjectsLost:
    """Arguments that we have stored are there no more, and cannot be stored again. Tasks that need them end."""

    ids: tuple[ObjectId, ...]
    #: with our session: then all tasks begin anew. Else those that are at work have their arguments already.
    is_session_lost: bool = False


@dataclass(frozen=True, slots=True)
class StorageRestarted:
    """It has nothing any more. What was kept is on its way there; values between the nodes of graphs are lost."""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What we own in the storage is ours under this name now, and what is lost has been said. (CLI-11)"""

    owner: PeerId
    #: false: the storage could not be reached
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class Sought:
    """A call needs a session before it submits anything, to store what it takes. So the scheduler is dialed now."""


class Flush(NamedTuple):
    """Send what has piled up, as far as the window has room beside what is not acknowledged yet. (CLI-16)"""

    unacknowledged_bytes: int = 0
    unacknowledged_count: int = 0


class Ticked(NamedTuple):
    """It is `next_deadline()` or later."""

    waits_because: str = ""
    """Why the scheduler has no session for this client now, in its own words; empty if it has not said. (ERR-11)"""


Wish = Submission | GraphSubmitted | CancelRequested | Cleared | ShutdownRequested | Left | Unneeded | Asked | Named
ProgramEvent = Wish | ObjectsLost | StorageRestarted | TakenOver | Sought | Numbered | Flush | Ticked
Event = ProgramEvent | SessionEvent


def submissions_of(event: ProgramEvent) -> tuple[Submission, ...]:
    """The tasks whose results will be wanted once the core has this event."""
    if isinstance(event, Submission):
        return (event,)
    return event.wanted if isinstance(event, GraphSubmitted) else ()


FLUSH = Flush()
TICKED = Ticked()
