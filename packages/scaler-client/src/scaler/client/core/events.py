"""What goes into the core, besides the events of its session: what the program wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from scaler.client.core.records import Submission
from scaler_protocol.ids import GraphId, ObjectId, TaskId
from scaler_protocol.session import SessionEvent


class Submitted(NamedTuple):
    """Tasks to run. They wait for the next `Flush`."""

    submission: Submission


@dataclass(frozen=True, slots=True)
class GraphSubmitted:
    """A whole graph, nodes after all they depend on. Their headers carry its id."""

    graph_id: GraphId
    submissions: tuple[Submission, ...]
    #: argument objects that several nodes share: released when the graph has ended
    objects: tuple[ObjectId, ...] = ()


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


class Flush(NamedTuple):
    """Send what has piled up."""


class Ticked(NamedTuple):
    """It is `next_deadline()` or later."""


ProgramEvent = Submitted | GraphSubmitted | CancelRequested | Cleared | ShutdownRequested | Left | Flush | Ticked
Event = ProgramEvent | SessionEvent

FLUSH = Flush()
TICKED = Ticked()
