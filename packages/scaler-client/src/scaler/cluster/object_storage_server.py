"""The object storage server as a process of this program."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from scaler.cluster.options import command_line, key_arguments
from scaler.cluster.process import CommandProcess
from scaler_protocol.process.ports import answers

START_SECONDS = 60.0


class ObjectStorageServerProcess(CommandProcess):
    def __init__(
        self,
        storage_address: object,
        logging_paths: Sequence[str] = ("/dev/stdout",),
        logging_level: str = "INFO",
        logging_config_file: str | None = None,
        event_loop: str = "builtin",
        key_file: str | None = None,
        insecure: bool = False,
        memory_limit: int | None = None,
        spill_directory: str | os.PathLike[str] | None = None,
        disk_limit: int | None = None,
        data_directory: str | os.PathLike[str] | None = None,
    ) -> None:
        self._storage_address = str(storage_address)
        command = command_line(
            "scaler_storage",
            self._storage_address,
            memory_limit=memory_limit,
            spill_directory=None if spill_directory is None else os.fspath(spill_directory),
            disk_limit=disk_limit,
            data_directory=None if data_directory is None else os.fspath(data_directory),
            event_loop=event_loop,
            logging_paths=logging_paths,
            logging_level=logging_level,
            logging_config_file=logging_config_file,
            **key_arguments(key_file, insecure),
        )
        super().__init__("object storage server", command)

    def wait_until_ready(self, timeout_seconds: float = START_SECONDS) -> None:
        """Until it listens. Raises ClusterStartError when it has ended instead, TimeoutError when it takes too long."""
        end_at = time.monotonic() + timeout_seconds
        while not answers(self._storage_address):
            self.check()
            if time.monotonic() > end_at:
                raise TimeoutError(f"no object storage server listens at {self._storage_address} yet")
            time.sleep(0.02)
