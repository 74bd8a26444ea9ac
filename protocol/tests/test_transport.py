"""Endpoints over real sockets on loopback, with ports the system chooses: over ZeroMQ, and by the local lane."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import pytest
import zmq
from tests.support.endpoints import PATIENCE_SECONDS, Bench, crash, make_server

from scaler_protocol import codes
from scaler_protocol.addresses import AddressError, parse_address
from scaler_protocol.codec import decode, encode
from scaler_protocol.ids import new_object_id, new_peer_id, new_routing_id
from scaler_protocol.messages import Cancel, Error, Hello, Limits, Put, Reject, Timers
from scaler_protocol.session import Lost, Received, Rejected
from scaler_protocol.transport import RouterEndpoint, lane, router, sockets, zeromq, zmq_context
from scaler_protocol.transport.lane_dealer import LaneDealer


def test_a_session_opens_answers_and_ends(bench: Bench) -> None:
    server = bench.server()
    dialer = bench.dialer(server.address)
    bench.open(dialer)
    for number in range(200):
        dialer.send(Cancel(number.to_bytes(16, "little")))
    bench.until(lambda: len(bench.replies(dialer)) == 200, "two hundred answers")
    assert bench.replies(dialer) == [number.to_bytes(16, "little") for number in range(200)], "in order"
    dialer.bye(0, "done")
    bench.until(lambda: "Lost" in bench.kinds(server) and "Lost" in bench.kinds(dialer), "the goodbye")
    (lost,) = [event for event in bench.events[server] if isinstance(event, Lost)]
    assert lost.is_orderly and lost.text == "done"
    assert server.received_counts["Cancel"] == 200 and server.sent_counts["CancelReply"] == 200
    assert server.rejected_count == 0


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 5_000_000])
def test_payloads_arrive_whole(bench: Bench, size: int) -> None:
    server = bench.server()
    dialer = bench.dialer(server.address)
    bench.open(dialer)
    payload = os.urandom(size)
    dialer.send(Put(1, new_object_id(), new_peer_id(), size, 0, payload))
    bench.until(lambda: "Received" in bench.kinds(server), "the message")
    (event,) = [event for event in bench.events[server] if isinstance(event, Received)]
    assert isinstance(event.message, Put) and bytes(event.message.payload) == payload


@pytest.mark.skipif(sys.platform == "win32", reason="no ipc on Windows")
class Busy:
    """A socket whose ports are taken, so many times."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.asked = 0

    def setsockopt(self, option: int, value: int) -> None:
        pass

    def bind(self, where: str) -> None:
        self.asked += 1
        if self.left:
            self.left -= 1
            raise zmq.ZMQError(zmq.EADDRINUSE)

    def get_string(self, option: int) -> str:
        return "tcp://127.0.0.1:7"


def test_a_port_that_was_taken_meanwhile_is_chosen_again() -> None:
    """Sockets that only have an address may share a port until the first of them listens there."""
    busy = Busy(3)
    assert sockets.bind_also(busy, parse_address("tcp://127.0.0.1:0", is_bind=True)) == "tcp://127.0.0.1:7"
    assert busy.asked == 4
    for text, count, asked in (("tcp://127.0.0.1:7", 1, 1), ("tcp://127.0.0.1:0", 1 << 30, 17)):
        busy = Busy(count)
        with pytest.raises(AddressError, match="already in use"):
            sockets.bind_also(busy, parse_address(text, is_bind=True))
        assert busy.asked == asked


