"""What the code of a running task may know of it, and how it says that it waits for its children (WRK-6).

A processor sets the context; a client that is made inside a task looks here for whom it works and where the cluster is.
Outside of tasks there is no context. Nothing in here needs a worker: it imports on every platform.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.keys import Pass

if TYPE_CHECKING:
    from scaler_protocol.running.streaming import Outlet


class TaskContext(Protocol):
    @property
    def task_id(self) -> TaskId: ...

    @property
    def function(self) -> ObjectId | None:
        """What it runs: its submitter keeps that in storage while the task has not ended. None: it has."""

    @property
    def family(self) -> bytes:
        """Those for whom the client's objects may be read; empty where there are no keys. (STO-33)"""

    @property
    def code_set(self) -> ObjectId:
        """What it imports from; the tasks that it submits do so too. Empty: what its worker has installed. (CLI-25)"""

    @property
    def depth(self) -> int: ...

    @property
    def priority(self) -> int: ...

    @property
    def scheduler_address(self) -> str: ...

    @property
    def storage_address(self) -> str: ...

    @property
    def shown(self) -> Pass | None:
        """What this process shows to the scheduler and the storage; None in a cluster without keys."""

    @property
    def outlet(self) -> Outlet | None:
        """Where a task stores values while it runs; None: it has ended. (WRK-59)"""

    def block(self) -> None:
        """This task is about to wait for its children: lend its place to others. Calls nest; only the first counts."""

    def unblock(self) -> None:
        """The wait is over. The outermost call returns when the task has a place again."""


_current: TaskContext | None = None


def current() -> TaskContext | None:
    """The task this process is running, or None."""
    return _current


def set_current(context: TaskContext | None) -> None:
    global _current
    _current = context


_ends: list[Callable[[], None]] = []


def at_process_end(callback: Callable[[], None]) -> None:
    """Call it when this process ends in order, the last one first. A processor leaves without Python's own exit, which
    would wait for the threads of tasks."""
    if not _ends:
        atexit.register(end_process)
    _ends.append(callback)


def end_process() -> None:
    while _ends:
        try:
            _ends.pop()()
        except Exception:
            logging.getLogger("scaler.task").exception("what a task had registered for the end of its process failed")


if hasattr(os, "register_at_fork"):  # what the parent made is the parent's to end
    os.register_at_fork(after_in_child=_ends.clear)
