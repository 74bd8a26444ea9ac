"""A server's side of the local lane: who is connected, beside the ZeroMQ socket of the same server (LAN).

Theory of operation. One epoll holds the ZeroMQ socket, the listener and every connection, and is the descriptor by
which the server's loop is woken. It is level-triggered: a turn takes one portion from each of some connections, the
kernel hands out the others next time. A turn ends early when it has taken `BUDGET_SECONDS`: the connections that it did
not come to are the first of the next one, so that no peer is left out however much the others send.
"""

from __future__ import annotations

import math
import select
import socket
import time
from collections.abc import Iterator
from itertools import islice

from scaler_protocol.ids import RoutingId, new_routing_id
from scaler_protocol.messages import Limits
from scaler_protocol.session import SessionServer
from scaler_protocol.session.channel import Frames
from scaler_protocol.transport import lane
from scaler_protocol.transport.agenda import Agenda
from scaler_protocol.transport.descriptors import reserve_begins_at
from scaler_protocol.transport.framing import Parts
from scaler_protocol.transport.zeromq import BUDGET_SECONDS

#: How long a connection may be without a session, and how many may be (LAN-8).
STRANGER_SECONDS = 10.0
MOST_STRANGERS = 1024

#: How often that is looked after, and how soon it is tried again when the process has no descriptor left.
_LOOK_SECONDS = 5.0
_PAUSE_SECONDS = 1.0

_READY_MOST = 64
_ACCEPTED_MOST = 64


