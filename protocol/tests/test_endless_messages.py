"""What libzmq keeps of what peers send: messages that do not end (SES-39), and what a server has not read (LIM-34)."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from tests.support.endpoints import Bench
from tests.support.raw_connections import GREETING, READY, Silent, through

from scaler_protocol.addresses import Address
from scaler_protocol.codec import encode
from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.ids import RoutingId, new_peer_id, new_routing_id
from scaler_protocol.messages import Hello
from scaler_protocol.transport import DealerEndpoint, RouterEndpoint, connections, tcp, unread
from scaler_protocol.transport.agenda import Agenda
from scaler_protocol.transport.connections import Connections

pytestmark = pytest.mark.skipif(not tcp.IS_COUNTED, reason="Linux counts what has come by a connection")


@pytest.fixture
def way() -> str:
    return "zeromq"


class Peers:
    """Connections with a session, by hand."""

    def __init__(self, count: int) -> None:
        self.held = Connections(lambda routing_id: True, Agenda())
        self.heard: dict[RoutingId, float] = {}
        self.sockets: list[tuple[socket.socket, socket.socket]] = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.held.listens_at(Address(*listener.getsockname()))
            for number in range(count):
                theirs = socket.create_connection(listener.getsockname())
                ours, _ = listener.accept()
                self.sockets.append((theirs, ours))
                routing_id = RoutingId(bytes([number + 1]) * 16)
                self.held.introduce(routing_id, ours.fileno(), 0.0)
                self.heard[routing_id] = 0.0

    def look(self, *, is_drained: bool = True) -> None:
        self.held.measure(self.held.measure_at)
        self.held.judge(self.heard.__getitem__, is_drained)

    def hear(self, number: int) -> None:
        """The last message of this one is whole, and was read."""
        self.heard[RoutingId(bytes([number + 1]) * 16)] += 1.0

    def is_closed(self, number: int) -> bool:
        theirs = self.sockets[number][0]
        theirs.setblocking(False)
        try:
            assert not theirs.recv(1)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            pass
        return True

    def close(self) -> None:
        for pair in self.sockets:
            for one in pair:
                one.close()
        self.held.close()


@pytest.mark.parametrize("is_drained", [True, False])
def test_a_peer_that_sends_a_message_without_end_is_closed(monkeypatch: pytest.MonkeyPatch, is_drained: bool) -> None:
    """(SES-39)"""
    monkeypatch.setattr(connections, "MESSAGE_BYTES", 1 << 20)
    peers = Peers(2)
    try:
        peers.look(is_drained=is_drained)
        for _ in range(20):
            through(*peers.sockets[0], 100_000)
            peers.hear(0)
            if not peers.is_closed(1):
                through(*peers.sockets[1], 100_000)
            peers.look(is_drained=is_drained)
            assert not peers.is_closed(0), "each of its messages has an end"
        assert peers.is_closed(1) and not any(peers.held._unfinished.values())
    finally:
        peers.close()


def test_peers_whose_messages_do_not_end_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ALL_MESSAGES_BYTES", 1 << 20)
    monkeypatch.setattr(connections, "LEGAL_BYTES", 100_000)
    peers = Peers(15)
    try:
        peers.look()
        for number in range(5):
            through(*peers.sockets[number], 200_000 + 10_000 * number)
        for number in range(5, 15):
            through(*peers.sockets[number], 100_000)
        peers.look()
        assert peers.is_closed(4), "the one that has sent most"
        assert not any(map(peers.is_closed, [*range(4), *range(5, 15)])), "and none that keeps the limits"
    finally:
        peers.close()


def test_what_was_not_read_yet_is_no_message_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is busy has not read the messages that came before."""
    monkeypatch.setattr(connections, "MESSAGE_BYTES", 1 << 20)
    peers = Peers(1)
    try:
        peers.look()
        through(*peers.sockets[0], 2 << 20)
        peers.look(is_drained=False)
        peers.hear(0)
        peers.look()
        assert not peers.is_closed(0)
    finally:
        peers.close()


