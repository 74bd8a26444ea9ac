"""The parts of a cluster, forked from one process that has imported what all of them need (decision 0011).

They are processes like any others: their exit codes come by way of the warm process, everything else goes to them
directly. When it dies they go on, and all that is lost is what their exit codes will be.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import IO

from scaler.cluster.process import CommandProcess
from scaler_protocol import waits

UNKNOWN_EXIT_CODE = 255
"""Of a part that has ended after the warm process had died, as `multiprocessing` has it with its fork server."""


def can_start_warm() -> bool:
    """Linux since 5.3: where a process that is not our child can be watched and sent a signal without mistaking it."""
    if not (sys.platform.startswith("linux") and hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


def start_warm(parts: Sequence[CommandProcess]) -> CommandProcess:
    """Start them all, and return the warm process, which ends when all of them have."""
    with ExitStack() as theirs:
        entries, processes = [], []
        for part in parts:
            link, their_link = socket.socketpair(type=socket.SOCK_SEQPACKET)
            errors, their_errors = os.pipe()
            theirs.callback(their_link.close)
            theirs.callback(os.close, their_errors)
            processes.append(ForkedProcess(link, os.fdopen(errors, "rb")))
            command, inherited = theirs.enter_context(part.handing())
            entry = (command[2], command[3:], their_errors, part.joins_streams, their_link.fileno(), inherited)
            entries.append(entry)
        start = [sys.executable, "-m", "scaler_protocol.process.warm", json.dumps(entries)]
        warm = CommandProcess("process that starts the cluster", start)
        warm.start([descriptor for _, _, errors, _, link, keys in entries for descriptor in (errors, link, *keys)])
    for part, process in zip(parts, processes, strict=True):
        part.watch(process)
    return warm


class ForkedProcess:
    """As `subprocess.Popen`, for a child of the warm process, which says in `scaler_protocol` what its link brings."""

    stdout: IO[bytes] | None = None

    def __init__(self, link: socket.socket, stderr: IO[bytes]) -> None:
        self.stderr: IO[bytes] | None = stderr
        self._link = link
        self._finalizers = [_close_with(self, link.close)]
        self._is_orphaned = False  #: the warm process has died: nothing more comes
        self._lock = waits.Lock()
        self._process_id = 0  #: until it has said who it is
        self._descriptor = -1  #: its pidfd
        self._exit_code: int | None = None

    @property
    def pid(self) -> int:
        """Zero until it runs."""
        self.poll()
        return self._process_id

    def poll(self) -> int | None:
        self._look(0.0)
        return self._exit_code

    def wait(self, timeout: float | None = None) -> int:
        end_at = None if timeout is None else time.monotonic() + timeout
        while (exit_code := self.poll()) is None:
            left = None if end_at is None else end_at - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(f"process {self._process_id}", timeout or 0.0)
            self._look(left)
        return exit_code

    def close(self) -> None:
        """Called when the process has ended, and no thread waits for it."""
        if self._exit_code is None:
            self._exit_code = UNKNOWN_EXIT_CODE
        self._link.close()
        for finalizer in self._finalizers:
            finalizer.detach()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def terminate(self) -> None:
        self._send("SIGTERM")

    def kill(self) -> None:
        self._send("SIGKILL")

    def _send(self, name: str) -> None:
        if self.poll() is None and self._process_id:
            try:
                signal.pidfd_send_signal(self._descriptor, signal.Signals[name])
            except ProcessLookupError:
                pass  # it has ended just now

    def _look(self, timeout: float | None) -> None:
        """Wait for news, and take in what there is."""
        while self._exit_code is None and self._has_news(timeout):
            timeout = 0.0
            with self._lock:
                if self._has_news(timeout):  # still: another thread may have been faster
                    self._take_in()

    def _has_news(self, timeout: float | None) -> bool:
        poller = select.poll()
        poller.register(self._descriptor if self._is_orphaned else self._link, select.POLLIN)
        return bool(poller.poll(None if timeout is None else timeout * 1000))

    def _take_in(self) -> None:
        if self._exit_code is not None:
            return  # the link has ended too
        if self._is_orphaned:
            self._exit_code = UNKNOWN_EXIT_CODE
            return
        try:
            text, descriptors, _, _ = socket.recv_fds(self._link, 64, 1)
        except ConnectionError:
            text, descriptors = b"", []
        if descriptors:
            self._process_id, (self._descriptor,) = int(text), descriptors
            os.set_inheritable(self._descriptor, False)  # a descriptor that is sent is
            self._finalizers.append(_close_with(self, os.close, self._descriptor))
        elif text:
            self._exit_code = int(text)
        elif self._process_id:
            self._is_orphaned = True
        else:
            self._exit_code = UNKNOWN_EXIT_CODE  # it was never forked


def _close_with(
    owner: ForkedProcess, close: Callable[..., object], *arguments: object
) -> weakref.finalize[..., ForkedProcess]:
    """When the owner is collected, and not when the program ends. `weakref.finalize` would do that in an exit hook of
    its own, which runs before the hook that shuts clusters down: that one still needs what was closed."""
    finalizer = weakref.finalize(owner, close, *arguments)
    finalizer.atexit = False
    return finalizer
