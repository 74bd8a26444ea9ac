"""Keys over real sockets: which dialers get in, which do not, and the errors that those get.
(FRM-14 to FRM-16, HSK-29 to HSK-34, SES-30 to SES-32)"""

from __future__ import annotations

import dataclasses
import socket as network
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from tests.support.endpoints import PATIENCE_SECONDS, Bench, bench_on
from tests.support.keyed import rejection, ring, ticket, write_keys

from scaler_protocol import codes
from scaler_protocol.codec import decode, encode
from scaler_protocol.ids import new_peer_id, new_routing_id
from scaler_protocol.keys import ALL_ROLES, Pass, new_secret
from scaler_protocol.messages import Hello, Message, Reject, Resume, Software, Welcome
from scaler_protocol.session import Opened
from scaler_protocol.session.handshake import HELLO_BYTES
from scaler_protocol.transport import RouterEndpoint, curve, handshakes, tcp, zmq_context
from scaler_protocol.transport.lane import OFF_VARIABLE
from scaler_protocol.transport.lane_dealer import LaneDealer
from scaler_protocol.transport.self_test import FenceError, SelfTest


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Over ZeroMQ alone."""
    yield from bench_on("zeromq", monkeypatch)


def identity_of(bench: Bench, server: RouterEndpoint) -> object:
    (event,) = [event for event in bench.events[server] if isinstance(event, Opened)]
    return event.identity


class Raw:
    """A hostile dialer: it holds a CURVE pair, and says what it likes."""

    def __init__(self, address: str, shown: Pass | None) -> None:
        self.socket = zmq_context().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.setsockopt(zmq.ROUTING_ID, new_routing_id())
        curve.dial_with(self.socket, shown)
        self.socket.connect(address)

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close(0)

    def say(self, message: Message, seq: int = 0) -> None:
        for frame in encode(message, seq, 0):
            self.socket.send(frame)

    def answer(self, bench: Bench) -> Message:
        bench.until(lambda: bool(self.socket.poll(0)), "an answer to a raw dialer")
        return decode(self.socket.recv(), ()).message


def hello(shown: Pass | None, **changes: object) -> Hello:
    credential = b"" if shown is None else shown.ticket
    base = Hello(1, 1, codes.ROLE_CLIENT, new_peer_id(), credential=credential)
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


# ---------------------------------------------------------------- dialers that get in


@pytest.mark.skipif(not tcp.IS_COUNTED, reason="Linux counts what has come by a connection")
@pytest.mark.parametrize("has_key", [False, True])
def test_the_largest_hello_may_be_counted_before_it_is_read(wire: Bench, has_key: bool) -> None:  # LIM-18, LIM-20
    keyring = ring() if has_key else None
    shown = None if keyring is None else keyring.own_pass()
    server = wire.server(keyring=keyring)
    connections = server._connections
    with Raw(server.address, shown) as dialer:
        near = hello(shown, software=Software(name="n" * 60_000))
        room = HELLO_BYTES - len(encode(near, 0, 0)[0])
        dialer.say(dataclasses.replace(near, software=Software(name="n" * (60_000 + room))))
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while not any(tcp.received_bytes(descriptor) >= HELLO_BYTES for descriptor in connections.strangers):
            assert time.monotonic() < ends_at, "the Hello did not come"
            connections.read(time.monotonic())
        connections.count(time.monotonic())
        assert isinstance(dialer.answer(wire), Welcome)


def test_the_holder_of_the_key_gets_in_as_its_account(bench: Bench) -> None:
    keyring = ring()
    server = bench.server(keyring=keyring)
    shown = keyring.own_pass()
    dialer = bench.dialer(server.address, shown=shown)
    bench.open(dialer)
    bench.ask(dialer, 1)
    identity = identity_of(bench, server)
    assert identity == keyring.admit(shown.ticket, shown.public_key, codes.ROLE_CLIENT, 0.0)


def test_a_ticket_opens_the_roles_it_names(bench: Bench) -> None:
    keyring = ring()
    server = bench.server(keyring=keyring, allowed_roles={codes.ROLE_CLIENT, codes.ROLE_WORKER})
    dialer = bench.dialer(server.address, shown=ticket(keyring, codes.ROLE_WORKER), role=codes.ROLE_WORKER)
    bench.open(dialer)
    identity = identity_of(bench, server)
    assert (identity.user, identity.roles, identity.is_operator) == ("ana", {codes.ROLE_WORKER}, False)  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["lane"])
def test_on_the_lane_the_kernel_is_enough(bench: Bench) -> None:
    keyring = ring()
    server = bench.server(keyring=keyring)
    dialer = bench.dialer(server.address, shown=dataclasses.replace(keyring.own_pass(), ticket=b""))
    assert isinstance(dialer._carrier, LaneDealer)
    bench.open(dialer)
    identity = identity_of(bench, server)
    assert identity.is_operator and identity.roles == ALL_ROLES and identity.holder == b""  # type: ignore[attr-defined]


# ---------------------------------------------------------------- dialers that do not, and their errors


def test_a_wrong_key_is_named_with_its_file(bench: Bench) -> None:
    server = bench.server(keyring=ring())
    dialer = bench.dialer(server.address, shown=ring(origin="/etc/scaler/old.key").own_pass())
    text = rejection(bench, dialer).text
    assert "/etc/scaler/old.key" in text and "not this cluster's" in text and "no answer" not in text


@pytest.mark.parametrize(
    ("address", "name", "said"),
    [
        ("tcp://192.0.2.1:8516", "cluster.key", "Copy cluster.key from the machine of its scheduler"),
        ("tcp://127.0.0.1:8516", "cluster.key", "belongs to another user of this machine, ask that user for a ticket"),
        ("tcp://127.0.0.1:8516", "tcp-8516.key", "which was killed, has left that file: remove it"),
        ("tcp://127.0.0.1:8516", "tcp-8517.key", "Name the file with its key"),
    ],
)
def test_what_to_do_about_a_wrong_key(address: str, name: str, said: str) -> None:
    shown = ring(origin=f"/run/user/7/scaler/{name}").own_pass()
    told = handshakes.reason("CURVE", shown, address)
    assert said in told and name in told


def test_without_a_key_a_dialer_learns_that_one_is_wanted(bench: Bench) -> None:
    server = bench.server(keyring=ring())
    text = rejection(bench, bench.dialer(server.address)).text
    assert "wants a key" in text and "cluster.key" in text and server.address in text


def test_with_a_key_a_dialer_never_talks_to_a_server_without(bench: Bench) -> None:
    server = bench.server()
    text = rejection(bench, bench.dialer(server.address, shown=ring().own_pass())).text
    assert "without a key" in text and "insecure=True" in text and server.address in text
    assert bench.kinds(server) == []


def test_a_dialer_that_was_refused_does_not_come_back_by_itself(bench: Bench) -> None:
    keyring = ring()
    server = bench.server(keyring=keyring)
    dialer = bench.dialer(server.address, shown=ticket(keyring, codes.ROLE_WORKER))
    text = rejection(bench, dialer).text
    assert "ana.key" in text and "worker" in text and "client" in text
    assert dialer.next_deadline() is None, "nothing is due any more"
    assert server.received_counts["Hello"] == 1


def test_an_expired_ticket_is_refused_with_its_user(bench: Bench) -> None:
    keyring = ring()
    server = bench.server(keyring=keyring)
    dialer = bench.dialer(server.address, shown=ticket(keyring, codes.ROLE_CLIENT, expires=time.time() - 60))
    assert "expired" in rejection(bench, dialer).text


CURVE_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)


@pytest.mark.parametrize("greeting", [b"", CURVE_GREETING])
def test_a_server_that_closes_all_connections_is_waited_for(wire: Bench, greeting: bytes) -> None:
    """As a proxy does whose server is not up yet, and a server that has no descriptor left: neither is a wrong key."""
    with network.create_server(("127.0.0.1", 0)) as proxy:
        accepted: list[int] = []

        def refuse() -> None:
            while True:
                try:
                    connection, _ = proxy.accept()
                except OSError:
                    return
                accepted.append(1)
                with connection:
                    connection.sendall(greeting)

        threading.Thread(target=refuse, daemon=True).start()
        dialer = wire.dialer(f"tcp://127.0.0.1:{proxy.getsockname()[1]}", shown=ring().own_pass())
        wire.until(lambda: len(accepted) > 12, "a dozen attempts")
        assert wire.kinds(dialer) == []
        proxy.shutdown(network.SHUT_RDWR)


@pytest.mark.parametrize(
    "greeting", [b"", b"\xff" + bytes(7) + b"\x01\x7f\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x01\x00"]
)
def test_older_and_other_protocols_find_no_way_in(wire: Bench, greeting: bytes) -> None:
    """ZMTP 1 and 2 have no mechanisms at all."""
    server = wire.server(keyring=ring())
    host, port = server.address.removeprefix("tcp://").split(":")
    with network.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as stranger:
        stranger.sendall(greeting + bytes(200))
        stranger.settimeout(0.01)
        closed: list[bool] = []

        def is_closed() -> bool:
            try:
                closed.append(stranger.recv(4096) == b"")
            except TimeoutError:
                return False
            except OSError:
                closed.append(True)
            return closed[-1]

        wire.until(is_closed, "the connection to be closed")
    assert server.received_counts == {} and server.rejected_count == 0


# ---------------------------------------------------------------- stolen tickets, other holders


def test_a_stolen_ticket_opens_nothing(wire: Bench) -> None:
    """The thief is a holder of another ticket, so the fence lets him in as far as the Hello."""
    keyring = ring()
    server = wire.server(keyring=keyring)
    stolen, own = keyring.own_pass(), ticket(keyring, codes.ROLE_WORKER, user="mallory")
    with Raw(server.address, own) as thief:
        thief.say(hello(stolen))
        refusal = thief.answer(wire)
    assert isinstance(refusal, Reject) and refusal.code == codes.UNAUTHORIZED and "holder" in refusal.text
    assert wire.kinds(server) == []


def test_no_ticket_over_curve_is_refused(wire: Bench) -> None:
    keyring = ring()
    server = wire.server(keyring=keyring)
    with Raw(server.address, keyring.own_pass()) as dialer:
        dialer.say(hello(None))
        refusal = dialer.answer(wire)
    assert isinstance(refusal, Reject) and refusal.code == codes.UNAUTHORIZED and refusal.text


def test_nobody_resumes_replaces_or_moves_the_session_of_another_holder(wire: Bench) -> None:
    keyring = ring()
    server = wire.server(keyring=keyring)
    victim = wire.dialer(server.address, shown=ticket(keyring, codes.ROLE_CLIENT, user="ana"))
    wire.open(victim)
    (opened,) = [event for event in wire.events[server] if isinstance(event, Opened)]
    thief = ticket(keyring, codes.ROLE_CLIENT, user="mallory")
    session_id = opened.welcome.session_id
    for changes in (
        {"resume": Resume(session_id, 0)},  # resume
        {"incarnation": 99},  # a new life
        {"incarnation": opened.hello.incarnation},  # a second Hello of the same life
        {"resume": Resume(session_id + 1, 0)},  # moves an unused session
    ):
        with Raw(server.address, thief) as raw:
            raw.say(hello(thief, peer_id=opened.peer_id, **changes))
            refusal = raw.answer(wire)
        assert isinstance(refusal, Reject) and refusal.code == codes.UNAUTHORIZED, changes
    wire.ask(victim, 7)
    assert wire.kinds(server).count("Opened") == 1 and "Lost" not in wire.kinds(server)


def test_an_insecure_server_refuses_a_ticket(wire: Bench) -> None:
    server = wire.server()
    with Raw(server.address, None) as dialer:
        dialer.say(hello(ring().own_pass()))
        refusal = dialer.answer(wire)
        assert isinstance(refusal, Reject) and refusal.code == codes.UNAUTHORIZED and "insecure" in refusal.text
        dialer.say(hello(None))
        assert isinstance(dialer.answer(wire), Welcome)


@pytest.mark.parametrize("way", ["lane"])
def test_a_session_goes_on_between_lane_and_socket(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same ticket on both ways is the same identity."""
    keyring = ring()
    server = bench.server(keyring=keyring)
    dialer = bench.dialer(server.address, shown=keyring.own_pass())
    assert isinstance(dialer._carrier, LaneDealer)
    bench.open(dialer)
    monkeypatch.setenv(OFF_VARIABLE, "1")
    dialer._dialer.disconnected(time.monotonic())
    bench.until(lambda: not isinstance(dialer._carrier, LaneDealer) and dialer.is_open, "the session on ZeroMQ")
    bench.ask(dialer, 3)
    assert bench.kinds(server).count("Opened") == 1 and "Lost" not in bench.kinds(dialer)


