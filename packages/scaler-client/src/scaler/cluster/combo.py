"""A whole cluster on this machine: storage, scheduler and workers as child processes, by their commands.

Nothing of them is imported, so `if __name__ == "__main__"` is not needed, and the children are what an operator would
have started by hand. They end with this process, however it ends.
"""

from __future__ import annotations

import atexit
import operator
import os
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from scaler.cluster.cluster import Cluster
from scaler.cluster.object_storage_server import ObjectStorageServerProcess
from scaler.cluster.process import CommandProcess, require
from scaler.cluster.readiness import wait_until_ready
from scaler.cluster.scheduler import SchedulerProcess
from scaler.cluster.warm import can_start_warm, start_warm
from scaler_protocol.addresses import default_monitor_address, default_storage_address, parse_address
from scaler_protocol.process.ports import free_ports

START_SECONDS = 60.0
"""How long a cluster may take to start: interpreters on a busy machine are slow."""


class SchedulerClusterCombo:
    """Storage, scheduler and `n_workers` workers. Without an address: on free ports of 127.0.0.1.

    Every argument means what the option of the same name of `scaler_scheduler` or `scaler_cluster` means.
    """

    def __init__(
        self,
        n_workers: int,
        address: str | None = None,
        object_storage_address: str | None = None,
        monitor_address: str | None = None,
        per_worker_capabilities: dict[str, int] | None = None,
        worker_io_threads: int = 1,
        scheduler_io_threads: int = 1,
        max_number_of_tasks_waiting: int = -1,
        heartbeat_interval_seconds: float = 2,
        client_timeout_seconds: float = 60,
        worker_timeout_seconds: float = 60,
        object_retention_seconds: float = 60,
        task_timeout_seconds: float = 0,
        death_timeout_seconds: float = 300,
        load_balance_seconds: float = 1,
        load_balance_trigger_times: int = 2,
        garbage_collect_interval_seconds: float = 30,
        trim_memory_threshold_bytes: int = 1024 * 1024 * 1024,
        per_worker_task_queue_size: int = 1000,
        hard_processor_suspend: bool = False,
        protected: bool = True,
        allocate_policy: Any = "even",
        event_loop: str = "builtin",
        logging_paths: Iterable[str] = ("/dev/stdout",),
        logging_level: str = "INFO",
        logging_config_file: str | None = None,
        per_worker_queue_size: int | None = None,
        storage_address: str | None = None,
        scaler_policy: Any = None,
    ) -> None:
        self._children: list[CommandProcess] = []
        self._warm: CommandProcess | None = None
        self._lock = threading.Lock()
        _check_count(n_workers)
        require("scaler_storage", "scaler_scheduler", *(["scaler_worker"] if n_workers else []))
        if address is not None:
            parse_address(address)
        self._address = address or _free_address()
        storage = object_storage_address or storage_address
        self._storage_address = storage or default_storage_address(self._address)
        self._n_workers = n_workers
        logging: dict[str, Any] = {
            "event_loop": event_loop,
            "logging_paths": (logging_paths,) if isinstance(logging_paths, str) else tuple(logging_paths),
            "logging_level": logging_level,
            "logging_config_file": logging_config_file,
        }
        self._storage = None if storage else ObjectStorageServerProcess(self._storage_address, **logging)
        self._scheduler = SchedulerProcess(
            address=self._address,
            storage_address=self._storage_address,
            monitor_address=monitor_address or default_monitor_address(self._address),
            io_threads=scheduler_io_threads,
            max_number_of_tasks_waiting=max_number_of_tasks_waiting,
            client_timeout_seconds=client_timeout_seconds,
            worker_timeout_seconds=worker_timeout_seconds,
            object_retention_seconds=object_retention_seconds,
            load_balance_seconds=load_balance_seconds,
            load_balance_trigger_times=load_balance_trigger_times,
            protected=protected,
            allocate_policy=allocate_policy,
            scaler_policy=scaler_policy,
            **logging,
        )
        self._cluster = None
        if n_workers:
            self._cluster = Cluster(
                address=self._address,
                worker_io_threads=worker_io_threads,
                worker_names=tuple(map(str, range(n_workers))),
                per_worker_capabilities=per_worker_capabilities,
                per_worker_task_queue_size=per_worker_queue_size or per_worker_task_queue_size,
                heartbeat_interval_seconds=heartbeat_interval_seconds,
                task_timeout_seconds=task_timeout_seconds,
                death_timeout_seconds=death_timeout_seconds,
                garbage_collect_interval_seconds=garbage_collect_interval_seconds,
                trim_memory_threshold_bytes=trim_memory_threshold_bytes,
                hard_processor_suspend=hard_processor_suspend,
                **logging,
            )
        _combos.add(self)
        try:
            self._start()
        except BaseException:
            if self._warm is not None:
                self._warm.kill()  # whom it has not started yet shall not come
            self.shutdown()
            raise

    def _start(self) -> None:
        parts: list[CommandProcess] = [
            one for one in (self._storage, self._scheduler, self._cluster) if one is not None
        ]
        if can_start_warm():
            self._warm = start_warm(parts)
            self._children = parts
        else:
            for part in parts:
                part.start()
                self._children.append(part)
        watched = parts if self._warm is None else [self._warm, *parts]
        wait_until_ready(self._address, self._n_workers, self._scheduler, watched, START_SECONDS)

    def get_address(self) -> str:
        """Where clients connect to, such as tcp://127.0.0.1:34567."""
        return self._address

    def shutdown(self) -> None:
        """Stop everything, workers first. Bounded; a second time it does nothing."""
        with self._lock:
            children, self._children = self._children, []
            warm, self._warm = self._warm, None
        # In this order nobody loses whom it depends on, and nobody has to warn about it.
        for child in reversed(children):
            child.end()
        if warm is not None:
            warm.end()

    def __enter__(self) -> SchedulerClusterCombo:
        return self

    def __exit__(self, *exception: object) -> None:
        self.shutdown()

    def __del__(self) -> None:
        if getattr(self, "_children", None):
            self.shutdown()

    def __repr__(self) -> str:
        return f"<SchedulerClusterCombo at {self._address}, {self._n_workers} workers>"


_combos: weakref.WeakSet[SchedulerClusterCombo] = weakref.WeakSet()
_process_id = os.getpid()


def _check_count(n_workers: int) -> None:
    try:
        count = operator.index(n_workers)
    except TypeError:
        raise TypeError(f"n_workers must be a whole number, got {n_workers!r}") from None
    if count < 0:
        raise ValueError(f"n_workers must not be negative, got {count}")


def _shut_down_all() -> None:
    # A forked child inherits this hook, and the cluster is not its own.
    if os.getpid() == _process_id:
        for combo in list(_combos):
            combo.shutdown()


atexit.register(_shut_down_all)


def _free_address() -> str:
    """With three free ports in a row: scheduler, storage, monitor."""
    return f"tcp://127.0.0.1:{free_ports(3)}"
