"""Every message of protocol version 1 as a plain frozen record.

The fields are those of `schema/v1/*.capnp`, in snake_case, and mean what the comments there say. The codec turns these
records into frames and back; nothing else in the project knows Cap'n Proto. Columns stay packed `bytes`
(`scaler_protocol.columns` cuts and joins them). `payload` is the bytes-like content of the one payload frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler_protocol.ids import GraphId, ObjectId, PeerId, TaskId

Buffer = bytes | bytearray | memoryview

NO_PEER = PeerId(b"")
NO_TASK = TaskId(b"")
NO_OBJECT = ObjectId(b"")
NO_GRAPH = GraphId(b"")


# ---------------------------------------------------------------- session


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


@dataclass(frozen=True, slots=True)
class Reject:
    code: int
    version_min: int
    version_max: int
    text: str


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


# ---------------------------------------------------------------- tasks


@dataclass(frozen=True, slots=True)
class TaskHeader:
    """Hashable: equal headers may share a queue and a batch."""

    client: PeerId = NO_PEER
    call_format: int = 0
    keywords: tuple[str, ...] = ()
    serializer: ObjectId = NO_OBJECT
    capabilities: tuple[Capability, ...] = ()
    priority: int = 0
    depth: int = 0
    parent_task: TaskId = NO_TASK
    flags: int = 0
    timeout_seconds: float = 0.0
    retries: int = 0
    graph_id: GraphId = NO_GRAPH


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """The columns that Submit and Dispatch share; only those two are ever on the wire."""

    header: TaskHeader
    functions: bytes
    ids: bytes
    payload: Buffer
    part_sizes: bytes
    function_indexes: bytes = b""
    part_counts: bytes = b""
    part_kinds: bytes = b""
    dependency_counts: bytes = b""
    dependencies: bytes = b""
    task_flags: bytes = b""
    attempts: bytes = b""
    is_graph_sealed: bool = True
    input_ids: bytes = b""
    input_kinds: bytes = b""
    input_sizes: bytes = b""


@dataclass(frozen=True, slots=True)
class Submit(TaskBatch):
    pass


@dataclass(frozen=True, slots=True)
class Dispatch(TaskBatch):
    pass


@dataclass(frozen=True, slots=True)
class Results:
    """ResultBatch on the wire."""

    ids: bytes
    payload: Buffer
    sizes: bytes
    attempts: bytes = b""
    statuses: bytes = b""
    kinds: bytes = b""
    profiles: bytes = b""
    credit: int = 0


@dataclass(frozen=True, slots=True)
class TaskError:
    """The value of a result that is not a success; travels inside the payload, not as a message of its own."""

    code: int
    type_name: str = ""
    message: str = ""
    text: str = ""
    serialized: bytes = b""
    exit_code: int = 0
    peak_memory_bytes: int = 0
    workers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cancel:
    ids: bytes = b""
    is_all: bool = False
    grace_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class CancelReply:
    ids: bytes
    outcomes: bytes = b""


@dataclass(frozen=True, slots=True)
class TaskLog:
    task_id: TaskId
    stream: int
    text: str
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Explain:
    request_id: int
    task_id: TaskId = NO_TASK


@dataclass(frozen=True, slots=True)
class Explanation:
    request_id: int
    task_id: TaskId = NO_TASK
    state: str = ""
    dependency_count: int = 0
    ahead_count: int = 0
    worker_count: int = 0
    able_count: int = 0
    worker: str = ""
    is_begun: bool = False
    running_seconds: float = 0.0
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Shutdown:
    grace_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class ShutdownReply:
    is_accepted: bool
    text: str = ""


# ---------------------------------------------------------------- workers


@dataclass(frozen=True, slots=True)
class Credit:
    limit: int
    nested_reserve: int = 0


@dataclass(frozen=True, slots=True)
class Recall:
    ids: bytes


@dataclass(frozen=True, slots=True)
class Returned:
    ids: bytes
    is_recall_answer: bool = True


@dataclass(frozen=True, slots=True)
class ProcessorStatus:
    process_id: int = 0
    state: int = 0
    cpu: float = 0.0
    rss_bytes: int = 0
    task_id: TaskId = NO_TASK
    running_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    agent_cpu: float = 0.0
    agent_rss_bytes: int = 0
    host_free_bytes: int = 0
    queued_count: int = 0
    blocked_count: int = 0
    processors: tuple[ProcessorStatus, ...] = ()


# ---------------------------------------------------------------- objects


@dataclass(frozen=True, slots=True)
class Put:
    request_id: int
    object_id: ObjectId
    owner: PeerId
    total_bytes: int
    offset: int
    payload: Buffer


@dataclass(frozen=True, slots=True)
class Get:
    request_id: int
    object_id: ObjectId
    offset: int = 0
    chunk_bytes: int = 0
    wait_seconds: float = 0.0
    accepts_shared: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    request_id: int
    total_bytes: int
    offset: int
    payload: Buffer


@dataclass(frozen=True, slots=True)
class Release:
    request_id: int
    owner: PeerId
    ids: bytes


@dataclass(frozen=True, slots=True)
class ReleaseOwner:
    request_id: int
    owner: PeerId


@dataclass(frozen=True, slots=True)
class Duplicate:
    request_id: int
    source: ObjectId
    target: ObjectId
    owner: PeerId
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ObjectReply:
    request_id: int
    code: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class PutShared:
    request_id: int
    object_id: ObjectId
    owner: PeerId
    total_bytes: int
    file: MemoryFile


@dataclass(frozen=True, slots=True)
class SharedValue:
    request_id: int
    total_bytes: int
    file: MemoryFile


@dataclass(frozen=True, slots=True)
class StorageStatusRequest:
    request_id: int


@dataclass(frozen=True, slots=True)
class StorageStatus:
    request_id: int
    object_count: int = 0
    owner_count: int = 0
    memory_bytes: int = 0
    waiter_count: int = 0


# ---------------------------------------------------------------- monitor


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


# ---------------------------------------------------------------- worker managers


@dataclass(frozen=True, slots=True)
class Unit:
    unit_id: str
    state: int = 0
    place: str = ""
    worker_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManagerStatus:
    target_number: int = 0
    max_workers: int = 0
    units: tuple[Unit, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ManagerTarget:
    number: int
    worker_count: int = 0
    stop: tuple[str, ...] = ()


Message = (
    Hello | Welcome | Reject | Bye | Ping | Pong | Acknowledge | Error
    | Submit | Dispatch | Results | Cancel | CancelReply | TaskLog | Shutdown | ShutdownReply | Explain | Explanation
    | Credit | Recall | Returned | WorkerStatus
    | Put | Get | Value | Release | ReleaseOwner | Duplicate | ObjectReply | StorageStatusRequest | StorageStatus
    | PutShared | SharedValue
    | SnapshotRequest | ClusterStatus
    | ManagerStatus | ManagerTarget
)  # fmt: skip
