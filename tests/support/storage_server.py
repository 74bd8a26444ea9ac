"""A storage as its command runs it, for tests of the real thing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler_protocol.codes import ROLE_SCHEDULER
from scaler_protocol.keys import find_pass
from scaler_protocol.objects import ObjectClient

START_SECONDS = 20.0
END_SECONDS = 20.0


def until(is_so: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Look again and again, for something that only another process can bring about."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"still waiting for {what} after {seconds:g} s"
        threading.Event().wait(0.02)


def memory_files_of(process_id: int) -> list[int]:
    """The sizes of the memory files with values that a process has open: sealed ones, which its directory is not."""
    sizes = []
    for path in Path(f"/proc/{process_id}/fd").glob("*"):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(path).startswith("/memfd:scaler-"):
                with path.open("rb") as file:
                    if fcntl.fcntl(file, fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE:
                        sizes.append(os.stat(path).st_size)
    return [size for size in sizes if size]


@contextlib.contextmanager
def killed_at_the_end() -> Iterator[Callable[..., Server]]:
    """Starts storages; each is killed when the block is left."""
    servers: list[Server] = []

    def start(*arguments: Any, descriptors: int = 0) -> Server:
        servers.append(Server(*arguments, descriptors=descriptors))
        return servers[-1]

    yield start
    for server in servers:
        server.end(signal.SIGKILL)


def connected(server: Server) -> contextlib.closing[ObjectClient]:
    return contextlib.closing(
        ObjectClient(server.address, ROLE_SCHEDULER, "test", timeout_seconds=20.0, shown=find_pass(server.address))
    )


class Server:
    def __init__(self, port: int, *options: str, descriptors: int = 0) -> None:
        """`descriptors`: the most that it may ever have open."""
        self.address = f"tcp://127.0.0.1:{port}"
        command = [sys.executable, "-m", "scaler_storage", self.address, *options]
        limit = ["prlimit", f"--nofile={descriptors}:{descriptors}"] if descriptors else []
        self.process = subprocess.Popen(
            [*limit, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._listens = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._listens.wait(START_SECONDS):
            self.process.kill()
            pytest.fail(f"the server did not begin to listen within {START_SECONDS:g} s: {self.lines}")

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))
                if "listen to" in line:
                    self._listens.set()

    def held_bytes(self) -> int:
        """Its own memory, and that of the memory files it holds open."""
        return int(psutil.Process(self.process.pid).memory_info().rss) + sum(memory_files_of(self.process.pid))

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(END_SECONDS)
        self._reader.join(END_SECONDS)
        return code
