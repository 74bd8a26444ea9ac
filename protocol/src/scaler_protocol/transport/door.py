"""Lets a server's ZeroMQ socket accept no connections for a while: newcomers wait in the kernel's queue (LIM-34).

libzmq accepts whatever comes, and offers no way to stop. Its thread waits for listeners and connections in one epoll.
The kernel tells which epoll of this process has a descriptor, and with which data (`/proc/self/fdinfo`). So a listener
can stay in there with no event that is waited for. libzmq itself never changes the entry of a listener; it takes the
entry out when it stops listening. The number may become that of another connection then, so `forget` is called before.

Where there is no epoll, or the kernel does not tell, a door stays open.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import struct
import sys

_EPOLL_CTL_MOD = 3
_EPOLLIN = 1


class Door:
    def __init__(self) -> None:
        self.is_shut = False
        self._listeners: set[int] = set()
        #: epoll, listener, and the data of its entry; None: not looked up yet
        self._entries: list[tuple[int, int, int]] | None = None

    def add(self, listener: int) -> None:
        self.open()
        self._listeners.add(listener)
        self._entries = None

    def forget(self) -> None:
        """Opens it, before libzmq stops listening."""
        self.open()
        self._listeners.clear()
        self._entries = None

    def shut(self) -> None:
        if not self.is_shut:
            self.is_shut = True
            if self._entries is None:
                self._entries = _entries_of(self._listeners)
            self._wait_for(0)

    def open(self) -> None:
        if self.is_shut:
            self.is_shut = False
            self._wait_for(_EPOLLIN)

    def _wait_for(self, events: int) -> None:
        for epoll, listener, data in self._entries or ():
            _modify(epoll, listener, data, events)


def _entries_of(listeners: set[int]) -> list[tuple[int, int, int]]:
    """Epolls of this process, and the data with which they have these."""
    found: list[tuple[int, int, int]] = []
    if sys.platform != "linux":
        return found
    try:
        numbers = os.listdir("/proc/self/fdinfo")
    except OSError:  # no descriptor is left
        return found
    for number in numbers:
        try:
            if os.readlink(f"/proc/self/fd/{number}") != "anon_inode:[eventpoll]":
                continue
            with open(f"/proc/self/fdinfo/{number}", encoding="ascii") as entries:
                text = entries.read()
        except OSError:  # it is closed by now
            continue
        for listener, data in re.findall(r"^tfd:\s*(\d+)\s+events:\s*\w+\s+data:\s*([0-9a-f]+)", text, re.MULTILINE):
            if int(listener) in listeners:
                found.append((int(number), int(listener), int(data, 16)))
    return found


def _modify(epoll: int, listener: int, data: int, events: int) -> None:
    if sys.platform == "linux" and _is_listener(listener):
        packed = struct.pack("=IQ" if os.uname().machine == "x86_64" else "@IQ", events, data)
        ctypes.CDLL(None).epoll_ctl(epoll, _EPOLL_CTL_MOD, listener, packed)


def _is_listener(descriptor: int) -> bool:
    try:
        borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=descriptor)
    except OSError:
        return False
    try:
        return borrowed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) != 0
    except OSError:  # the number has become that of a file
        return False
    finally:
        borrowed.detach()
