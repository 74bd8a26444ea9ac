"""Connections of a ZeroMQ socket without a session: bounded in number and time, and never mistaken (FRM-17, LIM-18)."""

from __future__ import annotations

import math
import os
import select
import socket
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.endpoints import Bench
from tests.support.raw_connections import GREETING, READY, Silent, through

from scaler_protocol.addresses import Address
from scaler_protocol.ids import RoutingId
from scaler_protocol.messages import Cancel
from scaler_protocol.session import Opened
from scaler_protocol.transport import DealerEndpoint, RouterEndpoint, connections, tcp
from scaler_protocol.transport.agenda import Agenda
from scaler_protocol.transport.connections import Connections
from scaler_protocol.transport.lane import OFF_VARIABLE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there, sockets are no descriptors")


@pytest.fixture
def way() -> str:
    return "zeromq"


@pytest.mark.parametrize("said", [b"", GREETING, GREETING + READY], ids=["nothing", "a greeting", "all but a Hello"])
def test_a_connection_without_a_hello_is_closed(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STRANGER_SECONDS", 0.3)
    silent = [Silent(server.address, said) for _ in range(20)]
    for one in silent:
        bench.until(one.is_closed, "the end of the connection")
    bench.ask(bystander, 1)
    assert bystander.generation == 1 and "Lost" not in bench.kinds(server)


def test_a_connection_is_closed_when_its_session_has_been_over_for_long(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint
) -> None:
    other = bench.dialer(server.address)
    bench.open(other)
    held = server._connections
    assert len(held._peers) == 2 and not held.strangers
    opened = [one for one in bench.events[server] if isinstance(one, Opened)][-1]
    server.disconnect(opened.peer_id)
    now = time.monotonic()
    held.look(now)
    assert len(held.strangers) == 1
    held.look(now + connections.STRANGER_SECONDS)
    bench.until(lambda: len(held._peers) == 1 and not held.strangers, "the end of the connection")
    bench.ask(bystander, 1)


@pytest.mark.parametrize("is_abstract", [False, True])
def test_connections_of_a_path_are_bounded_too(bench: Bench, tmp_path: Path, is_abstract: bool) -> None:
    if is_abstract and sys.platform != "linux":
        pytest.skip("abstract names are Linux only")
    server = bench.server(f"ipc://@{tmp_path.name}-{os.getpid()}" if is_abstract else f"ipc://{tmp_path / 'path'}")
    dialer = bench.dialer(server.address)
    bench.open(dialer)
    held = server._connections
    assert len(held._peers) == 1
    path = server.address.removeprefix("ipc://")
    with socket.socket(socket.AF_UNIX) as one:
        one.connect("\0" + path[1:] if is_abstract else path)
        bench.until(lambda: len(held.strangers) == 1, "the connection to be known")
        held.look(time.monotonic() + connections.STRANGER_SECONDS)
        one.setblocking(True)
        one.settimeout(5.0)
        while one.recv(4096):
            pass
    bench.ask(dialer, 1)


def test_the_oldest_of_a_crowd_make_room(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a newcomer has as long for its Hello as a flood of others leaves it."""
    monkeypatch.setattr(connections, "MOST_STRANGERS", 3)
    held = server._connections
    crowd = []
    for _ in range(8):
        before = set(map(id, held.strangers.values()))
        crowd.append(Silent(server.address, GREETING))
        bench.until(lambda: not set(map(id, held.strangers.values())) <= before, "the notice")  # noqa: B023
    for one in crowd[:5]:
        bench.until(one.is_closed, "the end of the oldest")
    assert not any(one.is_closed() for one in crowd[5:])
    late = bench.dialer(server.address)
    bench.open(late)
    bench.ask(late, 1)
    bench.ask(bystander, 2)
    for one in crowd:
        one.close()


def test_the_last_descriptors_are_for_no_connection(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "reserve_begins_at", lambda: 0)
    one = Silent(server.address, GREETING)
    bench.until(one.is_closed, "the end of a connection too many")
    bench.ask(bystander, 1)
    assert bystander.generation == 1


def test_a_session_that_moves_leaves_nothing_behind(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint
) -> None:
    (routing_id,) = server._connections._descriptors
    server._connections.close_of(routing_id)
    bench.until(lambda: len(server._connections.strangers) == 1, "another connection beneath the same socket")
    bench.ask(bystander, 1)
    assert "Lost" not in bench.kinds(bystander) and not server._connections.strangers


@pytest.mark.parametrize("is_lane_off", ["", "1"])
def test_a_server_that_does_nothing_is_woken_by_a_connection(
    bench: Bench, is_lane_off: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a crowd could take all descriptors before anything else wakes it."""
    monkeypatch.setenv(OFF_VARIABLE, is_lane_off)
    server = bench.server()
    connections = server._connections

    def has_rested(strangers: int) -> bool:
        """While notices are unread, no descriptor tells of further ones: the server has more to do at once."""
        return len(connections.strangers) == strangers and connections.is_drained

    bench.turn()
    for _ in range(3):
        one = Silent(server.address, b"")
        assert select.select([server.fileno()], [], [], 5.0)[0], "the notice wakes it"
        bench.until(lambda: has_rested(1), "the connection to be known")
        one.close()
        assert select.select([server.fileno()], [], [], 5.0)[0]
        bench.until(lambda: has_rested(0), "its end")


# ---------------------------------------------------------------- bytes without a session (LIM-18)

counted = pytest.mark.skipif(not tcp.IS_COUNTED, reason="Linux counts what has come by a connection")
#: A frame of 100 MiB: a step of a handshake; a message; a part of a message, with another one behind it.
ENDLESS = [GREETING + b"\x06", GREETING + READY + b"\x02", GREETING + READY + b"\x03"]


@counted
@pytest.mark.parametrize("begun", ENDLESS, ids=["step", "message", "part"])
def test_a_stranger_that_sends_without_end_is_closed(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, begun: bytes
) -> None:
    """libzmq keeps what is not whole, and says nothing of it."""
    stranger = Silent(server.address, begun + (100 << 20).to_bytes(8, "big"))
    sent = 0

    def is_closed() -> bool:
        nonlocal sent
        try:
            sent += stranger.send(bytes(1 << 16))
        except BlockingIOError:
            pass
        except OSError:
            return True
        return stranger.is_closed()

    bench.until(is_closed, "the end of the connection")
    stranger.close()
    assert sent < 100 << 20
    bench.ask(bystander, 1)
    assert bystander.generation == 1 and "Lost" not in bench.kinds(server)


@counted
def test_a_peer_with_a_session_sends_as_much_as_it_likes(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint
) -> None:
    large = [bytes([number]) * connections.STRANGER_BYTES for number in range(1, 30)]
    for ids in large:
        bystander.send(Cancel(ids))
    bench.until(lambda: bench.replies(bystander) == large, "the answers")
    assert bystander.generation == 1 and "Lost" not in bench.kinds(server)


@counted
def test_what_comes_after_the_end_of_a_session_is_bounded() -> None:
    carried = {RoutingId(b"one")}
    held = Connections(lambda routing_id: routing_id in carried, Agenda())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held.listens_at(Address(*listener.getsockname()))
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    with ours, theirs:
        held.introduce(RoutingId(b"one"), ours.fileno(), 0.0)
        through(theirs, ours, 2 * connections.LEFT_BYTES)
        held.dismiss(RoutingId(b"one"), 0.0)
        assert not held.strangers, "its session lives"
        carried.clear()
        held.dismiss(RoutingId(b"one"), 0.0)
        assert held.count_at < 0.1, "it is looked at soon"
        through(theirs, ours, connections.LEFT_BYTES)
        held.count(held.count_at)
        assert list(held.strangers) == [ours.fileno()], "its peer may not have noticed yet"
        through(theirs, ours, 1)
        held.count(held.count_at)
        assert not held.strangers and held.count_at == math.inf
        with pytest.raises(ConnectionResetError):
            theirs.recv(1)
    held.close()


@counted
def test_a_crowd_is_counted_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look takes a bounded time, and the next one goes on where it ended."""
    monkeypatch.setattr(connections, "_COUNT_BUDGET_SECONDS", 0.0)
    counted: list[int] = []
    monkeypatch.setattr(connections, "received_bytes", lambda descriptor: counted.append(descriptor) or 0)
    story = Story()
    try:
        for _ in range(3):
            story.accept(0)
        story.read(3)
        for _ in range(6):
            story.held.count(story.held.count_at)
        assert Counter(counted) == dict.fromkeys((one.number for one in story.made), 2)
    finally:
        story.clean()


def test_a_number_of_something_else_counts_nothing(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other, (tmp_path / "file").open("wb") as file:
        assert tcp.received_bytes(other.fileno()) == tcp.received_bytes(file.fileno()) == 0
    assert tcp.received_bytes(1 << 20) == 0, "no number at all"


# ---------------------------------------------------------------- numbers that are used again


def test_a_number_that_another_kind_of_socket_has_now_is_left_alone(server: RouterEndpoint) -> None:
    """Such as a connection of the local lane, or one that this process dials."""
    held = server._connections
    ours, theirs = socket.socketpair()
    with ours, theirs:
        now = time.monotonic()
        held._accepted(ours.fileno(), now)
        held._closed(ours.fileno())
        assert not held.strangers
        held.introduce(RoutingId(b"one"), ours.fileno(), now)
        held.close_of(RoutingId(b"one"))
        held.look(now + connections.STRANGER_SECONDS)
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


@dataclass
class Accepted:
    """A connection as libzmq has it, with what its monitor has told of it."""

    ours: socket.socket
    theirs: socket.socket
    number: int
    routing_id: RoutingId | None = None
    is_open: bool = True
    is_too_late: bool = False
    """Its Hello was in flight when the connection was shut for having sent none."""

    def is_shut(self) -> bool:
        self.theirs.setblocking(False)
        try:
            return self.theirs.recv(1) == b""
        except BlockingIOError:
            return False


@dataclass
class Story:
    """Connections come, say Hello and go; what the monitor tells of that is read later."""

    now: float = 100.0
    made: list[Accepted] = field(default_factory=list)
    notices: deque[tuple[bool, int]] = field(default_factory=deque)
    names: int = 0

    def __post_init__(self) -> None:
        self.carried: set[RoutingId] = set()
        self.held = Connections(lambda routing_id: routing_id in self.carried, Agenda())
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.held.listens_at(Address(*self.address))
        self.further: list[socket.socket] = []

    def listen(self, which: int) -> None:
        """At one address more, as a server does for monitors: the listener may get the number of a connection that was
        accepted and is closed."""
        self.further.append(socket.create_server(("127.0.0.1", 0)))
        self.held.listens_at(Address(*self.further[-1].getsockname()))

    def living(self, which: int) -> Accepted | None:
        living = [one for one in self.made if one.is_open]
        return living[which % len(living)] if living else None

    def accept(self, which: int) -> None:
        theirs = socket.create_connection(self.address)
        ours, _ = self.listener.accept()
        self.made.append(Accepted(ours, theirs, ours.fileno()))
        self.notices.append((True, ours.fileno()))

    def hello(self, which: int) -> None:
        one = self.living(which)
        if one is not None and one.routing_id is None:
            self.names += 1
            one.is_too_late = one.is_shut()
            one.routing_id = RoutingId(self.names.to_bytes(16, "big"))
            self.carried.add(one.routing_id)
            self.held.introduce(one.routing_id, one.number, self.now)

    def end(self, which: int) -> None:
        """Its session is over, and the connection stays."""
        one = self.living(which)
        if one is not None and one.routing_id is not None:
            self.carried.discard(one.routing_id)

    def close(self, which: int) -> None:
        one = self.living(which)
        if one is not None:
            self.notices.append((False, one.number))
            self._drop(one)

    def vanish(self, which: int) -> None:
        """Without a notice, as when another connection has taken the routing id over."""
        one = self.living(which)
        if one is not None:
            self._drop(one)

    def _drop(self, one: Accepted) -> None:
        one.is_open = False
        one.ours.close()
        if one.routing_id is not None:
            self.carried.discard(one.routing_id)

    def read(self, which: int) -> None:
        for _ in range(min(which + 1, len(self.notices))):
            is_accepted, number = self.notices.popleft()
            if is_accepted:
                self.held._accepted(number, self.now)
            else:
                self.held._closed(number)

    def wait(self, which: int) -> None:
        self.now += which
        self.held.look(self.now)

    def check(self) -> None:
        for one in self.made:
            if one.is_open and one.routing_id in self.carried and not one.is_too_late:
                assert not one.is_shut(), "a connection with a session is never ended"
        for listener in (self.listener, *self.further):
            assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), "a listener is no connection"

    def finish(self) -> None:
        self.read(len(self.notices))
        for _ in range(2):
            self.now += connections.STRANGER_SECONDS
            self.held.look(self.now)
        self.check()
        for one in self.made:
            if one.is_open and one.routing_id not in self.carried:
                assert one.is_shut(), "a connection without a session ends"
        assert len(self.held._peers) == len(self.carried) and not self.held.strangers

    def clean(self) -> None:
        self.held.close()
        for listener in (self.listener, *self.further):
            listener.close()
        for one in self.made:
            one.ours.close()
            one.theirs.close()


_OPERATIONS = ("accept", "accept", "hello", "hello", "end", "close", "vanish", "listen", "read", "read", "wait")


@settings(max_examples=150, deadline=None)
@example([("accept", 0), ("close", 0), ("listen", 0)])
@given(st.lists(st.tuples(st.sampled_from(_OPERATIONS), st.integers(0, 7)), max_size=40))
def test_numbers_that_are_used_again_are_no_mistake(steps: list[tuple[str, int]]) -> None:
    story = Story()
    try:
        for name, which in steps:
            getattr(story, name)(which)
            story.check()
        story.finish()
    finally:
        story.clean()
