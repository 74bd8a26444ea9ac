"""Endpoints that meet on the local lane, and what may stand in its way (LAN)."""

from __future__ import annotations

import itertools
import logging
import os
import select
import socket
import sys
import time
from collections.abc import Sequence

import pytest
from tests.support.endpoints import Bench, crash, make_dialer
from tests.support.raw_lane import Raw, name_of, push

from scaler_protocol import codes
from scaler_protocol.addresses import parse_address
from scaler_protocol.codec import encode
from scaler_protocol.ids import new_object_id, new_peer_id
from scaler_protocol.messages import Cancel, Error, Hello, Put, Value, Welcome
from scaler_protocol.session import Opened, Received
from scaler_protocol.transport import DealerEndpoint, RouterEndpoint, lane, lane_server
from scaler_protocol.transport.framing import header
from scaler_protocol.transport.lane_dealer import LaneDealer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local lane is Linux only")


@pytest.fixture
def way() -> str:
    return "lane"


def is_on_lane(endpoint: DealerEndpoint) -> bool:
    return isinstance(endpoint._carrier, LaneDealer) and endpoint.is_open


# ---------------------------------------------------------------- where it leads


@pytest.mark.parametrize(
    ("address", "bound"),
    [
        ("tcp://127.0.0.1:8516", ["127.0.0.1", "0.0.0.0", "::"]),
        ("tcp://localhost:8516", ["127.0.0.1", "0.0.0.0", "::"]),
        ("tcp://127.0.0.2:8516", ["127.0.0.2", "0.0.0.0", "::"]),
        ("tcp://[::1]:8516", ["::1", "::"]),
        ("tcp://[0:0:0:0:0:0:0:1]:8516", ["::1", "::"]),
        ("tcp://192.0.2.7:8516", ["192.0.2.7"]),
        ("tcp://scheduler.example.org:8516", []),
        ("ipc:///run/scaler", []),
    ],
)
def test_to_which_servers_an_address_may_lead(address: str, bound: list[str]) -> None:
    assert [one.host for one in lane.bound_addresses(parse_address(address))] == bound


@pytest.mark.parametrize("bound", ["127.0.0.1", "*", "0.0.0.0", "localhost"])
def test_loopback_finds_the_lane(bench: Bench, bound: str) -> None:
    server = bench.server(f"tcp://{bound}:*")
    dialer = bench.dialer(f"tcp://127.0.0.1:{server.address.rpartition(':')[2]}")
    bench.ask(_opened(bench, dialer), 1)
    assert is_on_lane(dialer)


def _opened(bench: Bench, dialer: DealerEndpoint) -> DealerEndpoint:
    bench.open(dialer)
    return dialer


def test_servers_of_one_port_at_two_addresses_are_not_mistaken(bench: Bench) -> None:
    one = bench.server("tcp://127.0.0.1:*")
    other = bench.server(one.address.replace("127.0.0.1", "127.0.0.2"))
    for server in (one, other):
        bench.ask(_opened(bench, bench.dialer(server.address)), 1)
    assert [bench.kinds(server).count("Opened") for server in (one, other)] == [1, 1]


