"""The object storage that a scheduler starts when it was given none and none answers (DESIGN §5, Addresses)."""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import subprocess
import sys

from scaler_protocol.addresses import parse_address
from scaler_protocol.process import PARENT_VARIABLE, StartupError
from scaler_scheduler.config import Config

PROBE_SECONDS = 0.5
STOP_SECONDS = 5.0


def answers(address: str) -> bool:
    """Does anything listen there? Whether it is a storage is settled by its Welcome."""
    parsed = parse_address(address)
    if parsed.path:
        return os.path.exists(parsed.path)
    try:
        with socket.create_connection((parsed.host, parsed.port), timeout=PROBE_SECONDS):
            return True
    except OSError:
        return False


class StorageProcess:
    """A storage server of our own: it ends when we do, however we end."""

    def __init__(self, config: Config) -> None:
        address, log = config.storage_address, config.logging
        if importlib.util.find_spec("scaler_storage") is None:
            raise StartupError(
                f"no object storage answers at {address} and none can be started here: "
                "run `pip install scaler-storage`, or name a running one with --object-storage-address"
            )
        command = [sys.executable, "-m", "scaler_storage", address, "--event-loop", config.event_loop]
        command += ["--logging-level", log.level, "--logging-paths", *log.paths]
        if config.is_insecure:
            command.append("--insecure")
        if log.config_file:
            command += ["--logging-config-file", log.config_file]
        logging.info("Scheduler: start an object storage server at %s", address)
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env={**os.environ, PARENT_VARIABLE: str(os.getpid())}
        )

    def check(self) -> None:
        """Raises StartupError if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise StartupError(f"the object storage server that the scheduler started ended with exit code {code}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            logging.warning("the object storage server did not end within %g s: killing it", STOP_SECONDS)
            self._process.kill()
            self._process.wait()