def test_ipc_serves_and_is_not_stolen(bench: Bench, tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/s"
    server = bench.server(address)
    dialer = bench.dialer(address)
    bench.open(dialer)
    with pytest.raises(AddressError, match="already in use"):
        make_server(address)
    bench.ask(dialer, 1)
    with pytest.raises(AddressError, match="directory that does not exist"):
        make_server(f"ipc://{tmp_path}/none/s")
    assert server.address == address


# ---------------------------------------------------------------- addresses


def test_a_taken_port_is_one_readable_sentence(bench: Bench) -> None:
    server = bench.server()
    with pytest.raises(AddressError) as caught:
        make_server(server.address)
    expected = f"address {server.address} is already in use: stop what is listening there, or choose another one"
    assert str(caught.value) == expected


@pytest.mark.parametrize("address", ["tcp://192.0.2.1:0", "tcp://no-such-host.invalid:0", "nonsense"])
def test_an_address_that_cannot_be_bound(address: str) -> None:
    with pytest.raises(AddressError):
        make_server(address)


def test_nobody_there_is_a_rejection_within_the_limit(bench: Bench) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: nobody answers here
        dialer = bench.dialer(f"tcp://127.0.0.1:{unused.getsockname()[1]}", give_up_seconds=0.3)
        bench.until(lambda: "Rejected" in bench.kinds(dialer), "the rejection")
    (rejected,) = bench.events[dialer]
    assert isinstance(rejected, Rejected) and "is it running, at this address?" in rejected.text


# ---------------------------------------------------------------- versions


@pytest.mark.parametrize(("server_range", "dialer_range"), [((1, 1), (2, 3)), ((2, 4), (1, 1))])
def test_a_version_mismatch_is_one_sentence_for_the_dialer(
    bench: Bench, server_range: tuple[int, int], dialer_range: tuple[int, int]
) -> None:
    server = bench.server(version_min=server_range[0], version_max=server_range[1])
    dialer = bench.dialer(server.address, version=dialer_range)
    bench.until(lambda: "Rejected" in bench.kinds(dialer), "the rejection")
    (rejected,) = bench.events[dialer]
    assert isinstance(rejected, Rejected) and rejected.code == codes.VERSION_MISMATCH
    assert "upgrade" in rejected.text and rejected.text.count("speaks") == 2
    assert bench.events[server] == []


# ---------------------------------------------------------------- garbage


class Raw:
    """A DEALER that says what it likes."""

    def __init__(self, address: str, routing_id: bytes | None = None) -> None:
        self.socket = zmq_context().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.ROUTING_ID, routing_id or new_routing_id())
        self.socket.connect(address)

    def answer(self, bench: Bench, kind: type) -> object:
        found: list[object] = []

        def is_answered() -> bool:
            while self.socket.poll(0):
                message = decode(self.socket.recv_multipart()[0], ()).message
                if isinstance(message, kind):
                    found.append(message)
            return bool(found)

        bench.until(is_answered, f"a {kind.__name__} for the raw peer")
        return found[0]

    def close(self) -> None:
        self.socket.close()


def _opened_raw(bench: Bench, address: str) -> Raw:
    raw = Raw(address)
    raw.socket.send_multipart(encode(Hello(1, 1, role=codes.ROLE_CLIENT, peer_id=new_peer_id())))
    bench.until(lambda: bool(raw.socket.poll(0)), "the Welcome of the raw peer")
    raw.socket.recv_multipart()
    return raw


#: Well below what a connection without a session may send before it is closed (LIM-18): that is another answer.
ENVELOPE_BYTES = 65_536

GARBAGE = {
    "nothing": ([b""], codes.BAD_ENVELOPE),
    "noise": ([os.urandom(512)], codes.BAD_ENVELOPE),
    "text": ([b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], codes.BAD_ENVELOPE),
    "a truncated envelope": ([encode(Cancel(b"t" * 16), 1, 0)[0][:-8]], codes.BAD_ENVELOPE),
    "a payload too many": ([*encode(Cancel(b"t" * 16), 1, 0), b"x"], codes.BAD_FRAMING),
    "a hundred frames": ([*encode(Cancel(b"t" * 16), 1, 0), *[b"x"] * 100], codes.BAD_FRAMING),
    "ten thousand frames": ([*encode(Cancel(b"t" * 16), 1, 0), *[b""] * 10_000], codes.BAD_FRAMING),
    "an envelope beyond the limit": ([bytes(ENVELOPE_BYTES + 8)], codes.TOO_LARGE),
}


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("has_session", [False, True])
def test_garbage_is_answered_counted_and_nobody_elses_business(bench: Bench, name: str, has_session: bool) -> None:
    frames, code = GARBAGE[name]
    server = bench.server(limits=Limits(envelope_bytes=ENVELOPE_BYTES))
    bystander = bench.dialer(server.address)
    bench.open(bystander)
    raw = _opened_raw(bench, server.address) if has_session else Raw(server.address)
    try:
        raw.socket.send_multipart(frames)
        error = raw.answer(bench, Error)
    finally:
        raw.close()
    assert isinstance(error, Error) and error.code == code and error.text
    bench.ask(bystander, 1)
    assert server.rejected_count == 1
    assert bystander.generation == 1 and bench.kinds(bystander).count("Opened") == 1


def test_a_frame_beyond_every_limit_costs_its_sender_the_connection(bench: Bench) -> None:
    limits = Limits(payload_frame_bytes=100_000, envelope_bytes=100_000)
    server = bench.server(limits=limits)
    bystander = bench.dialer(server.address)
    bench.open(bystander)
    raw = Raw(server.address)
    raw.socket.send(bytes(1_000_000))
    bench.ask(bystander, 1)
    raw.close()
    assert bystander.generation == 1


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\nHost: scaler\r\n\r\n", os.urandom(4096), b"\0" * 64])
def test_bytes_that_are_not_even_zeromq(bench: Bench, data: bytes) -> None:
    server = bench.server()
    bystander = bench.dialer(server.address)
    bench.open(bystander)
    with socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])), timeout=5) as raw:
        raw.sendall(data)
        bench.ask(bystander, 1)
    bench.ask(bystander, 2)
    assert bystander.generation == 1


