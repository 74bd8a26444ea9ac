"""The connections of a server's ZeroMQ socket: those without a session are bounded, in number and in time (FRM-17).

Theory of operation. libzmq accepts by itself, answers the ZMTP handshake and pings of whatever connects, and offers no
way to close one connection. Three things together make one:

* its monitor tells the descriptor of each connection when it is accepted and when it is about to be closed;
* each message tells the descriptor that it came by (`SRCFD`), so a Hello shows which connection has a session;
* `shutdown` of a socket is seen by libzmq as the end of its peer: it closes the connection, in its own thread.

The hazard is the number. Between the monitor's notice and ours libzmq may have closed the descriptor, and another
connection or file of this process may have its number. So a connection is known by the identity of its socket, which
the kernel gives to no other one (`SO_COOKIE`), and a number is only ever looked at through a duplicate of our own
(`_spare`): `dup2` is atomic, so the socket whose identity is compared is the one that is shut down. The number may also
have become that of another kind of socket, such as a connection of the local lane or one that this process dials. So
only sockets whose local end is where the server listens are looked at at all, and no listener: libzmq aborts the
process when a listener is shut down.

Notices come later than what they tell of, and may come later than the Hello of the same connection. Each of them is
therefore compared with the identity behind its number at present, and says nothing of a connection that has a session.
"""

from __future__ import annotations

import math
import os
import select
import socket as unix
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import zmq

from scaler_protocol.addresses import Address
from scaler_protocol.ids import RoutingId
from scaler_protocol.session.handshake import HELLO_BYTES
from scaler_protocol.session.vanishing import LineFacts
from scaler_protocol.transport import sockets
from scaler_protocol.transport.agenda import Agenda
from scaler_protocol.transport.context import Socket, zmq_context
from scaler_protocol.transport.descriptors import descriptors_for, reserve_begins_at
from scaler_protocol.transport.tcp import (
    IS_COUNTED,
    ask_often,
    facts_of,
    host_of,
    received_bytes,
    reset,
    resident_bytes,
)
from scaler_protocol.transport.unread import Unread

#: How long a connection may be without a session, and how many may be. (FRM-17)
STRANGER_SECONDS = 10.0
MOST_STRANGERS = 1024
#: Of the descriptors of this process, at most.
_STRANGERS_SHARE = 1 / 4
#: How much may come by a connection without a session: a Hello and the handshake before it, with room, because it may
#: be counted before the Hello is read (LIM-20); or, when its session is over or has moved, what its peer sends until it
#: learns of that. (LIM-18)
STRANGER_BYTES = 4 * HELLO_BYTES
LEFT_BYTES = 4 * 1024 * 1024

_LOOK_SECONDS = 5.0
#: How often notices are read where nothing wakes us for them.
_BLIND_LOOK_SECONDS = 1.0
_BUDGET_SECONDS = 0.002
#: How often the bytes of connections without a session are counted, and for how long at once. In between libzmq may
#: receive some 10 MB.
_COUNT_SECONDS = 0.005
_COUNT_BUDGET_SECONDS = 0.001
#: libzmq hands over a message when its last frame is there, and keeps the others until then. So a peer of which nothing
#: whole has come is closed beyond the first number; of all such peers the one with most, beyond the second. The largest
#: message that libzmq lets through has 136 MiB in two frames, and some is on its way through the kernel. (SES-39)
MESSAGE_BYTES = 192 * 1024 * 1024
ALL_MESSAGES_BYTES = 512 * 1024 * 1024
#: Peers with no more than this do not count in the second: a message that keeps the limits (FRM-4, FRM-5) has 68 MiB,
#: and hundreds of peers may send large ones over a slow line at a time.
LEGAL_BYTES = 80 * 1024 * 1024
#: What all connections without a session may have sent; beyond it the one with most is closed. (LIM-18)
ALL_STRANGERS_BYTES = 32 * 1024 * 1024
#: How often so many peers are measured in turn; and how often the others, once this process has grown by the last
#: number.
_MEASURE_SECONDS = 0.25
_MEASURED_AT_ONCE = 64
_MEASURE_SOON_SECONDS = 0.01
_GROWN_BYTES = 32 * 1024 * 1024
#: libzmq gives connections their turn. When a server that has always more to read has looked so often, what was whole
#: has been read.
_ENOUGH_LOOKS = 8
_NOTICE = struct.Struct("=HI")
_SO_COOKIE = 57

