"""Tasks, their results, their end, and questions about them."""

from __future__ import annotations

from dataclasses import field

from scaler_protocol.ids import GraphId, ObjectId, PeerId, Salt, TaskId
from scaler_protocol.messages.common import NO_GRAPH, NO_OBJECT, NO_PEER, NO_SALT, NO_TASK, Buffer
from scaler_protocol.messages.monitor import TaskFailure
from scaler_protocol.messages.session import Capability
from scaler_protocol.records import dataclass


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
    code_tag: str = ""
    result_salt: Salt = NO_SALT
    lost_processors_limit: int = 0
    owner_grant: bytes = b""
    generation: int = 0
    code_set: ObjectId = NO_OBJECT


@dataclass(slots=True)
class TaskBatch:
    """The columns that Submit and Dispatch share; only those two are ever on the wire.

    Batches are never changed, and not frozen all the same: there is one for every lone call on each of its hops,
    and a frozen one takes more than twice the steps to make.
    """

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
    awaited_counts: bytes = b""
    awaited: bytes = b""
    key_sizes: bytes = b""
    keys: bytes = b""


@dataclass(slots=True)
class Submit(TaskBatch):
    pass


@dataclass(slots=True)
class Dispatch(TaskBatch):
    pass


@dataclass(slots=True)
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
class KeptResults:
    ids: bytes
    payload: Buffer
    sizes: bytes
    kinds: bytes = b""
    task_flags: bytes = b""
    graph_id: GraphId = NO_GRAPH


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
    memory_limit_bytes: int = 0


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
    task_source: bytes = b""
    task_number: int = 0


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
    capabilities: tuple[Capability, ...] = ()
    function_name: str = ""
    starting_count: int = 0
    code_tag: str = ""
    code_tags: tuple[str, ...] = ()
    unread_bytes: int = 0
    user: str = ""
    is_blocked: bool = False
    child_count: int = 0
    silent_seconds: float = 0.0
    recovery_seconds: float = 0.0
    has_code_set: bool = False
    lost_seconds: float = 0.0
    record: TaskFailure = field(default_factory=TaskFailure)
    children: bytes = b""
    child_states: bytes = b""
    trouble: str = ""
    still_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class StackRequest:
    request_id: int
    task_id: TaskId


@dataclass(frozen=True, slots=True)
class StackReply:
    request_id: int
    task_id: TaskId
    outcome: int = 0
    text: str = ""
    process: str = ""
    worker: str = ""
    state: str = ""
    is_blocked: bool = False
    running_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Shutdown:
    grace_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class ShutdownReply:
    is_accepted: bool
    text: str = ""
