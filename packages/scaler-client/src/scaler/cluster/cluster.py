"""A number of workers as a process of this program."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from scaler.cluster.options import command_line, key_arguments
from scaler.cluster.process import CommandProcess


class Cluster(CommandProcess):
    """Workers on this machine, as `scaler_cluster` starts them. They end with this program."""

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
        """Nothing runs before `start`.

        Args:
            address: of the scheduler, such as `tcp://127.0.0.1:2345`.
            storage_address: of the object storage as workers reach it. None: as the scheduler names it.
            preload: `MODULE:FUNCTION(ARGUMENTS)`, called in every new process before its first task.
            worker_io_threads: threads of each worker that move messages, from 1.
            worker_names: a list, or a text with commas; as many workers as names. None: one worker less than there are
                processors, named by numbers.
            per_worker_capabilities: what each worker offers, such as `{"gpu": 1}`; the amount -1 is any. None: nothing.
            per_worker_task_queue_size: the most tasks that a worker queues, from 1.
            heartbeat_interval_seconds: how often workers report their status, above 0.
            task_timeout_seconds: a task that runs for longer is stopped. 0: none, but by a timeout of its own.
            death_timeout_seconds: how long workers look for a lost scheduler before they end.
            garbage_collect_interval_seconds: how often a busy process collects garbage, above 0.
            trim_memory_threshold_bytes: a process with so much memory gives back what is free after that.
            hard_processor_suspend: True stops the whole process of a task while it waits for its children.
            event_loop: "builtin", or "uvloop" if it is installed.
            logging_paths: files for log lines.
            logging_config_file: a file for `logging.config.fileConfig`, in place of paths and level.
            logging_level: the least level that is logged: "DEBUG", "INFO", "WARNING", "ERROR" or "CRITICAL".
            object_retention_seconds: how long workers keep functions that no task uses.
            key_file: the cluster's key. None: searched for.
            insecure: True for a cluster with neither key nor encryption.
            present_seconds: if the scheduler is lost, workers keep their tasks for so long. 0: they stop them.
            gpus: devices to share out among the workers: "auto", or ids such as "0,1". None: no devices.
            memory_per_processor: bytes; a task whose process reaches them fails with MemoryLimitError. None: no limit.
            tasks_per_processor: replace a process after so many tasks, from 1. None: never.

        Raises:
            ValueError: an argument is out of its range.
        """
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