def test_a_flood_of_garbage_does_not_starve_a_bystander(bench: Bench) -> None:
    server = bench.server()
    bystander = bench.dialer(server.address)
    bench.open(bystander)
    flood = [Raw(server.address) for _ in range(4)]  # one would be closed for what it has sent (LIM-18)
    for raw in flood * 5_000:
        raw.socket.send(b"noise of no length in particular")
    bench.ask(bystander, 1)
    bench.until(lambda: server.rejected_count == 20_000, "the end of the flood")
    for raw in flood:
        answers = 0
        while raw.socket.poll(0):
            raw.socket.recv_multipart()
            answers += 1
        raw.close()
        assert answers <= 8 * PATIENCE_SECONDS, "a flood is not answered by another"


def test_no_socket_of_ours_sends_heartbeats_of_zeromq(bench: Bench) -> None:
    """libzmq aborts the process when one is due on a connection from which it no longer reads and that has broken."""
    server = bench.server()
    dialer = bench.dialer(server.address)
    bench.open(dialer)
    assert server._zeromq.socket.getsockopt(zmq.HEARTBEAT_IVL) == 0
    if isinstance(dialer._carrier, zeromq.ZeroMqDealer):
        assert dialer._carrier.socket.getsockopt(zmq.HEARTBEAT_IVL) == 0


def test_a_bad_routing_id_is_rejected_with_a_reason(bench: Bench) -> None:
    server = bench.server()
    raw = Raw(server.address, routing_id=b"me")
    raw.socket.send_multipart(encode(Hello(1, 1, role=codes.ROLE_CLIENT, peer_id=new_peer_id())))
    reject = raw.answer(bench, Reject)
    raw.close()
    assert isinstance(reject, Reject) and reject.code == codes.BAD_IDENTITY


def test_a_server_that_talks_nonsense_is_a_rejection(bench: Bench) -> None:
    with zmq_context().socket(zmq.ROUTER) as stranger:
        stranger.setsockopt(zmq.LINGER, 0)
        port = stranger.bind_to_random_port("tcp://127.0.0.1")
        dialer = bench.dialer(f"tcp://127.0.0.1:{port}")
        bench.until(lambda: bool(stranger.poll(0)), "the Hello")
        routing_id = stranger.recv_multipart()[0]
        stranger.send_multipart([routing_id, b"220 mail.example.org ESMTP"])
        bench.until(lambda: "Rejected" in bench.kinds(dialer), "the rejection")
    (rejected,) = bench.events[dialer]
    assert isinstance(rejected, Rejected) and "this is no scheduler" in rejected.text


# ---------------------------------------------------------------- restarts


def test_a_restarted_server_is_found_again(bench: Bench) -> None:
    """The dialer keeps sending while nobody is there: what reaches the successor before a Hello is answered
    NO_SESSION, and the role is told that the old session is over."""
    server = bench.server()
    dialer = bench.dialer(server.address)
    bench.open(dialer)
    bench.ask(dialer, 1)
    bench.endpoints.remove(server)
    crash(server)
    dialer.send(Cancel(b"x" * 16))
    successor = bench.successor(server.address)
    bench.until(lambda: bench.kinds(dialer).count("Opened") == 2, "a session with the successor")
    assert bench.kinds(dialer)[-2:] == ["Lost", "Opened"]
    bench.ask(dialer, 2)
    assert bench.kinds(successor)[0] == "Opened"


def test_a_dial_for_which_there_is_no_descriptor_left_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = bench.server()
    dialer = bench.dialer(server.address)
    bench.open(dialer)
    bench.endpoints.remove(server)
    crash(server)
    dials = []

    def fail() -> NoReturn:
        dials.append(errno.EMFILE)
        raise zmq.ZMQError(errno.EMFILE)

    def fail_on_the_lane() -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(sockets, "zmq_context", fail)
        patch.setattr(lane, "_new_socket", fail_on_the_lane)
        bench.until(lambda: len(dials) == 2, "two dials")
    bench.successor(server.address)
    was_on_lane = isinstance(dialer._carrier, LaneDealer)
    bench.until(lambda: bench.kinds(dialer).count("Opened") == 2, "a session with the successor")
    bench.ask(dialer, 1)
    bench.until(lambda: isinstance(dialer._carrier, LaneDealer) == was_on_lane, "the same way as before")


