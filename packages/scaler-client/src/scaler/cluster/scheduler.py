"""The scheduler as a process of this program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.cluster.options import command_line, key_arguments
from scaler.cluster.process import CommandProcess


class SchedulerProcess(CommandProcess):
    """Every argument means what the option of the same name of `scaler_scheduler` means."""

    def __init__(
        self,
        address: object,
        storage_address: object | None = None,
        monitor_address: object | None = None,
        io_threads: int = 1,
        max_number_of_tasks_waiting: int = -1,
        lost_processors_limit: int = 3,
        client_timeout_seconds: float = 60,
        worker_timeout_seconds: float = 60,
        object_retention_seconds: float = 60,
        load_balance_seconds: float = 1,
        load_balance_trigger_times: int = 2,
        protected: bool = True,
        allocate_policy: Any = "even",
        event_loop: str = "builtin",
        logging_paths: Sequence[str] = ("/dev/stdout",),
        logging_config_file: str | None = None,
        logging_level: str = "INFO",
        object_storage_address: object | None = None,
        adapter_webhook_url: str | None = None,
        scaler_policy: Any = None,
        key_file: str | None = None,
        insecure: bool = False,
    ) -> None:
        """`allocate_policy` is a name or an AllocatePolicy; a `scaler_policy` takes its place (PolicyConfig)."""
        self._address = str(address)
        storage = storage_address if object_storage_address is None else object_storage_address
        self._storage_address = None if storage is None else str(storage)
        command = command_line(
            "scaler_scheduler",
            self._address,
            object_storage_address=self._storage_address,
            monitor_address=monitor_address,
            adapter_webhook_url=adapter_webhook_url,
            io_threads=io_threads,
            max_number_of_tasks_waiting=max_number_of_tasks_waiting,
            lost_processors_limit=lost_processors_limit,
            client_timeout_seconds=client_timeout_seconds,
            worker_timeout_seconds=worker_timeout_seconds,
            object_retention_seconds=object_retention_seconds,
            load_balance_seconds=load_balance_seconds,
            load_balance_trigger_times=load_balance_trigger_times,
            protected=protected,
            **_policy(allocate_policy, scaler_policy),
            event_loop=event_loop,
            logging_paths=logging_paths,
            logging_level=logging_level,
            logging_config_file=logging_config_file,
            **key_arguments(key_file, insecure),
        )
        super().__init__("scheduler", command)


def _policy(allocate_policy: Any, scaler_policy: Any) -> dict[str, str]:
    if scaler_policy is None:
        return {"allocate_policy": str(getattr(allocate_policy, "name", allocate_policy))}
    return {
        "policy_engine_type": scaler_policy.policy_engine_type,
        "policy_content": scaler_policy.policy_content,
    }