def test_an_endless_message_of_a_peer_is_cut(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MESSAGE_BYTES", 4 << 20)
    named = READY[2:] + b"\x08Identity\0\0\0\x10" + new_routing_id()
    peer = Silent(server.address, GREETING)
    bench.until(peer.is_greeted, "the server's greeting")
    hello = b"".join(encode(Hello(1, 1, role=ROLE_CLIENT, peer_id=new_peer_id()), 0, 0))
    peer.send(b"\x04" + bytes([len(named)]) + named)
    peer.send(b"\x02" + len(hello).to_bytes(8, "big") + hello)
    bench.until(lambda: len(server._connections._peers) == 2, "its session")
    part = b"\x03" + (1 << 16).to_bytes(8, "big") + bytes(1 << 16)
    sent, unsent = 0, b""

    def is_closed() -> bool:
        nonlocal sent, unsent
        try:
            unsent = unsent or part
            size = peer.send(unsent)
            sent, unsent = sent + size, unsent[size:]
        except BlockingIOError:
            pass
        except OSError:
            return True
        assert sent < 1 << 30
        return peer.is_closed()

    bench.until(is_closed, "the end of the connection")
    bench.ask(bystander, 1)
    assert bystander.generation == 1
    peer.close()


# ---------------------------------------------------------------- what a server has not read (LIM-34)

_TCP_WINDOW_CLAMP = 10


class Behind(Peers):
    """Of a server that has more to read after each turn."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.held.fall_behind(0.0, 0)
        self.look(is_drained=False)

    def is_held(self, number: int) -> bool:
        ours = self.sockets[number][1]
        return ours.getsockopt(socket.IPPROTO_TCP, _TCP_WINDOW_CLAMP) < 1 << 14

    def send(self, number: int, size: int) -> None:
        through(*self.sockets[number], size)
        self.look(is_drained=False)


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    monkeypatch.setattr(unread, "UNREAD_BYTES", 1 << 18)
    peers = Behind(3)
    yield peers
    peers.close()


def test_a_peer_of_which_much_is_unread_is_held_back(behind: Behind) -> None:
    for number, size in enumerate((200_000, 300_000, 300_000)):
        if number == 2:
            assert behind.held.unread.reads is not None
            behind.held.unread.reads[RoutingId(bytes([number + 1]) * 16)] = 250_000
        behind.send(number, size)
    assert [behind.is_held(number) for number in range(3)] == [False, True, False]
    behind.held.unread.catch_up()
    assert not any(map(behind.is_held, range(3)))


def test_a_peer_is_held_back_for_a_moment_only(behind: Behind) -> None:
    """What was read is counted a little too low, so a peer that does no wrong may be held back as well."""
    behind.send(0, 300_000)
    assert behind.is_held(0)
    behind.held.fall_behind(behind.held.measure_at + unread.HOLD_SECONDS, 0)
    assert not behind.is_held(0)
    behind.look(is_drained=False)
    assert not behind.is_held(0), "it begins anew"


def test_a_server_that_reads_all_holds_nobody_back(behind: Behind) -> None:
    behind.held.unread.catch_up()
    behind.send(0, 500_000)
    assert not behind.is_held(0)


def test_no_connections_are_accepted_while_much_of_closed_ones_is_unread() -> None:
    held = Peers(0).held
    now, owed = 1.0, unread.OWED_BYTES
    held.fall_behind(now, 0)
    for _ in range(owed // unread.CLOSED_BYTES + 1):
        assert not held.unread.door.is_shut
        held._closed(1 << 20)
        held.fall_behind(now, 0)
    assert held.unread.door.is_shut
    held.fall_behind(now, owed // 2)
    assert held.unread.door.is_shut
    held.fall_behind(now, owed)
    assert not held.unread.door.is_shut, "it has been read"
    for _ in range(owed // unread.CLOSED_BYTES):
        held._closed(1 << 20)
    held.fall_behind(now, owed)
    assert held.unread.door.is_shut
    held.fall_behind(now + unread.SHUT_SECONDS, owed)
    assert not held.unread.door.is_shut, "newcomers wait no longer"
    held.fall_behind(now + unread.SHUT_SECONDS, owed)
    assert held.unread.door.is_shut
    held.unread.catch_up()
    assert not held.unread.door.is_shut and not held.unread.is_behind
    held.close()


def test_newcomers_wait_at_a_door_that_is_shut_and_all_others_are_served(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint
) -> None:
    held = server._connections
    for _ in range(2):
        held.unread.door.shut()
        newcomer = Silent(server.address, GREETING)
        bench.ask(bystander, 5)
        assert not held.strangers and not newcomer.is_greeted()
        held.unread.door.open()
        bench.until(newcomer.is_greeted, "the newcomer to be let in")
        newcomer.close()
        bench.until(lambda: not held.strangers, "its end")


def test_strangers_are_bounded_together(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(LIM-18)"""
    monkeypatch.setattr(connections, "ALL_STRANGERS_BYTES", 200_000)
    strangers = [Silent(server.address, GREETING) for _ in range(3)]
    for number, one in enumerate(strangers):
        bench.until(one.is_greeted, "the server's greeting")
        one.send(READY + b"\x03" + (1 << 20).to_bytes(8, "big") + bytes(60_000 + 20_000 * number))
    bench.until(strangers[2].is_closed, "the end of the one that has sent most")
    bench.ask(bystander, 1)
    assert not strangers[0].is_closed()
    for one in strangers:
        one.close()
