"""Hostile peers: a legal conversation with one named deviation, and a bystander who must not notice (FRM-9)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from scaler_conformance.case import cases_for
from scaler_conformance.play import deviations
from scaler_conformance.play.bystander import Bystander
from scaler_conformance.play.samples import forbidden_kinds, rights, samples
from scaler_conformance.scene import Scene
from scaler_conformance.verdicts import Breach
from scaler_conformance.wire import CODES, Message, encode

case = cases_for("scheduler", "storage", layer="hostile")


def _register(deviation: deviations.Deviation) -> None:
    def play(scene: Scene) -> None:
        bystander = Bystander(scene)
        bystander.goes_on()
        deviation.act(scene)
        bystander.goes_on()

    play.__name__ = deviation.name.replace(" ", "_")
    play.__doc__ = f"{deviation.name}, and a bystander"
    cases_for(*deviation.roles, layer="hostile")(deviation.clause, "FRM-9", seconds=40.0)(play)


for _each in deviations.ALL:
    _register(_each)


@dataclass(frozen=True)
class Noise:
    name: str
    make: Callable[[], bytes]


#: A greeting as ZeroMQ sends it (signature, version 3.1, NULL), then nonsense instead of the READY command.
ZMTP = b"\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL" + bytes(16) + b"\0" + bytes(31) + b"\x04\xffnonsense" * 20
NOISES = (
    Noise("an HTTP request", lambda: b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"),
    Noise("a TLS greeting", lambda: bytes.fromhex("16030100c8010000c40303") + bytes(range(200))),
    Noise("a broken ZMTP greeting", lambda: ZMTP),
    Noise("64 KiB of zeros", lambda: bytes(65_536)),
    Noise("64 KiB of noise", lambda: bytes((index * 167 + 13) % 256 for index in range(65_536))),
    Noise("nothing", lambda: b""),
)


def _broken(kind: str, seq: int, ack: int) -> bytes:
    """A message of this kind whose fields cannot be read, as its struct lies far beyond the envelope."""
    sample = samples()[kind]
    (envelope, *_) = encode(Message(kind, sample.body, seq, ack, tuple(sample.payload)))
    at = 8 + 8 + 24  # the segment table, the root pointer, the words of the envelope
    pointer = struct.unpack_from("<Q", envelope, at)[0] & ~0xFFFFFFFC | (1 << 24) << 2
    return envelope[:at] + struct.pack("<Q", pointer) + envelope[at + 8 :]


@case("FRM-20", "HSK-13")
def what_a_role_may_not_send_is_not_read(scene: Scene) -> None:
    """Were it read, it would be a bad envelope."""
    for role in rights()[scene.role]:
        peer = scene.peer(role)
        for kind in forbidden_kinds(scene.role, role):
            seq = peer.next_seq()
            frames = [_broken(kind, seq, peer.received_seq), *samples()[kind].payload]
            what = f"#{seq}   {kind} that cannot be read"
            peer.refused(frames, what, CODES.NOT_ALLOWED, ref_seq=seq, clause="FRM-20")


@case("FRM-20", "HSK-9")
def what_a_stranger_sends_is_not_read(scene: Scene) -> None:
    for kind in ("ping", "workerStatus", "managerStatus", "clusterStatus"):
        peer = scene.peer(is_open=False)
        peer.connect()
        peer.raw([_broken(kind, 1, 0)], f"#1   {kind} that cannot be read")
        peer.expect_error(CODES.NO_SESSION, fatal=True, ref_seq=1, clause="FRM-20")


@case("FRM-9", "SEC-4", seconds=40.0)
def strangers_from_other_protocols(scene: Scene) -> None:
    """Connections that speak anything but this protocol."""
    bystander = Bystander(scene)
    bystander.goes_on()
    host, _, port = scene.arena.address.removeprefix("tcp://").rpartition(":")
    for noise in NOISES:
        scene.transcript.note("stranger", f"connects and sends {noise.name}")
        try:
            with socket.create_connection((host, int(port)), timeout=2) as connection:
                connection.settimeout(0.05)
                connection.sendall(noise.make())
                connection.recv(4096)
        except OSError:
            pass  # that it hangs up, or waits for more, is its right
        bystander.goes_on()


@case("FRM-9", "FRM-8", seconds=40.0)
def unreadable_messages_with_a_session_and_without(scene: Scene) -> None:
    """In a connection that is let in: a server with keys does not get to read what strangers send."""
    bystander = Bystander(scene)
    bystander.goes_on()
    for has_session in (True, False):
        peer = scene.peer(is_open=has_session)
        if not has_session:
            peer.connect()
        peer.raw([b"\xff" * 64], "noise instead of an envelope")
        bystander.goes_on()


@case("SEC-4", "FRM-9", seconds=40.0)
def two_hundred_strangers_that_connect_and_say_nothing(scene: Scene) -> None:
    bystander = Bystander(scene)
    bystander.goes_on()
    host, _, port = scene.arena.address.removeprefix("tcp://").rpartition(":")
    connections: list[socket.socket] = []
    try:
        while len(connections) < 200:
            connections.append(socket.create_connection((host, int(port)), timeout=2))
        bystander.goes_on()
    except OSError as error:
        raise Breach(f"connection {len(connections) + 1} of 200 was not accepted: {error}", "SEC-4") from None
    finally:
        for connection in connections:
            connection.close()
    bystander.goes_on()
