"""Forked children: how they end, what their exit codes say, and how their own children end after them.

Programs that a task has started may outlive the processor: the kernel ends processes of ours with their parent, and
not those. Two processes of a worker therefore adopt orphans. The zygote gets what a processor leaves, and the cluster
process what a zygote leaves. Both end what they have adopted, whatever its process group or session is.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from typing import NoReturn

from scaler_protocol.process import EXIT_BROKEN

logger = logging.getLogger("scaler.worker")

ORPHANS_SECONDS = 2.0
"""How long a process that ends waits for the adopted processes that it has killed."""

EXIT_DONE = 0
EXIT_GIVEN_UP = 1  # no scheduler, or one that will not have us: starting again would change nothing
# Anything else is EXIT_BROKEN, and worth another start.


def end_fork(error: BaseException | None = None) -> NoReturn:
    """Ends a child that a task has forked, and that has come back into our code: by returning, or with this error. As a
    program of its own it would end here, too."""
    code = 0
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        code = error.code or 0
    elif error is not None:
        code = 1
        if isinstance(error, SystemExit):
            print(error.code, file=sys.stderr)
        else:
            traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # the child has closed it, or there is none
    os._exit(code & 0xFF)


def in_child(run: Callable[[], int]) -> NoReturn:
    """Run to the exit code, and never return into the parent's stack, whatever happens."""
    code = EXIT_BROKEN
    try:
        code = run()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else EXIT_BROKEN
    except BaseException:
        logger.exception("process %d failed", os.getpid())
    finally:
        os._exit(code)


def children_of_this() -> list[int]:
    """Returns the children of this process, which has one thread; none where the kernel does not tell."""
    own = os.getpid()
    try:
        with open(f"/proc/self/task/{own}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def kill_children(spared: Collection[int]) -> set[int]:
    """Kills each child but these, and returns those that it has killed."""
    killed = set()
    for child in children_of_this():
        if child in spared:
            continue
        try:
            os.kill(child, signal.SIGKILL)
            killed.add(child)
        except OSError:
            pass  # of another user
    return killed


def exited_children() -> Iterator[tuple[int, int, int]]:
    """Yields the process id, the status and the peak memory in KiB of each child that has ended, and buries it."""
    while True:
        try:
            process_id, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not process_id:
            return
        yield process_id, status, usage.ru_maxrss


def end_children(wake_reader: socket.socket, spared: Collection[int] = ()) -> None:
    """Ends all children but these, and each process that becomes a child because its parent is ended. The socket is
    readable when a child has ended."""
    poller = select.poll()
    poller.register(wake_reader, select.POLLIN)
    give_up_at = time.monotonic() + ORPHANS_SECONDS
    while kill_children(spared) and (left := give_up_at - time.monotonic()) > 0:
        if poller.poll(left * 1000):
            wake_reader.recv(4096)
        for _ in exited_children():
            pass
