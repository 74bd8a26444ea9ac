"""The local lane: a Unix stream socket between peers of one host and one user, beside ZeroMQ (LAN, decision 0010).

A server listens under an abstract name, which is its own address; so a dialer that is given the address knows the name.
Such names live as long as their socket, and belong to a network namespace as loopback does: a process that finds the
name is on the same host. Whether it belongs to the same user, both sides ask the kernel. The messages are those that
travel over ZeroMQ, without its threads: a message wakes the process it is for and no other.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from scaler_protocol.addresses import Address
from scaler_protocol.messages import Buffer, Limits
from scaler_protocol.session.channel import Frames
from scaler_protocol.transport.framing import Assembler, FramingError, Parts, header, largest_message

#: Set in a process, it neither offers the lane nor dials it: for tests of ZeroMQ, and to compare.
OFF_VARIABLE = "SCALER_NO_LANE"

#: How long what a closing connection has not sent is waited for: enough for a goodbye.
LINGER_SECONDS = 1.0

#: The most that a peer without a session may say in one message (LAN-9).
HELLO_BYTES = 65_536

_BACKLOG = 1024
_PORTION_BYTES = 65_536
_PORTION_BUFFERS = 512  # the kernel takes 1,024 at a time
_SEND_BUFFER_BYTES = 1 << 20

_CREDENTIALS = struct.Struct("3i")  # process, user, group
#: Who has no number here, such as the users of another container, appears under this one.
_NOBODY = 65_534

_logger = logging.getLogger("scaler.transport")


def listen(address: Address, has_keys: bool = False) -> socket.socket | None:
    """The listening socket beside this bound address, whose host is a number. None: there is no lane here."""
    if address.path or not is_offered():
        return None
    listener, name = _new_socket(), _name(address, has_keys)
    try:
        listener.bind(name)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            _logger.info("no local lane beside %s: %s. Peers of this host come over ZeroMQ", address, _taken_by(name))
        else:
            _logger.debug("no local lane beside %s: %s", address, error.strerror)
        return None
    return listener


def connect(address: Address, has_keys: bool = False) -> socket.socket | None:
    """To the server at this address, if it is on this host and of this user and has a lane. Does not wait."""
    if not is_offered():
        return None
    for bound in bound_addresses(address):
        connection = _new_socket()
        try:
            connection.connect(_name(bound, has_keys))
            if is_of_this_user(connection):
                return connection
        except OSError:
            pass  # no process listens, or more wait already than can be queued
        connection.close()
    return None


def bound_addresses(address: Address) -> Iterator[Address]:
    """To which a server on this host may be bound that is reached at `address`. A host name is none of them: where it
    leads is not known here."""
    try:
        number = ipaddress.ip_address("127.0.0.1" if address.host == "localhost" else address.host)
    except ValueError:
        return
    yield replace(address, host=number.compressed)
    if number.is_loopback:  # of other numbers, a server that listens on all of them may be meant or not
        if number.version == 4:
            yield replace(address, host="0.0.0.0")
        yield replace(address, host="::")


def is_offered() -> bool:
    return sys.platform == "linux" and not os.environ.get(OFF_VARIABLE)


def _name(address: Address, has_keys: bool) -> str:
    """A dialer with a key does not find the lane of a server without, nor the other way round. (FRM-15)"""
    return f"\0scaler/1/{address.host}:{address.port}{'/keys' if has_keys else ''}"


def _taken_by(name: str) -> str:
    """Of which user the process is that listens under this name."""
    with _new_socket() as connection:
        try:
            connection.connect(name)
            if is_of_this_user(connection):
                return "another process of this user listens under its name"
            return f"a process of user {user_of(connection)} listens under its name"
        except OSError:
            return "another process has taken its name"


if sys.platform == "linux":

    def _new_socket() -> socket.socket:
        new = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        new.setblocking(False)
        return new

    def user_of(connection: socket.socket) -> int:
        """The number of the user of the process at the other end, from the kernel."""
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(data)[1])

    def is_of_this_user(connection: socket.socket) -> bool:
        """The user id of the process at the other end, as the kernel knows it. (LAN-4)"""
        return user_of(connection) == os.geteuid() != _NOBODY


class Connection:
    """One connection of the lane, at either end. Single-threaded and non-blocking; watched by the epoll it is given,
    for output only while something is queued."""

    __slots__ = (
        "_assembler",
        "_epoll",
        "_is_deaf",
        "_queue",
        "_socket",
        "descriptor",
        "had_session",
        "has_more",
        "is_blocked",
        "is_closed",
        "is_stranger",
    )

    def __init__(self, connection: socket.socket, epoll: select.epoll, limits: Limits) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self._socket = connection
        self._epoll = epoll
        self._assembler = Assembler(limits)
        self._queue: deque[Buffer] = deque()
        self._is_deaf = False  # the other side takes nothing any more, but may have said something before
        #: there is no room to send what is queued
        self.is_blocked = False
        self.descriptor = connection.fileno()
        #: the last portion was a full one
        self.has_more = False
        #: the other side is gone, or has said what is no message; closed here as well
        self.is_closed = False
        #: of a server's connections: there is no session, so there is room for one Hello and nothing larger (LAN-9)
        self.is_stranger = False
        #: of a server's connections: there was a session on it at some time
        self.had_session = False
        epoll.register(self.descriptor, select.EPOLLIN)

    def estrange(self) -> None:
        self.is_stranger = True
        self._assembler.message_limit = HELLO_BYTES

    def befriend(self, limits: Limits) -> None:
        self.is_stranger = False
        self.had_session = True
        self._assembler.message_limit = largest_message(limits)

    def read(self) -> list[Parts]:
        """The messages of one portion of what is there."""
        self.has_more = False
        if self.is_closed:
            return []
        space = self._assembler.space
        try:
            if space is None:
                data = self._socket.recv(_PORTION_BYTES)
                count, most = len(data), _PORTION_BYTES
            else:
                count, most = self._socket.recv_into(space), len(space)
        except BlockingIOError:
            return []
        except OSError:
            count = 0
        if count == 0:
            self._close()
            return []
        self.has_more = count == most
        try:
            return self._assembler.feed(data) if space is None else self._assembler.filled(count)
        except FramingError as error:
            # When a session has moved to another connection, its messages may still be in this one: that is no fault.
            level = logging.DEBUG if self.is_stranger and self.had_session else logging.WARNING
            _logger.log(level, "a connection of the local lane was closed: it sent %s, which cannot be (LAN-7)", error)
            self._close()
            return []

    def queue(self, frames: Frames) -> None:
        """For the next `flush`. What cannot leave is lost here, and sent again by the session."""
        if self._is_deaf:
            return
        self._queue += (header(frames), *frames)

    def flush(self) -> None:
        """Send as much as there is room for. The rest follows when there is more: `flush` is then called again."""
        while self._queue and self._send():
            pass
        if self.is_blocked != bool(self._queue):
            self.is_blocked = not self.is_blocked
            self._epoll.modify(self.descriptor, select.EPOLLIN | select.EPOLLOUT if self.is_blocked else select.EPOLLIN)

    def close(self, until: float = 0.0) -> None:
        """What is queued gets until then."""
        while self._queue and (seconds := until - time.monotonic()) > 0:
            self._socket.settimeout(seconds)
            self._send()
        self._close()

    def _send(self) -> bool:
        """One portion of the queue. False: there is no room, or no reader."""
        queue = self._queue
        portion = queue if len(queue) <= _PORTION_BUFFERS else list(islice(queue, _PORTION_BUFFERS))
        try:
            sent = self._socket.sendmsg(portion)
        except BlockingIOError:
            return False
        except OSError:
            self._shut()  # which wakes us to read the rest
            return False
        if portion is queue and sent == sum(map(len, queue)):
            queue.clear()
            return True
        while queue and sent >= len(queue[0]):
            sent -= len(queue.popleft())
        if sent:
            queue[0] = memoryview(queue[0])[sent:]
        return True

    def _shut(self) -> None:
        """Also for a forked child that has the descriptor too: for the other side this is the end."""
        self._is_deaf = True
        self._queue.clear()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            assert error.errno == errno.ENOTCONN, error

    def _close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.is_blocked = False
            self._epoll.unregister(self.descriptor)
            self._shut()
            self._socket.close()
