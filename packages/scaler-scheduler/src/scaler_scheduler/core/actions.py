"""What the scheduler's core asks its shell to do."""

from __future__ import annotations

from typing import NamedTuple

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import (
    DumpRequest,
    Explain,
    GraphRequest,
    Message,
    SnapshotRequest,
    StackRequest,
    TaskLog,
    Watch,
)
from scaler_protocol.records import dataclass


class Send(NamedTuple):
    """To a peer with a session. (A tuple: the one action of every task.)"""

    peer_id: PeerId
    message: Message


class SendToStorage(NamedTuple):
    """Kept by the storage session until it is acknowledged; lost only with the storage itself."""

    message: Message


@dataclass(frozen=True, slots=True)
class Disconnect:
    """End this peer's session; its `Lost` comes as an event."""

    peer_id: PeerId
    code: int
    text: str


class Asked(NamedTuple):
    """A monitor wants something: to watch, or to be told (MON-3, MON-15, MON-16, MON-18). The shell answers when all
    has settled: it knows the process and the sockets, keeps dumps in parts, and bounds what watching may cost."""

    peer_id: PeerId
    seq: int
    message: Watch | SnapshotRequest | Explain | StackRequest | GraphRequest | DumpRequest


class MonitorLeft(NamedTuple):
    """In its order among what monitors want: what came before it means nothing any more."""

    peer_id: PeerId


@dataclass(frozen=True, slots=True)
class PublishLog:
    """A task has printed something, and a monitor watches the topic `logs` (MON-18)."""

    message: TaskLog


@dataclass(frozen=True, slots=True)
class Stop:
    """A client asked for the end of the cluster and was allowed to: say Bye to all peers and exit."""

    grace_seconds: float


Action = Send | SendToStorage | Disconnect | Asked | MonitorLeft | PublishLog | Stop