# ---------------------------------------------------------------- the server tries its own fence


def test_a_server_with_keys_passes_its_own_test(wire: Bench) -> None:
    server = wire.server(keyring=ring())
    wire.until(lambda: server._guard._test is not None and server._guard._test.is_over, "the test to end")
    assert server.received_counts == {}


def test_a_server_tries_its_fence_again_when_it_listens_with_another_key(wire: Bench, tmp_path: Path) -> None:
    path = tmp_path / "cluster.key"
    old, new = new_secret(), new_secret()
    write_keys(path, old)
    guard = wire.server(keyring=ring(old, origin=str(path)))._guard
    wire.until(lambda: guard._test is not None and guard._test.is_over, "the test to end")
    first = guard._test
    write_keys(path, new)
    wire.until(lambda: guard._test not in (None, first) and guard._test.is_over, "the test of the new key to end")


def test_a_server_that_lets_strangers_in_ends(wire: Bench, caplog: pytest.LogCaptureFixture) -> None:
    server = wire.server()
    test = SelfTest(server._guard._address, time.monotonic())
    with pytest.raises(FenceError, match="no key"):
        wire.until(lambda: test.look(time.monotonic()), "the stranger")  # type: ignore[func-returns-value]
    assert any(record.levelname == "CRITICAL" for record in caplog.records)
    assert test.is_over


