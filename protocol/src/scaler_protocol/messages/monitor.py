"""What the cluster does, for those who watch."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler_protocol.ids import PeerId
from scaler_protocol.messages.common import NO_PEER
from scaler_protocol.messages.session import Capability, Software
from scaler_protocol.messages.workers import WorkerStatus


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    request_id: int


@dataclass(frozen=True, slots=True)
class Count:
    name: str
    value: int


@dataclass(frozen=True, slots=True)
class ClientEntry:
    peer_id: PeerId
    software: Software = field(default_factory=Software)
    task_count: int = 0


@dataclass(frozen=True, slots=True)
class WorkerEntry:
    peer_id: PeerId
    name: str = ""
    software: Software = field(default_factory=Software)
    capabilities: tuple[Capability, ...] = ()
    credit_limit: int = 0
    held_count: int = 0
    completed_count: int = 0
    lag_seconds: float = 0.0
    silent_seconds: float = 0.0
    status: WorkerStatus = field(default_factory=WorkerStatus)


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    request_id: int = 0
    sequence: int = 0
    server_id: PeerId = NO_PEER
    uptime_seconds: float = 0.0
    cpu: float = 0.0
    rss_bytes: int = 0
    host_free_bytes: int = 0
    object_count: int = 0
    task_counts: tuple[Count, ...] = ()
    sent_counts: tuple[Count, ...] = ()
    received_counts: tuple[Count, ...] = ()
    function_counts: tuple[Count, ...] = ()
    clients: tuple[ClientEntry, ...] = ()
    workers: tuple[WorkerEntry, ...] = ()
    rejected_count: int = 0
