"""What a destructor does for tasks that no object of the program waits for any more: without a lock.

An interrupt that comes in a destructor ends it at that place, and so does one that comes in a `close` or in the
handling of another interrupt. What is left to do then is done by `Drops`, in the IO thread, after the object has died.
"""

from __future__ import annotations

import _thread
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from scaler.client.core.events import CancelRequested
from scaler_protocol.ids import TaskId


class Connection(Protocol):
    """The connection of the tasks."""

    @property
    def deferred(self) -> Any: ...

    @property
    def driver(self) -> Any: ...

    def cancel(self, ids: tuple[TaskId, ...]) -> None: ...


class _Watched(weakref.ref[object]):
    """Calls the `append` of a deque when its object dies, so no line of Python runs there."""

    __slots__ = ("then",)
    then: Callable[[], object]


class Drops:
    """What has to be done at the latest when objects of the program have died."""

    def __init__(self) -> None:
        self._dead: deque[weakref.ref[object]] = deque()
        #: all and only those that live, or are among the dead
        self._watched: dict[int, _Watched] = {}

    def after(self, owner: object, then: Callable[[], object]) -> None:
        """`then` must not refer to the owner, and is called soon after the owner has died: in the IO thread, where it
        must not wait. If the owner has done the same before, it must do nothing. In any thread; after an interrupt of
        this call the owner may not be watched."""
        watched = _Watched(owner, self._dead.append)
        watched.then = then
        self._watched[id(watched)] = watched

    def run(self) -> None:
        """In the IO thread, which is not interrupted."""
        while self._dead:
            watched = self._watched.pop(id(self._dead.popleft()))
            watched.then()


def cancel(connection: Connection, ids: tuple[TaskId, ...]) -> None:
    """As `Connection.cancel`."""
    if connection.deferred and any(task_id in connection.deferred for task_id in ids):
        run_apart(lambda: connection.cancel(ids))
    else:
        connection.driver.inbox.append(CancelRequested(ids))
        connection.driver.watch.wake()


def run_apart(job: Callable[[], object]) -> None:
    """In a thread of its own, because the job takes locks.

    Since Python 3.12 no thread begins any more at the interpreter's exit. Then the job is left out: the client has said
    goodbye, which ends its tasks and releases what is stored for it.
    """
    try:
        _thread.start_new_thread(job, ())
    except RuntimeError:
        pass
