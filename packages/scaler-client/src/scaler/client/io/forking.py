"""The connections of this process: they say goodbye when it ends, and are of no use in a child that it forks.

A forked child inherits every object and none of the threads that serve them. What was pending can only end in the
parent, so in the child it ends with an error that says so; a client connects anew when the child first uses it.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Protocol

from scaler.client.futures.waiting import program_exits


class Inherited(Protocol):
    lock: threading.Lock

    def close(self) -> None: ...

    def abandon(self) -> None: ...


class Connecting(Protocol):
    def _renew_locks(self) -> None:
        """The thread that has a lock of this object may not be in this process."""


LOCK_SECONDS = 1.0
"""A fork from a signal's handler may have interrupted the thread that holds the lock."""

_open: weakref.WeakSet[Inherited] = weakref.WeakSet()
_held: list[threading.Lock] = []
#: their locks are held for as long as a client connects
_connecting: weakref.WeakSet[Connecting] = weakref.WeakSet()


def note(connection: Inherited) -> None:
    _open.add(connection)


def note_locks(client: Connecting) -> None:
    _connecting.add(client)


def _close_all() -> None:
    """What is not said goodbye to waits for us for a whole lease."""
    program_exits.set()
    for connection in list(_open):
        connection.close()


def _hold_all() -> None:
    """No thread is in the middle of anything when the process forks."""
    _held.extend(connection.lock for connection in list(_open) if connection.lock.acquire(timeout=LOCK_SECONDS))


def _let_go() -> None:
    while _held:
        _held.pop().release()


def _abandon_all() -> None:
    _let_go()
    for client in list(_connecting):
        client._renew_locks()
    for connection in list(_open):
        connection.abandon()
    _open.clear()


atexit.register(_close_all)

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_hold_all, after_in_parent=_let_go, after_in_child=_abandon_all)