class LaneServer:
    def __init__(self, listener: socket.socket, zeromq_descriptor: int, server: SessionServer, agenda: Agenda) -> None:
        self._listener = listener
        self._agenda = agenda
        self._zeromq_descriptor = zeromq_descriptor
        self._server = server
        self._limits: Limits = server.terms.limits
        self._epoll = select.epoll()
        self._epoll.register(zeromq_descriptor, select.EPOLLIN)
        self._epoll.register(listener, select.EPOLLIN)
        self.descriptor = self._epoll.fileno()
        self._by_routing: dict[RoutingId, lane.Connection] = {}
        #: the same ones
        self._by_descriptor: dict[int, RoutingId] = {}
        #: those without a session, as far as is known, and since when
        self._strangers: dict[RoutingId, float] = {}
        self._is_listening = True
        #: those to be flushed
        self._written: dict[RoutingId, lane.Connection] = {}
        self._closed: list[RoutingId] = []
        self._ready: dict[int, int] = {}
        #: when to look after strangers
        self.look_at = math.inf
        #: the last `messages` found the end of what was there
        self.is_drained = False

    def wait(self) -> bool:
        """Find out which connections have something, without waiting; whether the ZeroMQ socket has."""
        ready = dict(self._epoll.poll(0, _READY_MOST))
        if self._ready:  # left from the last turn
            ready = {descriptor: ready.get(descriptor, events) for descriptor, events in self._ready.items()} | ready
        self._ready = ready
        return self._zeromq_descriptor in ready

    def watch(self, descriptor: int) -> None:
        """Be readable when this one is."""
        self._epoll.register(descriptor, select.EPOLLIN)

    def is_ready(self, descriptor: int) -> bool:
        """As `wait` has found."""
        return descriptor in self._ready

    def close_of(self, routing_id: RoutingId) -> None:
        """End the connection of a session that has moved away; what is queued on it is dropped."""
        connection = self._by_routing.get(routing_id)
        if connection is not None:
            connection.close()
            self._forget(routing_id)

    def messages(self, now: float) -> Iterator[tuple[RoutingId, Parts]]:
        """A portion from each that has something, within a budget of time."""
        ready, self._ready = self._ready, {}
        self.is_drained = len(ready) < _READY_MOST
        ends_at = time.monotonic() + BUDGET_SECONDS if len(ready) > 1 else math.inf
        number = 0
        for descriptor, events in ready.items():
            if number and time.monotonic() > ends_at:
                self._ready = dict(islice(ready.items(), number, None))
                self.is_drained = False
                return
            number += 1
            routing_id = self._by_descriptor.get(descriptor)
            if routing_id is None:  # the ZeroMQ socket, the listener, or one that was closed in this turn
                if descriptor == self._listener.fileno():
                    self._accept(now)
                continue
            connection = self._by_routing[routing_id]
            if connection.is_stranger and self._server.carries(routing_id):
                connection.befriend(self._limits)
            if events & select.EPOLLOUT:
                connection.flush()
            for parts in connection.read():
                yield routing_id, parts
            if connection.has_more:
                self.is_drained = False
            if connection.is_closed:
                self._forget(routing_id)
                self._closed.append(routing_id)

    def queue(self, routing_id: RoutingId, frames: Frames) -> bool:
        """For the next `flush`. False: no connection has this routing id."""
        connection = self._by_routing.get(routing_id)
        if connection is None:
            return False
        connection.queue(frames)
        self._written[routing_id] = connection
        return True

    def flush(self) -> None:
        written, self._written = self._written, {}
        for connection in written.values():
            if not connection.is_blocked:
                connection.flush()

    @property
    def has_closed(self) -> bool:
        return bool(self._closed)

    def take_closed(self) -> list[RoutingId]:
        """Whose connection has ended since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def look(self, now: float) -> None:
        """Who says no Hello, or has stayed when his session was over, takes no more room than he may."""
        for routing_id, connection in list(self._by_routing.items()):
            if self._server.carries(routing_id):
                self._strangers.pop(routing_id, None)
                continue
            connection.estrange()
            if now - self._strangers.setdefault(routing_id, now) >= STRANGER_SECONDS:
                connection.close()
                self._forget(routing_id)
        if not self._is_listening:
            self._is_listening = True
            self._epoll.register(self._listener, select.EPOLLIN)
        self.look_at = math.inf
        if self._by_routing:
            self._look_by(now + _LOOK_SECONDS)

    def close(self) -> None:
        """What is queued for those who are slow to read gets a bounded time, all of them together."""
        self._listener.close()
        until = time.monotonic() + lane.LINGER_SECONDS
        for connection in self._by_routing.values():
            connection.close(until)
        self._epoll.close()

    def _accept(self, now: float) -> None:
        for _ in range(_ACCEPTED_MOST):
            try:
                accepted, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is left: the listener would wake us until there is one
                self._pause(now)
                return
            if accepted.fileno() >= reserve_begins_at():
                accepted.close()
                self._pause(now)
                return
            self._admit(accepted, now)

    def _pause(self, now: float) -> None:
        self._epoll.unregister(self._listener)
        self._is_listening = False
        self._look_by(now + _PAUSE_SECONDS)

    def _admit(self, accepted: socket.socket, now: float) -> None:
        if len(self._strangers) >= MOST_STRANGERS:
            self.look(now)  # most will have said Hello since
        if len(self._strangers) >= MOST_STRANGERS or not lane.is_of_this_user(accepted):
            accepted.close()
            return
        # It never leaves this process, so no peer can choose the same for a ZeroMQ socket.
        routing_id = new_routing_id()
        connection = lane.Connection(accepted, self._epoll, self._limits)
        connection.estrange()
        self._by_routing[routing_id] = connection
        self._by_descriptor[connection.descriptor] = routing_id
        self._strangers[routing_id] = now
        self._look_by(now + _LOOK_SECONDS)

    def _look_by(self, at: float) -> None:
        self.look_at = min(self.look_at, at)
        self._agenda.by(at)

    def _forget(self, routing_id: RoutingId) -> None:
        """At once when it is closed: the next one may have its descriptor."""
        connection = self._by_routing.pop(routing_id)
        del self._by_descriptor[connection.descriptor]
        self._strangers.pop(routing_id, None)
        self._written.pop(routing_id, None)
