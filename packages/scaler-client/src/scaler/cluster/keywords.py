"""The keywords of `SchedulerClusterCombo` and `Client`, for the functions that pass them on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from scaler.client.serializer.mixins import Serializer
    from scaler.client.submitting.code import CodeSource, Requirements


class ClientOptions(TypedDict, total=False):
    """All of `Client` but the address."""

    profiling: bool
    timeout_seconds: float
    heartbeat_interval_seconds: float
    serializer: Serializer | None
    stream_output: bool
    object_storage_address: str | None
    key_file: str | os.PathLike[str] | None
    insecure: bool
    trust_results: bool
    on_exit: Literal["cancel", "wait"]
    weight: float
    code: CodeSource | Iterable[CodeSource] | None
    requirements: Requirements | None


class ClusterOptions(TypedDict, total=False):
    """All of `SchedulerClusterCombo` but the number of workers."""

    address: str | None
    object_storage_address: str | None
    monitor_address: str | None
    per_worker_capabilities: dict[str, int] | None
    worker_io_threads: int
    scheduler_io_threads: int
    max_number_of_tasks_waiting: int
    lost_processors_limit: int
    heartbeat_interval_seconds: float
    client_timeout_seconds: float
    worker_timeout_seconds: float
    object_retention_seconds: float
    task_timeout_seconds: float
    death_timeout_seconds: float
    load_balance_seconds: float
    load_balance_trigger_times: int
    garbage_collect_interval_seconds: float
    trim_memory_threshold_bytes: int
    per_worker_task_queue_size: int
    hard_processor_suspend: bool
    protected: bool
    allocate_policy: Any
    event_loop: str
    logging_paths: Iterable[str]
    logging_level: str
    logging_config_file: str | None
    per_worker_queue_size: int | None
    storage_address: str | None
    scaler_policy: Any
    key_file: str | os.PathLike[str] | None
    insecure: bool
    memory_limit: int | None
    spill_directory: str | os.PathLike[str] | None
    disk_limit: int | None
    present_seconds: float
    ui: bool
    data_directory: str | os.PathLike[str] | None
    gpus: str | None
    memory_per_processor: int | str | None
    tasks_per_processor: int | None