def test_a_server_that_closes_says_goodbye(bench: Bench) -> None:
    server = bench.server()
    dialer = bench.dialer(server.address)
    bench.open(dialer)
    bench.remove(server)
    bench.until(lambda: "Lost" in bench.kinds(dialer), "the goodbye")
    lost = bench.events[dialer][-1]
    assert isinstance(lost, Lost) and lost.code == codes.SHUTTING_DOWN and lost.is_orderly
    assert dialer.next_deadline() is None, "nothing more happens by itself"
    bench.successor(server.address)
    dialer.redial()
    bench.until(lambda: bench.kinds(dialer).count("Opened") == 2, "a session with the successor")


def test_a_dialer_that_dies_is_noticed_though_nobody_sends_it_anything(bench: Bench) -> None:
    server = bench.server(reconnect_grace_seconds=0.2)
    dialer = bench.dialer(server.address)
    bench.open(dialer)
    bench.endpoints.remove(dialer)
    crash(dialer)
    began_at = time.monotonic()
    bench.until(lambda: "Lost" in bench.kinds(server), "the loss")
    assert time.monotonic() - began_at < 5.0, "long before the lease of 10 s"


# ---------------------------------------------------------------- processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_a_context_is_not_inherited() -> None:
    own = zmq_context()
    assert zmq_context() is own
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, b"other" if zmq_context() is not own else b"same")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 16) == b"other"
    os.close(reading)
    os.close(writing)


def test_a_process_ends_though_one_of_its_sockets_is_open() -> None:
    """libzmq would wait for it for ever. A socket that no endpoint has, such as one of a program's own, counts too."""
    program = "import zmq; from scaler_protocol.transport import zmq_context; kept = zmq_context().socket(zmq.DEALER)"
    ended = subprocess.run([sys.executable, "-c", program], timeout=PATIENCE_SECONDS, check=False)
    assert ended.returncode == 0


ENDING = """
import os
from scaler_protocol.transport import context, end_context, zmq_context
from tests.support.endpoints import Bench
bench = Bench()
server = bench.server()
bench.open(bench.dialer(server.address))
own = zmq_context()
bench.close()
end_context()
print(own.closed)
"""


@pytest.mark.parametrize(
    ("off", "is_ended"),
    (
        pytest.param("", False, marks=pytest.mark.skipif(not lane.is_offered(), reason="the local lane is Linux's")),
        ("1", True),
    ),
    ids=("lane", "zeromq"),
)
def test_a_context_is_ended_if_something_may_have_to_leave(off: str, is_ended: bool) -> None:
    """Over ZeroMQ the goodbyes were sent just now. On the lane the kernel has them."""
    environment = {**os.environ, lane.OFF_VARIABLE: off, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert ended.stdout.strip() == str(is_ended)


# ---------------------------------------------------------------- floods


@pytest.mark.parametrize("is_server", [True, False])
def test_no_socket_of_ours_has_a_receiving_mark(is_server: bool) -> None:  # FRM-12
    """libzmq aborts the process when a PING is among what waits at the mark and the connection breaks."""
    address = parse_address("tcp://127.0.0.1:*", is_bind=True)
    bound = sockets.bound_router(address, Limits())
    made = bound if is_server else sockets.connected_dealer(parse_address("tcp://127.0.0.1:1"), Limits())
    try:
        assert made.getsockopt(zmq.RCVHWM) == made.getsockopt(zmq.SNDHWM) == 0
    finally:
        made.close(0)
        bound.close(0)


def test_a_flood_leaves_time_for_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a budget of no time a turn reads one message of one connection, and all have their turn."""
    monkeypatch.setattr(zeromq, "BUDGET_SECONDS", -1.0)
    server = bench.server()
    floods = [bench.dialer(server.address) for _ in range(3)]
    for flood in floods:
        bench.open(flood)
        for number in range(300):
            flood.send(Cancel(number.to_bytes(16, "little") * 1_000))
    bystander = bench.dialer(server.address)
    bench.open(bystander)
    bench.ask(bystander, 1)
    assert server.received_counts["Cancel"] < 900, "the bystander did not wait for the end of the flood"


def test_a_peer_that_dies_in_a_flood_of_others_is_noticed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although there is something to read in every turn. (LIV-11)"""
    monkeypatch.setattr(router, "_BUSY_SECONDS", 0.02)
    server = bench.server(timers=Timers(0.05, 0.3), reconnect_grace_seconds=0.1)
    mourned = bench.dialer(server.address)
    bench.open(mourned)
    bench.endpoints.remove(mourned)
    crash(mourned)
    monkeypatch.setattr(RouterEndpoint, "_drain", lambda endpoint, now: False)
    bench.until(lambda: "Lost" in bench.kinds(server), "the end of its lease")
