"""What the host thread of a driver sleeps on: the descriptor of its socket, and one by which other threads wake it."""

from __future__ import annotations

import math
import select
import selectors
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from scaler_protocol.transport.dealer import DealerEndpoint

_new_poll: Callable[[], select.poll] | None = getattr(select, "poll", None)  # Windows has none
_WAKE_BYTES = 4096
_READ = selectors.EVENT_READ  # as POLLIN and EPOLLIN are


class _Descriptors(Protocol):
    """As `select.epoll`, which is the quickest way to lend and to take back: both are done for each lone call."""

    def register(self, descriptor: int, events: int, /) -> object: ...

    def unregister(self, descriptor: int, /) -> object: ...

    def poll(self, seconds: float | None, /) -> Sequence[tuple[int, int]]: ...

    def close(self) -> None: ...


class _Selected:
    """The same where there is none."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.register = self._selector.register
        self.unregister = self._selector.unregister
        self.close = self._selector.close

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        return [(key.fd, events) for key, events in self._selector.select(seconds)]


def _new_descriptors() -> _Descriptors:
    return select.epoll() if sys.platform == "linux" else _Selected()


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    receiver, sender = socket.socketpair()
    receiver.setblocking(False)
    sender.setblocking(False)
    return receiver, sender


class Watch:
    """Belongs to the host thread, which can lend the socket to another thread that waits for a lone answer. The answer
    then wakes the thread that needs it, and no second thread switch follows."""

    def __init__(self) -> None:
        self._receiver, self._sender = _socket_pair()
        self._descriptors: _Descriptors = _new_descriptors()
        self._descriptors.register(self._receiver.fileno(), _READ)
        self._is_woken = False
        #: endpoint and generation of the socket that is watched, and its descriptor
        self._watched: tuple[DealerEndpoint | None, int] = (None, 0)
        self._descriptor = -1
        #: the borrower of the socket and its thread, while it is lent
        self.borrower: tuple[object, int] | None = None
        #: when a borrower that has not come back counts as gone: it was interrupted more than once
        self.lent_until = 0.0
        #: by which the borrower is woken; made when the socket is lent for the first time
        self._nudges: tuple[socket.socket, socket.socket] | None = None

    def wake(self) -> None:
        """Safe in a destructor, in any thread."""
        if self._is_woken:
            return
        self._is_woken = True
        try:
            self._sender.send(b"!")
        except OSError:
            pass  # full: the host will wake; closed: there is no host to wake

    def wake_surely(self) -> None:
        self._is_woken = False
        self.wake()

    def sleep(self, seconds: float | None) -> None:
        """Without the driver's lock."""
        if self._receiver.fileno() in dict(self._descriptors.poll(seconds)):
            self._receiver.recv(_WAKE_BYTES)
        # Before the inbox is drained: what is posted from here on wakes us again.
        self._is_woken = False

    # ------------------------------------------------------------ the socket, with the driver's lock

    @property
    def is_lent(self) -> bool:
        return self.borrower is not None

    def follow(self, endpoint: DealerEndpoint) -> None:
        """There is another socket after each dial."""
        if self.is_following(endpoint) or self.borrower is not None:
            return
        self._forget_socket()
        self._descriptor = endpoint.fileno()
        self._descriptors.register(self._descriptor, _READ)
        self._watched = endpoint, endpoint.generation

    def is_following(self, endpoint: DealerEndpoint) -> bool:
        watched, generation = self._watched
        return watched is endpoint and generation == endpoint.generation

    def lend(self, endpoint: DealerEndpoint, borrower: tuple[object, int]) -> Callable[[float], object] | None:
        """A function that waits for the socket, at most for so many seconds; before each wait the borrower sets
        `lent_until`, and in the end it calls `take_back`. None: the socket cannot be lent."""
        if _new_poll is None or self.borrower is not None or not self.is_following(endpoint):
            return None
        if self._nudges is None:
            try:
                self._nudges = _socket_pair()
            except OSError:
                return None  # no descriptor is left: the host serves all
        receiver = self._nudges[0]
        nudge = receiver.fileno()
        poll = _new_poll()
        poll.register(self._descriptor, select.POLLIN)
        poll.register(nudge, select.POLLIN)
        self.borrower = borrower  # from here on an interrupted borrower finds out that it has something to give back
        self._forget_socket()

        def wait(seconds: float) -> None:
            for descriptor, _ in poll.poll(math.ceil(seconds * 1000)):
                if descriptor == nudge:
                    try:
                        receiver.recv(_WAKE_BYTES)
                    except OSError:
                        pass  # a borrower that was given up has read it, or the watch is closed

        return wait

    def nudge_borrower(self) -> None:
        """Another thread has read what came by the socket that is lent: its descriptor may never tell the borrower."""
        if self.borrower is not None and self._nudges is not None:
            try:
                self._nudges[1].send(b"!")
            except OSError:
                pass  # full: the borrower will wake

    def take_back(self, endpoint: DealerEndpoint) -> None:
        self.borrower = None
        self.follow(endpoint)

    def _forget_socket(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        self._watched = None, 0
        if descriptor >= 0:
            try:
                self._descriptors.unregister(descriptor)
            except OSError:
                pass  # it was closed since, and so is watched no longer

    def close(self) -> None:
        self._descriptors.close()
        for pair in ((self._receiver, self._sender), self._nudges or ()):
            for end in pair:
                end.close()