Identity = tuple[object, ...]


def _shut_down(connection: unix.socket) -> None:
    connection.shutdown(unix.SHUT_RDWR)


class Stranger(NamedTuple):
    identity: Identity
    since: float
    most_bytes: int  #: of all that has ever come by it


class Begun(NamedTuple):
    """Of a peer: what had come when its last whole message was read, or later."""

    identity: Identity
    heard_at: float
    bytes: int
    look: int


def is_possible() -> bool:
    """Where sockets are descriptors of files."""
    return sys.platform != "win32"


class Connections:
    def __init__(self, carries: Callable[[RoutingId], bool], agenda: Agenda) -> None:
        self._carries = carries
        self._agenda = agenda
        self._notices: Socket | None = None
        #: readable when there are notices; edge-triggered. Each turn of a server compares it, and libzmq tells slowly
        self.descriptor = -1
        self._watched: Socket | None = None
        self._epoll: select.epoll | None = None
        self._is_blind = False  # nothing wakes us when there are notices
        self._null = os.open(os.devnull, os.O_RDONLY)
        self._spare = os.dup(self._null)
        #: ports and paths at which the server listens
        self._ends: set[object] = set()
        #: without a session, as far as is known, the oldest first
        self.strangers: dict[int, Stranger] = {}
        #: those of them whose bytes are yet to be counted in this round
        self._uncounted: list[int] = []
        #: which have said a Hello that was welcomed
        self._peers: dict[int, tuple[Identity, RoutingId]] = {}
        #: the same ones
        self._descriptors: dict[RoutingId, int] = {}
        #: the last `read` found the end of what was there
        self.is_drained = True
        self.look_at = math.inf
        #: when to count the bytes of strangers
        self.count_at = math.inf
        #: peers that send a message, may be
        self._begun: dict[int, Begun] = {}
        #: bytes of each since then that are more than a message may have
        self._unfinished: dict[int, int] = {}
        self._unmeasured: list[int] = []
        #: descriptors and what has come by them, measured before this turn has read
        self.measured: list[tuple[int, int]] = []
        self.measure_at = math.inf
        self._looks = 0
        self._looked_at = 0.0
        self._resident_bytes = math.inf
        self._is_growing = False
        self.unread = Unread(self._at_peer)
        self._strangers_bytes: dict[int, int] = {}

    def watch(self, socket: Socket) -> None:
        """Before it is bound, so that no connection is missed."""
        name = f"inproc://connections-{id(self)}"
        socket.monitor(name, zmq.EVENT_LISTENING | zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self._watched = socket
        self._notices = zmq_context().socket(zmq.PAIR)
        # No mark: at one, libzmq's thread would wait for us with all connections.
        self._notices.setsockopt(zmq.RCVHWM, 0)
        self._notices.setsockopt(zmq.LINGER, 0)
        self._notices.connect(name)
        # Its descriptor tells of the first notice only when it was found empty before.
        sockets.has_input(self._notices)
        self.descriptor = int(self._notices.fileno())

    def listens_at(self, address: Address) -> None:
        """Connections that were accepted there are looked at, and no others."""
        self._ends.add(address.path or address.port)

    def joined(self, descriptor: int) -> int:
        """One that is readable when this one is, or when there are notices."""
        if sys.platform != "linux":
            self._is_blind = True
            self._look_by(0.0)
            return descriptor
        self._epoll = select.epoll()
        self._epoll.register(descriptor, select.EPOLLIN)
        self._epoll.register(self.descriptor, select.EPOLLIN)
        return self._epoll.fileno()

    # ------------------------------------------------------------ connections that open and close

    def read(self, now: float) -> None:
        """What libzmq tells, within a budget of time."""
        notices = self._notices
        assert notices is not None
        ends_at = time.monotonic() + _BUDGET_SECONDS
        self.is_drained = False
        while sockets.has_input(notices):
            event, descriptor = _NOTICE.unpack(notices.recv(sockets.NOBLOCK))
            notices.recv(sockets.NOBLOCK)  # the address
            if event == zmq.EVENT_ACCEPTED:
                self._accepted(descriptor, now)
            elif event == zmq.EVENT_LISTENING:
                self.unread.door.add(descriptor)
            else:
                self._closed(descriptor)
            if time.monotonic() > ends_at:
                return
        self.is_drained = True

    def introduce(self, routing_id: RoutingId, descriptor: int, now: float) -> None:
        """What came by this descriptor belongs to a session. Not only a Hello may be the first to show that: beneath a
        DEALER a connection may be replaced by another one, with its routing id (FRM-10)."""
        if self._descriptors.get(routing_id) == descriptor:
            return
        identity = self._identity(descriptor)
        if identity is None:
            return
        self._release(routing_id, now)
        self._forget(descriptor)
        self._peers[descriptor] = identity, routing_id
        self._descriptors[routing_id] = descriptor
        self._look_by(now + _LOOK_SECONDS)
        if IS_COUNTED and self.measure_at == math.inf:
            self.measure_at = now + _MEASURE_SECONDS
            self._agenda.by(self.measure_at)

    def close_of(self, routing_id: RoutingId) -> None:
        """End the connection of a session that has moved away; what libzmq keeps for it is dropped."""
        descriptor = self._descriptors.get(routing_id)
        if descriptor is not None:
            identity = self._peers[descriptor][0]
            self._forget(descriptor)
            self._shut(descriptor, identity)

    def ask_often(self, routing_id: RoutingId) -> None:
        """The system is to ask each second whether the peer's is there."""
        with self._borrowed_of(routing_id) as line:
            if line is not None:
                ask_often(line)

    def facts_of(self, routing_id: RoutingId) -> LineFacts | None:
        """What the system knows of the connection. None: nothing."""
        with self._borrowed_of(routing_id) as line:
            return None if line is None else facts_of(line)

    def host_of(self, routing_id: RoutingId) -> str:
        """The address of the other end. Empty: this host, or not known."""
        with self._borrowed_of(routing_id) as line:
            return "" if line is None else host_of(line)

    def look(self, now: float) -> None:
        """A connection that sent no Hello, or has stayed when its session was over, takes no more room than it may."""
        for routing_id in [one for one in self._descriptors if not self._carries(one)]:
            self._release(routing_id, now)
        while self.strangers:
            descriptor, stranger = next(iter(self.strangers.items()))
            if now < stranger.since + STRANGER_SECONDS:
                break
            self._shut_stranger(descriptor)
        self._plan(now)

    def count(self, now: float) -> None:
        """A stranger that sends without end is closed, also one whose message never becomes whole. (LIM-18)"""
        ends_at = time.monotonic() + _COUNT_BUDGET_SECONDS
        if not self._uncounted:
            self._uncounted, self._strangers_bytes = list(self.strangers), {}
        while self._uncounted:
            descriptor = self._uncounted.pop()
            stranger = self.strangers.get(descriptor)
            if stranger is not None:
                self._strangers_bytes[descriptor] = received = received_bytes(descriptor)
                if received > stranger.most_bytes:
                    self._shut_stranger(descriptor, reset)
            if time.monotonic() > ends_at:
                break
        while sum(self._strangers_bytes.values()) > ALL_STRANGERS_BYTES:
            most = max(self._strangers_bytes, key=self._strangers_bytes.__getitem__)
            del self._strangers_bytes[most]
            if most in self.strangers:
                self._shut_stranger(most, reset)
        self.count_at = now + _COUNT_SECONDS if self.strangers else math.inf

    def measure(self, now: float) -> None:
        """How much has come by connections with a session; `judge` when this turn has read."""
        self._looked_at = now
        if not self._unmeasured:
            self._unmeasured = list(self._peers)
            resident = resident_bytes()
            self._is_growing = resident > self._resident_bytes + _GROWN_BYTES
            self._resident_bytes = resident
        unmeasured = self._unmeasured
        self.measured = [(descriptor, received_bytes(descriptor)) for descriptor in unmeasured[-_MEASURED_AT_ONCE:]]
        del unmeasured[-_MEASURED_AT_ONCE:]
        self._is_growing |= resident_bytes() > self._resident_bytes + _GROWN_BYTES
        self.measure_at = now + (
            _MEASURE_SOON_SECONDS if self.unread.is_behind or (unmeasured and self._is_growing) else _MEASURE_SECONDS
        )
        if not self._peers:
            self.measure_at = math.inf

    def judge(self, heard_at_of: Callable[[RoutingId], float], is_drained: bool) -> None:
        """A peer that sends a message without end is closed. (SES-39)"""
        self._looks += 1
        for descriptor, received in self.measured:
            peer = self._peers.get(descriptor)
            if peer is None:
                continue
            self.unread.weigh(descriptor, peer[1], received, self._looked_at)
            identity, heard_at = peer[0], heard_at_of(peer[1])
            begun = self._begun.get(descriptor)
            if begun is None or begun.identity != identity or begun.heard_at != heard_at:
                self._begun[descriptor] = Begun(identity, heard_at, received, self._looks)
                self._unfinished.pop(descriptor, None)
            elif is_drained or self._looks - begun.look >= _ENOUGH_LOOKS:
                if received - begun.bytes > LEGAL_BYTES:
                    self._unfinished[descriptor] = received - begun.bytes
                if received - begun.bytes > MESSAGE_BYTES:
                    self._shut_endless(descriptor)
        self.measured = []
        if sum(self._unfinished.values()) > ALL_MESSAGES_BYTES:
            self._shut_endless(max(self._unfinished, key=self._unfinished.__getitem__))

    def fall_behind(self, now: float, read_bytes: int) -> None:
        """Notes a turn that has left something to read: peers are measured at once, and often. (LIM-34)"""
        if not self.unread.is_behind and self._peers and IS_COUNTED:
            self.measure_at = now
            self._agenda.by(now)
        self.unread.fall_behind(now, read_bytes)

    def _at_peer(self, descriptor: int, act: Callable[[unix.socket], None]) -> None:
        if descriptor in self._peers:
            self._shut(descriptor, self._peers[descriptor][0], act)

    def _shut_endless(self, descriptor: int) -> None:
        identity = self._begun[descriptor].identity
        self._drop_measures(descriptor)
        self._shut(descriptor, identity, reset)

    def _drop_measures(self, descriptor: int) -> None:
        self._begun.pop(descriptor, None)
        self._unfinished.pop(descriptor, None)
        self.unread.forget(descriptor)

    def dismiss(self, routing_id: RoutingId, now: float) -> None:
        """Its session is over, or goes on by another connection."""
        if routing_id in self._descriptors and not self._carries(routing_id):
            self._release(routing_id, now)
            self._plan(now)

    def close(self) -> None:
        """Before the socket itself: it must not tell anything to what is gone."""
        self.unread.door.forget()
        if self._watched is not None and not self._watched.closed:
            self._watched.disable_monitor()
        if self._notices is not None:
            self._notices.close(0)
        if self._epoll is not None:
            self._epoll.close()
        os.close(self._spare)
        os.close(self._null)

    def _accepted(self, descriptor: int, now: float) -> None:
        identity = self._identity(descriptor)
        peer = self._peers.get(descriptor)
        if peer is not None and peer[0] == identity:
            return
        self._forget(descriptor)
        if identity is None:
            return
        if descriptor >= reserve_begins_at():
            self._shut(descriptor, identity)
            return
        self._add_stranger(descriptor, Stranger(identity, now, STRANGER_BYTES))
        if len(self.strangers) > min(MOST_STRANGERS, descriptors_for(_STRANGERS_SHARE)):
            self._shut_stranger(next(iter(self.strangers)))
        self._plan(now)

    def _closed(self, descriptor: int) -> None:
        """The notice comes before the descriptor is closed. If the connection that we know there is there still, it is
        either about to be closed, and is found out later, or a successor that has said its Hello already."""
        self.unread.closed()
        known = self._peers.get(descriptor) or self.strangers.get(descriptor)
        if known is not None and known[0] != self._identity(descriptor):
            self._forget(descriptor)

    def _release(self, routing_id: RoutingId, now: float) -> None:
        """Whatever this routing id had is a stranger from now on."""
        descriptor = self._descriptors.get(routing_id)
        if descriptor is not None:
            identity = self._peers[descriptor][0]
            self._forget(descriptor)
            self._add_stranger(descriptor, Stranger(identity, now, received_bytes(descriptor) + LEFT_BYTES))

    def _add_stranger(self, descriptor: int, stranger: Stranger) -> None:
        self.strangers[descriptor] = stranger
        if IS_COUNTED:
            self.count_at = min(self.count_at, stranger.since + _COUNT_SECONDS)
            self._agenda.by(self.count_at)

    def _forget(self, descriptor: int) -> None:
        self.strangers.pop(descriptor, None)
        peer = self._peers.pop(descriptor, None)
        if peer is not None:
            del self._descriptors[peer[1]]
            self._drop_measures(descriptor)

    def _plan(self, now: float) -> None:
        self.look_at = math.inf
        if self.strangers:
            self.look_at = next(iter(self.strangers.values())).since + STRANGER_SECONDS
        if self._peers:
            self.look_at = min(self.look_at, now + _LOOK_SECONDS)
        if self._is_blind:
            self.look_at = min(self.look_at, now + _BLIND_LOOK_SECONDS)
        self._agenda.by(self.look_at)

    def _look_by(self, at: float) -> None:
        self.look_at = min(self.look_at, at)
        self._agenda.by(at)

    # ------------------------------------------------------------ descriptors and what is behind them

    @contextmanager
    def _borrowed(self, descriptor: int) -> Iterator[unix.socket | None]:
        """The socket that has this number, by a number of our own. None: it is closed, or no socket."""
        borrowed = None
        try:
            os.dup2(descriptor, self._spare, inheritable=False)
            borrowed = unix.socket(fileno=self._spare)
        except OSError:
            pass
        try:
            yield borrowed
        finally:
            if borrowed is not None:
                borrowed.detach()
            os.dup2(self._null, self._spare, inheritable=False)

    @contextmanager
    def _borrowed_of(self, routing_id: RoutingId) -> Iterator[unix.socket | None]:
        """None: it is closed, or none of ours, such as a lane."""
        descriptor = self._descriptors.get(routing_id, -1)
        if descriptor < 0:
            yield None
            return
        with self._borrowed(descriptor) as borrowed:
            is_the_same = borrowed is not None and _identity_of(borrowed) == self._peers[descriptor][0]
            yield borrowed if is_the_same else None

    def _identity(self, descriptor: int) -> Identity | None:
        with self._borrowed(descriptor) as borrowed:
            if borrowed is None or _local_end(borrowed) not in self._ends or _is_listener(borrowed):
                return None
            return _identity_of(borrowed)

    def _shut_stranger(self, descriptor: int, end: Callable[[unix.socket], None] = _shut_down) -> None:
        self._shut(descriptor, self.strangers.pop(descriptor).identity, end)

    def _shut(self, descriptor: int, identity: Identity, end: Callable[[unix.socket], None] = _shut_down) -> None:
        with self._borrowed(descriptor) as borrowed:
            if borrowed is None or _identity_of(borrowed) != identity:
                return
            try:
                end(borrowed)
            except OSError:
                pass  # its peer was faster


def _local_end(socket: unix.socket) -> object:
    """A port, or a path as addresses write it."""
    try:
        name = socket.getsockname()
    except OSError:
        return None
    if isinstance(name, tuple):
        return name[1]
    return name if isinstance(name, str) else "@" + os.fsdecode(name[1:])  # an abstract name begins with a zero byte


def _is_listener(socket: unix.socket) -> bool:
    try:
        return socket.getsockopt(unix.SOL_SOCKET, unix.SO_ACCEPTCONN) != 0
    except OSError:
        return False  # this system does not tell


def _identity_of(socket: unix.socket) -> Identity:
    try:
        return (socket.getsockopt(unix.SOL_SOCKET, _SO_COOKIE, 8),)
    except OSError:  # not Linux: of the sockets that are open now, no other has the same two ends
        try:
            return os.fstat(socket.fileno()).st_ino, socket.getpeername()
        except OSError:
            return ()
