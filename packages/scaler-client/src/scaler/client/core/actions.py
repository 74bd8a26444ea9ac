"""What comes out of the core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from scaler.client.core.records import Collector, Outcomes
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import Message


@dataclass(frozen=True, slots=True)
class Send:
    message: Message


class Complete(NamedTuple):
    """Tell a collector how tasks of its ended. Each task is told exactly once."""

    collector: Collector
    outcomes: Outcomes


@dataclass(frozen=True, slots=True)
class Release:
    """Objects of ours in storage that nobody needs any more. (OWN-2)"""

    ids: tuple[ObjectId, ...]


@dataclass(frozen=True, slots=True)
class StoreAgain:
    """A successor's storage may lack these functions, and tasks that need them are about to be sent again. (CLI-8)"""

    functions: tuple[ObjectId, ...]


@dataclass(frozen=True, slots=True)
class Redial:
    """The session is over and nobody else will begin another."""


@dataclass(frozen=True, slots=True)
class Print:
    """Something that a task printed."""

    stream: int
    text: str


@dataclass(frozen=True, slots=True)
class AnswerShutdown:
    is_accepted: bool
    text: str


Action = Send | Complete | Release | StoreAgain | Redial | Print | AnswerShutdown