# ---------------------------------------------------------------- ZAP, and an old libzmq


def test_zap_names_the_holder_and_refuses_all_else() -> None:
    key = bytes(range(32))
    request = [b"1.0", b"7", b"scaler", b"127.0.0.1", b"id", b"CURVE", key]
    assert curve.answer(request) == [b"1.0", b"7", b"200", b"OK", key.hex().encode(), b""]
    for wrong in ([*request[:5], b"NULL"], [*request[:5], b"PLAIN", b"user", b"word"], [*request[:6], b"short"], []):
        assert curve.answer(wrong)[2] == b"400"


def test_a_server_that_can_admit_no_connection_ends(
    wire: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(request: list[bytes]) -> list[bytes]:
        raise MemoryError("no room for an answer")

    keyring = ring()
    server = wire.server(keyring=keyring)
    wire.open(wire.dialer(server.address, shown=keyring.own_pass()))
    monkeypatch.setattr(curve, "answer", fails)
    dialer = wire.dialer(server.address, shown=keyring.own_pass())
    with pytest.raises(curve.HandlerError, match="no program can connect"):
        wire.until(lambda: "Opened" in wire.kinds(dialer), "the server to notice")
    levels = [record.levelname for record in caplog.records if "handler that admits" in record.getMessage()]
    assert levels == ["CRITICAL"] * 2 and "no room for an answer" in caplog.text
    monkeypatch.undo()
    wire.open(wire.dialer(wire.server(keyring=keyring).address, shown=keyring.own_pass()))  # another handler


def test_a_second_server_of_the_process_uses_the_same_zap(wire: Bench) -> None:
    first, second = ring(), ring()
    servers = [wire.server(keyring=first), wire.server(keyring=second)]
    for server, keyring in zip(servers, (first, second), strict=True):
        wire.open(wire.dialer(server.address, shown=keyring.own_pass()))
