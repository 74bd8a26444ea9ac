"""How two peers meet, agree, stay in touch and part."""

from __future__ import annotations

from dataclasses import field

from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages.common import NO_PEER, NO_TASK
from scaler_protocol.records import dataclass


@dataclass(frozen=True, slots=True)
class Capability:
    name: str
    amount: int = -1


@dataclass(frozen=True, slots=True)
class Limits:
    inline_bytes: int = 64 * 1024
    payload_frame_bytes: int = 64 * 1024 * 1024
    batch_tasks: int = 65_536
    envelope_bytes: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Timers:
    heartbeat_seconds: float = 2.0
    lease_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Software:
    name: str = ""
    version: str = ""
    language: str = ""
    host: str = ""
    process_id: int = 0


@dataclass(frozen=True, slots=True)
class Resume:
    session_id: int = 0
    received_seq: int = 0


@dataclass(frozen=True, slots=True)
class WorkerOffer:
    name: str = ""
    capabilities: tuple[Capability, ...] = ()
    credit: int = 0
    nested_reserve: int = 0
    manager_id: PeerId = NO_PEER
    unit_id: str = ""
    code_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManagerOffer:
    manager_id: PeerId = NO_PEER
    name: str = ""
    capabilities: tuple[Capability, ...] = ()
    workers_per_unit: int = 1


@dataclass(frozen=True, slots=True)
class MemoryFile:
    process_id: int = 0
    descriptor: int = 0
    name: bytes = b""


@dataclass(frozen=True, slots=True)
class Hello:
    version_min: int
    version_max: int
    role: int
    peer_id: PeerId
    incarnation: int = 0
    features: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    timers: Timers = field(default_factory=Timers)
    software: Software = field(default_factory=Software)
    resume: Resume = field(default_factory=Resume)
    worker: WorkerOffer = field(default_factory=WorkerOffer)
    parent_task: TaskId = NO_TASK
    manager: ManagerOffer = field(default_factory=ManagerOffer)
    memory_file: MemoryFile = field(default_factory=MemoryFile)
    result_window_bytes: int = 0
    credential: bytes = b""
    generation: int = 0
    last_server_id: PeerId = NO_PEER
    former_name: bytes = b""
    serving_generation: int = 0
    share_weight: int = 100


@dataclass(frozen=True, slots=True)
class Welcome:
    version: int
    server_id: PeerId
    incarnation: int
    session_id: int
    resumed: bool = False
    received_seq: int = 0
    features: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    timers: Timers = field(default_factory=Timers)
    software: Software = field(default_factory=Software)
    storage_address: str = ""
    monitor_address: str = ""
    is_protected: bool = False
    object_retention_seconds: float = 0.0
    directory: MemoryFile = field(default_factory=MemoryFile)
    owner_grant: bytes = b""
    generation: int = 0
    is_standby: bool = False


@dataclass(frozen=True, slots=True)
class Reject:
    code: int
    version_min: int
    version_max: int
    text: str
    is_standby: bool = False
    retry_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Bye:
    code: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Ping:
    nonce: int = 0


@dataclass(frozen=True, slots=True)
class Pong:
    nonce: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledge:
    pass


@dataclass(frozen=True, slots=True)
class Error:
    code: int
    ref_seq: int = 0
    fatal: bool = False
    text: str = ""
    clause: str = ""
