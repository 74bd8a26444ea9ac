"""What the code of a running task may know of it, and how it says that it waits for its children (WRK-6).

A processor sets the context; a client that is made inside a task looks here for whom it works and where the cluster is.
Outside of tasks there is no context. Nothing in here needs a worker: it imports on every platform.
"""

from __future__ import annotations

from typing import Protocol

from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.keys import Pass


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
