"""A way to end another thread's wait for input: a pair of connected sockets, which can be polled on every system."""

from __future__ import annotations

import socket


class Wake:
    """Used under its owner's lock. However often it is set, one byte is on its way."""

    def __init__(self) -> None:
        self._in, self._out = socket.socketpair()
        self._in.setblocking(False)
        self._out.setblocking(False)
        self._is_set = False

    def fileno(self) -> int:
        return self._in.fileno()

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            self._out.send(b"w")

    def clear(self) -> None:
        if self._is_set:
            self._is_set = False
            self._in.recv(1)

    def close(self) -> None:
        self._in.close()
        self._out.close()
