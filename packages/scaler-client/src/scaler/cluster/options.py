"""From the combo's arguments to command lines. What has its default is not said: the commands know it themselves."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

Command = list[str]


@dataclass(frozen=True, slots=True)
class Options:
    n_workers: int
    address: str
    storage_address: str
    monitor_address: str
    capabilities: dict[str, int] = field(default_factory=dict)
    worker_io_threads: int = 1
    scheduler_io_threads: int = 1
    max_number_of_tasks_waiting: int = -1
    heartbeat_interval_seconds: float = 2
    client_timeout_seconds: float = 60
    worker_timeout_seconds: float = 60
    object_retention_seconds: float = 60
    task_timeout_seconds: float = 0
    death_timeout_seconds: float = 300
    load_balance_seconds: float = 1
    load_balance_trigger_times: int = 2
    garbage_collect_interval_seconds: float = 30
    trim_memory_threshold_bytes: int = 1024 * 1024 * 1024
    worker_task_queue_size: int = 1000
    hard_processor_suspend: bool = False
    protected: bool = True
    allocate_policy: str = "even"
    event_loop: str = "builtin"
    logging_paths: tuple[str, ...] = ("/dev/stdout",)
    logging_level: str = "INFO"
    logging_config_file: str | None = None


#: field -> option, for fields that become an option when they differ from their default
_SCHEDULER = {
    "scheduler_io_threads": "--io-threads",
    "max_number_of_tasks_waiting": "--max-number-of-tasks-waiting",
    "client_timeout_seconds": "--client-timeout-seconds",
    "worker_timeout_seconds": "--worker-timeout-seconds",
    "object_retention_seconds": "--object-retention-seconds",
    "load_balance_seconds": "--load-balance-seconds",
    "load_balance_trigger_times": "--load-balance-trigger-times",
    "allocate_policy": "--allocate-policy",
}
_WORKERS = {
    "worker_io_threads": "--io-threads",
    "heartbeat_interval_seconds": "--heartbeat-interval",
    "task_timeout_seconds": "--task-timeout-seconds",
    "death_timeout_seconds": "--death-timeout-seconds",
    "garbage_collect_interval_seconds": "--garbage-collect-interval-seconds",
    "trim_memory_threshold_bytes": "--trim-memory-threshold-bytes",
    "worker_task_queue_size": "--worker-task-queue-size",
}
_EVERYBODY = {
    "event_loop": "--event-loop",
    "logging_level": "--logging-level",
    "logging_config_file": "--logging-config-file",
}


def storage_command(options: Options) -> Command:
    return [*_python("scaler_storage"), options.storage_address, *_common(options)]


def scheduler_command(options: Options) -> Command:
    command = [*_python("scaler_scheduler"), options.address]
    command += ["--object-storage-address", options.storage_address, "--monitor-address", options.monitor_address]
    if options.protected:
        command += ["--protected", "True"]
    return [*command, *_changed(options, _SCHEDULER), *_common(options)]


def cluster_command(options: Options) -> Command:
    command = [*_python("scaler_worker"), options.address, "--num-of-workers", str(options.n_workers)]
    if options.capabilities:
        named = (name if amount == -1 else f"{name}={amount}" for name, amount in options.capabilities.items())
        command += ["--per-worker-capabilities", ",".join(named)]
    if options.hard_processor_suspend:
        command.append("--hard-processor-suspend")
    return [*command, *_changed(options, _WORKERS), *_common(options)]


def _python(module: str) -> Command:
    return [sys.executable, "-m", module]


def _changed(options: Options, names: dict[str, str]) -> Command:
    command: Command = []
    for name, option in names.items():
        value = getattr(options, name)
        if value != _defaults[name]:
            command += [option, str(value)]
    return command


def _common(options: Options) -> Command:
    command = _changed(options, _EVERYBODY)
    if options.logging_paths != _defaults["logging_paths"]:
        command += ["--logging-paths", *options.logging_paths]
    return command


_defaults = {
    name: getattr(Options(0, "", "", ""), name) for name in (*_SCHEDULER, *_WORKERS, *_EVERYBODY, "logging_paths")
}
