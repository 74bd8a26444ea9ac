"""What the cluster does, for monitors."""

from __future__ import annotations

from dataclasses import field

from scaler_protocol.ids import GraphId, ObjectId, PeerId, TaskId
from scaler_protocol.messages.common import NO_GRAPH, NO_OBJECT, NO_PEER, NO_TASK
from scaler_protocol.messages.objects import StorageStatus
from scaler_protocol.messages.session import Capability, Software
from scaler_protocol.messages.workers import WorkerStatus
from scaler_protocol.records import dataclass


@dataclass(frozen=True, slots=True)
class Watch:
    topics: tuple[str, ...] = ()
    wants_history: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    request_id: int


@dataclass(frozen=True, slots=True)
class DumpRequest:
    request_id: int
    part: int = 0


@dataclass(frozen=True, slots=True)
class DumpPart:
    request_id: int
    part: int = 0
    part_count: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Control:
    request_id: int
    action: int = 0
    subject: bytes = b""
    grace_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class ControlReply:
    request_id: int
    outcome: int = 0
    task_count: int = 0


@dataclass(frozen=True, slots=True)
class Count:
    name: str
    value: int


@dataclass(frozen=True, slots=True)
class ClientEntry:
    peer_id: PeerId
    software: Software = field(default_factory=Software)
    task_count: int = 0
    user: str = ""
    object_count: int = 0
    object_bytes: int = 0


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
    unit_id: str = ""
    manager_id: PeerId = NO_PEER
    user: str = ""
    still_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class FunctionName:
    function_id: ObjectId = NO_OBJECT
    name: str = ""


@dataclass(frozen=True, slots=True)
class NameFunctions:
    ids: bytes
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitingClass:
    capabilities: tuple[Capability, ...] = ()
    priority: int = 0
    depth: int = 0
    task_count: int = 0
    able_count: int = 0


@dataclass(frozen=True, slots=True)
class ManagerEntry:
    manager_id: PeerId = NO_PEER
    name: str = ""
    capabilities: tuple[Capability, ...] = ()
    workers_per_unit: int = 0
    target_count: int = 0
    max_workers: int = 0
    starting_count: int = 0
    running_count: int = 0
    stopping_count: int = 0
    trouble: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    number: int = 0
    age_seconds: float = 0.0
    kind: str = ""
    subject: str = ""
    text: str = ""
    task_count: int = 0


@dataclass(frozen=True, slots=True)
class FunctionEntry:
    function_id: ObjectId = NO_OBJECT
    name: str = ""
    user: str = ""
    submitted_count: int = 0
    dispatched_count: int = 0
    success_count: int = 0
    failed_count: int = 0
    canceled_count: int = 0
    worker_lost_count: int = 0
    refused_count: int = 0
    queued_seconds: float = 0.0
    dispatched_seconds: float = 0.0
    run_seconds: float = 0.0
    cpu_seconds: float = 0.0
    buckets: bytes = b""
    bucket_counts: bytes = b""


@dataclass(frozen=True, slots=True)
class UserEntry:
    user: str = ""
    task_count: int = 0
    task_bytes: int = 0
    object_bytes: int = 0


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
    interval_seconds: float = 0.0
    software: Software = field(default_factory=Software)
    scheduler_address: str = ""
    storage_address: str = ""
    is_storage_connected: bool = False
    storage: StorageStatus = field(default_factory=lambda: StorageStatus(0))
    function_names: tuple[FunctionName, ...] = ()
    waiting_classes: tuple[WaitingClass, ...] = ()
    managers: tuple[ManagerEntry, ...] = ()
    recalled_count: int = 0
    returned_count: int = 0
    watcher_count: int = 0
    left_out_count: int = 0
    standby_of: str = ""
    standbys: tuple[str, ...] = ()
    is_recovering: bool = False
    recovery_seconds: float = 0.0
    expected_count: int = 0
    presented_count: int = 0
    events: tuple[ClusterEvent, ...] = ()
    event_count: int = 0
    functions: tuple[FunctionEntry, ...] = ()
    repeat_counts: tuple[Count, ...] = ()
    queued_buckets: bytes = b""
    queued_bucket_counts: bytes = b""
    queued_seconds: float = 0.0
    users: tuple[UserEntry, ...] = ()
    user_task_limit: int = 0
    user_task_bytes_limit: int = 0


@dataclass(frozen=True, slots=True)
class SampleBlock:
    peer_id: PeerId
    name: str = ""
    age_seconds: float = 0.0
    ended_count: int = 0
    samples: bytes = b""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    task_id: TaskId = NO_TASK
    function_id: ObjectId = NO_OBJECT
    client_id: PeerId = NO_PEER
    user: str = ""
    worker: str = ""
    status: int = 0
    attempt: int = 0
    code: int = 0
    type_name: str = ""
    first_line: str = ""
    text: str = ""
    accounts: tuple[str, ...] = ()
    age_seconds: float = 0.0
    duration_seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    argument_bytes: int = 0
    graph_id: GraphId = NO_GRAPH
    parent_task: TaskId = NO_TASK
    key: str = ""
    submitted_seconds: float = 0.0
    ready_seconds: float = 0.0
    dispatched_seconds: float = 0.0
    result_bytes: int = 0
    is_result_stored: bool = False


@dataclass(frozen=True, slots=True)
class TaskSamples:
    sequence: int = 0
    server_id: PeerId = NO_PEER
    uptime_seconds: float = 0.0
    blocks: tuple[SampleBlock, ...] = ()
    function_names: tuple[FunctionName, ...] = ()
    failures: tuple[TaskFailure, ...] = ()
    failed_count: int = 0
    is_history: bool = False
    events: tuple[ClusterEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class StackBlock:
    peer_id: PeerId
    name: str = ""
    age_seconds: float = 0.0
    stack_samples: bytes = b""


@dataclass(frozen=True, slots=True)
class StackSamples:
    sequence: int = 0
    server_id: PeerId = NO_PEER
    uptime_seconds: float = 0.0
    blocks: tuple[StackBlock, ...] = ()
    function_names: tuple[FunctionName, ...] = ()
    is_hidden: bool = False
    sampled_count: int = 0
    able_count: int = 0
    worker_count: int = 0


@dataclass(frozen=True, slots=True)
class GraphShape:
    graph_id: GraphId = NO_GRAPH
    client_id: PeerId = NO_PEER
    task_count: int = 0
    unfinished_count: int = 0
    ids: bytes = b""
    states: bytes = b""
    functions: bytes = b""
    dependency_counts: bytes = b""
    dependencies: bytes = b""
    function_names: tuple[FunctionName, ...] = ()
    outcomes: bytes = b""
    failed_count: int = 0
    canceled_count: int = 0
    key_sizes: bytes = b""
    keys: bytes = b""


@dataclass(frozen=True, slots=True)
class GraphShapes:
    sequence: int = 0
    server_id: PeerId = NO_PEER
    graphs: tuple[GraphShape, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphRequest:
    request_id: int
    graph_id: GraphId = NO_GRAPH
    client_id: PeerId = NO_PEER
    first: int = 0
    wants_shape: bool = False


@dataclass(frozen=True, slots=True)
class GraphPart:
    request_id: int
    first: int = 0
    order: int = 0
    graph: GraphShape = field(default_factory=GraphShape)
    described_count: int = 0
