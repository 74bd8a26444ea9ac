"""What only workers and the scheduler say to each other."""

from __future__ import annotations

from scaler_protocol.ids import TaskId
from scaler_protocol.messages.common import NO_TASK
from scaler_protocol.records import dataclass


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
    lag_seconds: float = 0.0
    ended_count: int = 0
    samples: bytes = b""
    recycled_count: int = 0
    limited_count: int = 0
    functions: bytes = b""
    function_buckets: bytes = b""
    stack_samples: bytes = b""
    host_memory_bytes: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class SampleTasks:
    sample_limit: int = 0


@dataclass(frozen=True, slots=True)
class SampleStacks:
    seconds: float = 0.0
    byte_limit: int = 0


@dataclass(frozen=True, slots=True)
class Holding:
    ids: bytes = b""
    attempts: bytes = b""
    states: bytes = b""
    clients: bytes = b""
    is_last: bool = True
    grants: bytes = b""
    grant_sizes: bytes = b""
    worker_count: int = 0


@dataclass(frozen=True, slots=True)
class Delivered:
    results_count: int = 0
    worker_count: int = 0
