"""Clients inside tasks: all of one family that are unpickled in one process share one connection. (CLI-9)"""

from __future__ import annotations

import os
from collections.abc import Callable

from scaler.client.io.connection import Connection
from scaler_protocol import waits

_lock = waits.RLock()
_connections: dict[tuple[int, str, bool, bytes], Connection] = {}


def _renew_lock() -> None:
    """In a forked child: another thread may have held it while it connected."""
    global _lock
    _lock = waits.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_lock)


def shared(
    address: str, trusts_results: bool, family: bytes, user: object, opened: Callable[[], Connection]
) -> Connection:
    """This process's connection to this scheduler; the first to ask opens it. Idle and without users it closes itself.

    `user` is the handle that shares it, until it is collected.
    """
    # A process id in the key: a forked child inherits the dict, but not the thread that serves the connection. And the
    # family: a connection reads and stores in the name of the program in whose task it was opened. (OWN-16)
    key = (os.getpid(), address, trusts_results, family)
    with _lock:
        connection = _connections.get(key)
        if connection is None or not connection.share_with(user):
            connection = _connections[key] = opened()
            connection.share_with(user)
        return connection
