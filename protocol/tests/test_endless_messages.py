"""Peers with a session whose messages do not end: libzmq keeps them, and says nothing of it (SES-39)."""

from __future__ import annotations

import socket

import pytest
from tests.support.endpoints import Bench
from tests.support.raw_connections import GREETING, READY, Silent, through

from scaler_protocol.addresses import Address
from scaler_protocol.codec import encode
from scaler_protocol.codes import ROLE_CLIENT
from scaler_protocol.ids import RoutingId, new_peer_id, new_routing_id
from scaler_protocol.messages import Hello
from scaler_protocol.transport import DealerEndpoint, RouterEndpoint, connections, tcp
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
