"""A number of workers as a process of this program."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from scaler.cluster.options import command_line, key_arguments
from scaler.cluster.process import CommandProcess


class Cluster(CommandProcess):
    """Every argument means what the option of the same name of `scaler_cluster` means. As many workers as names."""

    def __init__(
        self,
        address: object,
        storage_address: object | None = None,
        preload: str | None = None,
        worker_io_threads: int = 1,
        worker_names: Sequence[str] | str | None = None,
        per_worker_capabilities: Mapping[str, int] | str | None = None,
        per_worker_task_queue_size: int = 1000,
        heartbeat_interval_seconds: float = 2,
        task_timeout_seconds: float = 0,
        death_timeout_seconds: float = 300,
        garbage_collect_interval_seconds: float = 30,
        trim_memory_threshold_bytes: int = 1024 * 1024 * 1024,
        hard_processor_suspend: bool = False,
        event_loop: str = "builtin",
        logging_paths: Sequence[str] = ("/dev/stdout",),
        logging_config_file: str | None = None,
        logging_level: str = "INFO",
        object_retention_seconds: float = 3600,
        key_file: str | None = None,
        insecure: bool = False,
        present_seconds: float = 60,
        gpus: str | None = None,
        memory_per_processor: int | str | None = None,
        tasks_per_processor: int | None = None,
    ) -> None:
        self._address = str(address)
        self._worker_names = _names(worker_names)
        command = command_line(
            "scaler_worker",
            self._address,
            object_storage_address=storage_address,
            preload=preload,
            io_threads=worker_io_threads,
            num_of_workers=len(self._worker_names),
            worker_names=",".join(self._worker_names),
            per_worker_capabilities=per_worker_capabilities or "",
            worker_task_queue_size=per_worker_task_queue_size,
            heartbeat_interval=heartbeat_interval_seconds,
            task_timeout_seconds=task_timeout_seconds,
            death_timeout_seconds=death_timeout_seconds,
            garbage_collect_interval_seconds=garbage_collect_interval_seconds,
            trim_memory_threshold_bytes=trim_memory_threshold_bytes,
            hard_processor_suspend=hard_processor_suspend,
            memory_per_processor=memory_per_processor,
            tasks_per_processor=tasks_per_processor,
            object_retention_seconds=object_retention_seconds,
            present_seconds=present_seconds,
            gpus=gpus,
            event_loop=event_loop,
            logging_paths=logging_paths,
            logging_level=logging_level,
            logging_config_file=logging_config_file,
            **key_arguments(key_file, insecure),
        )
        super().__init__("workers", command)


def _names(names: Sequence[str] | str | None) -> tuple[str, ...]:
    if names is None:
        return tuple(str(index) for index in range(max((os.cpu_count() or 2) - 1, 1)))
    found = tuple(name.strip() for name in (names.split(",") if isinstance(names, str) else names))
    if not found or not all(found):
        raise ValueError("worker_names must name at least one worker, and none may be empty")
    return found