def test_both_kinds_of_dialers_at_one_server(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(lane.OFF_VARIABLE, "1")
    remote = _opened(bench, bench.dialer(server.address))
    for number in range(1, 20):
        bench.ask(remote, number)
        bench.ask(bystander, number)
    assert is_on_lane(bystander) and not is_on_lane(remote)


# ---------------------------------------------------------------- whose it is


def test_a_server_of_another_user_is_not_used(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    server = bench.server()
    monkeypatch.setattr(lane, "is_of_this_user", lambda connection: False)
    dialer = _opened(bench, bench.dialer(server.address))
    assert not is_on_lane(dialer) and dialer.generation == 1


def test_a_dialer_of_another_user_is_sent_away_and_comes_by_zeromq(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = itertools.cycle([True, False])  # the dialer asks first, then the server
    monkeypatch.setattr(lane, "is_of_this_user", lambda connection: next(answers))
    dialer = _opened(bench, bench.dialer(server.address))
    bench.ask(dialer, 1)
    assert not is_on_lane(dialer) and is_on_lane(bystander)


def test_who_has_no_number_here_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert lane.is_of_this_user(ours)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert not lane.is_of_this_user(ours)
        monkeypatch.undo()
        monkeypatch.setattr(lane, "_NOBODY", os.geteuid())
        assert not lane.is_of_this_user(ours)


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_name_that_another_process_has_taken(bench: Bench, is_silent: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Of the same user, or it would not be dialed at all. The server goes without a lane, its dialers by ZeroMQ."""
    port = bench.server()
    bench.remove(port)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as squatter:
        squatter.bind(name_of(port.address))
        squatter.listen()
        if not is_silent:
            squatter.shutdown(socket.SHUT_RDWR)
        with caplog.at_level(logging.INFO, "scaler.transport"):
            server = bench.successor(port.address)
        assert server._lanes is None
        (record,) = [record for record in caplog.records if record.levelno == logging.INFO]
        assert "no local lane" in record.getMessage() and "another process" in record.getMessage()
        dialer = _opened(bench, bench.dialer(server.address))
        bench.ask(dialer, 1)
    assert not is_on_lane(dialer)


# ---------------------------------------------------------------- coming and going


def test_who_was_there_before_the_server_moves_to_the_lane(bench: Bench) -> None:
    """Without noticing: the session that was opened over ZeroMQ goes on."""
    port = bench.server()
    bench.remove(port)
    dialer = bench.dialer(port.address)
    bench.turn()
    server = bench.successor(port.address)
    bench.until(lambda: "Opened" in bench.kinds(dialer), "the session")
    for number in range(1, 50):
        dialer.send(Cancel(number.to_bytes(16, "little")))
    bench.until(lambda: len(bench.replies(dialer)) == 49, "all answers")
    assert bench.replies(dialer) == [number.to_bytes(16, "little") for number in range(1, 50)]
    assert bench.kinds(dialer).count("Opened") == bench.kinds(server).count("Opened") == 1
    assert "Lost" not in bench.kinds(dialer) and is_on_lane(dialer) and dialer.generation == 2


def test_a_killed_server_is_noticed_at_once_and_its_successor_found(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint
) -> None:
    bench.endpoints.remove(server)
    crash(server)
    bench.until(lambda: not bystander.is_open, "the end of the connection")
    assert "Lost" not in bench.kinds(bystander), "the session waits for its lease"
    bench.successor(server.address)
    bench.until(lambda: bench.kinds(bystander).count("Opened") == 2, "a session with the successor")
    bench.ask(bystander, 2)
    assert is_on_lane(bystander)


def test_a_connection_that_breaks_is_resumed(bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint) -> None:
    bench.ask(bystander, 1)
    for number in (2, 3, 4):
        (connection,) = server._lanes._by_routing.values()  # type: ignore[union-attr]
        connection._socket.shutdown(socket.SHUT_RDWR)
        bystander.send(Cancel(bytes(16)))
        bench.ask(bystander, number)
    assert bench.kinds(server).count("Opened") == 1 and "Lost" not in bench.kinds(server)
    assert len(bench.replies(bystander)) == 7 and is_on_lane(bystander)


def test_a_forked_child_does_not_keep_a_connection_up(bench: Bench) -> None:
    server = bench.server(reconnect_grace_seconds=0.2)
    dialer = _opened(bench, bench.dialer(server.address))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until our end is closed
        os._exit(0)
    try:
        bench.endpoints.remove(dialer)
        dialer.close()
        bench.until(lambda: "Lost" in bench.kinds(server) and not server._lanes._by_routing, "the end")  # type: ignore[union-attr]
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


def test_nobody_is_woken_by_a_connection_that_has_ended(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint
) -> None:
    """As a loop does that goes on although nobody dials any more."""
    bystander.bye()
    bench.until(lambda: "Lost" in bench.kinds(bystander) and "Lost" in bench.kinds(server), "the goodbye")
    bench.remove(server)
    bench.until(lambda: bystander._carrier.is_closed, "the end of the connection")
    assert not bystander.settle(time.monotonic())
    assert select.select([bystander.fileno()], [], [], 0) == ([], [], [])


def test_who_dials_long_after_he_was_made(bench: Bench, server: RouterEndpoint) -> None:
    """The server has sent away who said nothing for so long."""
    dialer = make_dialer(server.address)
    bench.turn()
    lanes = server._lanes
    assert lanes is not None
    lanes.look(time.monotonic() + lane_server.STRANGER_SECONDS)
    assert not lanes._by_routing
    bench.add(dialer)
    bench.ask(_opened(bench, dialer), 1)
    assert is_on_lane(dialer) and dialer.generation == 1


# ---------------------------------------------------------------- hostile and slow


@pytest.mark.parametrize(
    "noise",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(4_000) + b"\xff" * 8, bytes(8), b"\xff" * 100],
    ids=["http", "random", "zeros", "ones"],
)
def test_noise_costs_its_sender_the_connection(
    bench: Bench, bystander: DealerEndpoint, raw: Raw, noise: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "scaler.transport"):
        raw.socket.sendall(noise)
        bench.until(raw.is_closed, "the end of the connection")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    bench.ask(bystander, 1)
    assert bystander.generation == 1


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([b""], codes.BAD_ENVELOPE),
        ([*encode(Cancel(b"t" * 16), 1, 0), b"x"], codes.BAD_FRAMING),
        ([*encode(Cancel(b"t" * 16), 1, 0), b"x", b"y", b"z"], codes.BAD_FRAMING),
        (list(encode(Cancel(b"t" * 16), 1, 0)), codes.NO_SESSION),
    ],
    ids=["nothing", "a payload too many", "three too many", "no Hello"],
)
def test_bad_messages_are_answered(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, raw: Raw, frames: Sequence[bytes], code: int
) -> None:
    push(bench, raw, header(frames) + b"".join(map(bytes, frames)))
    error = raw.answer(bench)
    assert isinstance(error, Error) and error.code == code and error.text
    assert server.rejected_count == 1
    bench.ask(bystander, 1)


def test_who_says_no_hello_is_sent_away(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, raw: Raw
) -> None:
    """Also in the middle of a message, and whoever stays when his session is over."""
    raw.socket.sendall(header([bytes(100)]) + bytes(50))
    former = Raw(server.address)
    former.send(*map(bytes, encode(Hello(1, 1, role=codes.ROLE_CLIENT, peer_id=new_peer_id()))))
    assert isinstance(former.answer(bench), Welcome)
    bench.ask(bystander, 1)
    lanes = server._lanes
    assert lanes is not None
    now = time.monotonic()
    lanes.look(now)
    assert len(lanes._strangers) == 1, "only the one without a session"
    _, opened = [one for one in bench.events[server] if isinstance(one, Opened)]
    server.disconnect(opened.peer_id)
    lanes.look(now + 1.0)
    lanes.look(now + 1.0 + lane_server.STRANGER_SECONDS)
    bench.until(raw.is_closed, "the end for the stranger")
    bench.until(former.is_closed, "the end for the former peer")
    former.socket.close()
    bench.ask(bystander, 2)


def test_a_crowd_of_strangers_is_bounded(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_server, "MOST_STRANGERS", 3)
    crowd = [Raw(server.address) for _ in range(5)]
    bench.until(lambda: [one.is_closed() for one in crowd] == [False] * 3 + [True] * 2, "two to be sent away")
    late = _opened(bench, bench.dialer(server.address))
    bench.ask(late, 1)
    assert not is_on_lane(late), "there is no room, but another way"
    for one in crowd:
        one.socket.close()
    bench.ask(bystander, 1)


class Full:
    """The listener of a process that has descriptors left for so many connections."""

    def __init__(self, listener: socket.socket, room: int) -> None:
        self.fileno = listener.fileno
        self._listener = listener
        self._room = room

    def accept(self) -> tuple[socket.socket, object]:
        if self._room == 0:
            raise OSError(24, "Too many open files")
        self._room -= 1
        return self._listener.accept()


def test_a_server_without_descriptors_accepts_later(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint
) -> None:
    lanes = server._lanes
    assert lanes is not None

    listener = lanes._listener
    lanes._listener = Full(listener, room=0)  # type: ignore[assignment]
    raw = Raw(server.address)
    bench.until(lambda: not lanes._is_listening, "the pause")
    bench.ask(bystander, 1)
    assert lanes.look_at < time.monotonic() + 2.0
    lanes._listener = listener
    bench.until(lambda: lanes._is_listening, "the end of the pause")
    raw.send(*map(bytes, encode(Hello(1, 1, role=codes.ROLE_CLIENT, peer_id=new_peer_id()))))
    assert isinstance(raw.answer(bench), Welcome)
    raw.socket.close()


def test_a_stranger_is_sent_away_for_the_last_one_there_is_a_descriptor_for(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What he has said meanwhile is no reason to look for another one."""
    lanes = server._lanes
    assert lanes is not None
    first = Raw(server.address)
    bench.until(lambda: len(lanes._by_routing) == 2, "the first stranger")
    monkeypatch.setattr(lane_server, "MOST_STRANGERS", 1)
    monkeypatch.setattr(lane_server, "STRANGER_SECONDS", 0.0)
    listener = lanes._listener
    lanes._listener = Full(listener, room=1)  # type: ignore[assignment]
    second = Raw(server.address)
    first.socket.send(b"what comes behind the other's connection")
    bench.until(lambda: not lanes._is_listening, "the pause")
    bench.ask(bystander, 1)
    lanes._listener = listener
    first.socket.close()
    second.socket.close()


def test_a_slow_reader_holds_up_nobody_and_loses_nothing(
    bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint
) -> None:
    slow = _opened(bench, bench.dialer(server.address))
    peer_id = [event.peer_id for event in bench.events[server] if isinstance(event, Opened)][-1]
    bench.endpoints.remove(slow)
    payload = os.urandom(100_000)
    for number in range(1, 101):
        server.send(peer_id, Value(number, len(payload), 0, payload))
    bench.ask(bystander, 1)
    bench.endpoints.append(slow)
    received: list[int] = []

    def is_all() -> bool:
        for event in bench.events[slow]:
            if isinstance(event, Received) and isinstance(event.message, Value):
                assert bytes(event.message.payload) == payload
                received.append(event.message.request_id)
        bench.events[slow].clear()
        return len(received) == 100

    bench.until(is_all, "a hundred messages")
    assert received == list(range(1, 101))
    bench.until(lambda: server.backlog_bytes(peer_id) < 17 << 20, "acknowledgements")
    assert is_on_lane(slow)


def test_a_slow_server_gets_all_as_well(bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint) -> None:
    payload = os.urandom(3_000_000)
    for number in range(1, 9):
        bystander.send(Put(number, new_object_id(), new_peer_id(), len(payload), 0, payload))
    bench.until(lambda: server.received_counts.get("Put") == 8, "eight messages")
    puts = [one.message for one in bench.events[server] if isinstance(one, Received)]
    assert all(isinstance(put, Put) and bytes(put.payload) == payload for put in puts)
    assert is_on_lane(bystander)


def test_a_server_that_dies_while_much_is_sent(bench: Bench, server: RouterEndpoint, bystander: DealerEndpoint) -> None:
    bench.endpoints.remove(server)
    bystander.send(Put(1, new_object_id(), new_peer_id(), 10_000_000, 0, bytes(10_000_000)))
    crash(server)
    bench.until(lambda: not bystander.is_open, "the end of the connection")
    bench.successor(server.address)
    bench.until(lambda: bench.kinds(bystander).count("Opened") == 2, "a session with the successor")
    bench.ask(bystander, 1)


def test_a_goodbye_waits_for_a_slow_reader_but_not_for_ever(bench: Bench, server: RouterEndpoint) -> None:
    dialer = make_dialer(server.address)
    bench.add(dialer)
    bench.open(dialer)
    bench.endpoints.remove(dialer)
    peer_id = [event.peer_id for event in bench.events[server] if isinstance(event, Opened)][-1]
    server.send(peer_id, Value(1, 10_000_000, 0, bytes(10_000_000)))
    begun_at = time.monotonic()
    bench.remove(server)
    assert time.monotonic() - begun_at >= lane.LINGER_SECONDS
    bench.endpoints.append(dialer)
    bench.until(lambda: not dialer.is_open, "the end of the connection")
