"""What the scheduler's core asks its shell to do."""

from __future__ import annotations

from typing import NamedTuple

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import DumpRequest, Message, TaskLog
from scaler_protocol.records import dataclass


class Send(NamedTuple):
    """To a peer with a session. (A tuple: the one action of every task.)"""

    peer_id: PeerId
    message: Message


@dataclass(frozen=True, slots=True)
class SendToStorage:
    """Kept by the storage session until it is acknowledged; lost only with the storage itself."""

    message: Message


@dataclass(frozen=True, slots=True)
class Disconnect:
    """End this peer's session; its `Lost` comes as an event."""

    peer_id: PeerId
    code: int
    text: str


@dataclass(frozen=True, slots=True)
class SendStatus:
    """A watcher asked for a snapshot (MON-4). The shell completes it: it knows the process and the sockets."""

    peer_id: PeerId
    request_id: int


@dataclass(frozen=True, slots=True)
class GiveDump:
    """A watcher asked for a part of what the core remembers (MON-16). The shell keeps what is asked for in parts."""

    peer_id: PeerId
    request: DumpRequest


@dataclass(frozen=True, slots=True)
class PublishLog:
    """A task has printed something, and somebody watches such lines (MON-8)."""

    message: TaskLog


@dataclass(frozen=True, slots=True)
class Stop:
    """A client asked for the end of the cluster and was allowed to: say Bye to everybody and exit."""

    grace_seconds: float


Action = Send | SendToStorage | Disconnect | SendStatus | GiveDump | PublishLog | Stop
