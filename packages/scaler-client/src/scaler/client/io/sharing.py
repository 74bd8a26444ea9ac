"""Clients inside tasks: all that are unpickled in one process share one connection. (CLI-9)"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from scaler.client.io.connection import Connection

_lock = threading.Lock()
_connections: dict[tuple[int, str, bool], Connection] = {}


def shared(address: str, trusts_results: bool, user: object, opened: Callable[[], Connection]) -> Connection:
    """This process's connection to this scheduler; the first to ask opens it. Idle and without users it closes itself.

    `user` is the handle that shares it, until it is collected.
    """
    # A process id in the key: a forked child inherits the dict, but not the thread that serves the connection.
    key = (os.getpid(), address, trusts_results)
    with _lock:
        connection = _connections.get(key)
        if connection is None or not connection.share_with(user):
            connection = _connections[key] = opened()
            connection.share_with(user)
        return connection
