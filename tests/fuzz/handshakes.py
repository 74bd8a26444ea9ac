"""Families below the first message: cut, changed and endless handshakes, and commands of ZMTP."""

from __future__ import annotations

import secrets
import select
import socket
import struct
import threading

import zmq

from scaler_conformance.play.samples import samples
from scaler_conformance.wire import encode
from tests.fuzz.attack import Attack
from tests.fuzz.families import BOTH, CLIENT, Peer, family, raw_wire, rest, wire
from tests.fuzz.mutations import hello, numbered
from tests.fuzz.wire import greeting, ready

_LARGE_SIZES = (1 << 20, 60 << 20, 127 << 20, 129 << 20, 2**31, 2**63 - 1, 2**64 - 1)


class Cutter:
    """Passes bytes on between a dialer and a server; of the dialer's, from a place on, cut, changed or doubled."""

    def __init__(self, attack: Attack, port: int) -> None:
        self._attack, self._port = attack, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.port = self._listener.getsockname()[1]
        #: what is done with the dialer's bytes
        self.at, self.how = 0, "cut"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="cutter", daemon=True)
        self._thread.start()
        attack.at_end(self.close)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._is_over.is_set():
            try:
                dialer, _ = self._listener.accept()
            except OSError:
                continue
            with dialer:
                self._pass(dialer)

    def _pass(self, dialer: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._port), timeout=0.5)
        except OSError:
            return
        with server:
            passed, is_bent = 0, False
            while not self._is_over.is_set():
                try:
                    for one in select.select([dialer, server], [], [], 0.05)[0]:
                        said = _read(one)
                        if one is server:
                            dialer.sendall(said)
                            continue
                        if not is_bent and passed + len(said) > self.at:
                            is_bent = True
                            said = self._bent(said, self.at - passed)
                            self._attack.count()
                        passed += len(said)
                        server.sendall(said)
                except OSError:
                    return
                if is_bent and self.how == "cut":
                    return

    def _bent(self, said: bytes, at: int) -> bytes:
        chance, head, tail = self._attack.chance, said[:at], said[at:]
        if self.how == "cut":
            return head
        if self.how == "flip":
            return head + bytes([tail[0] ^ (1 << chance.randrange(8))]) + tail[1:]
        if self.how == "double":
            return said + said
        return head + chance.randbytes(chance.randrange(1, 300)) + tail


def _read(one: socket.socket) -> bytes:
    """What is there. Raises ConnectionError at the end."""
    said = one.recv(1 << 16)
    if not said:
        raise ConnectionError
    return said


@family()
def bent_handshakes(attack: Attack) -> None:
    """A true dialer behind a wire that cuts, changes, doubles or inserts bytes at each place of greeting, handshake and
    Hello in turn."""
    cutters = [Cutter(attack, attack.port + at) for at in BOTH]
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    attack.at_end(lambda: context.destroy(500))
    said = encode(hello(attack.chance, CLIENT, credential=attack.scene.access.ticket(CLIENT)))
    while attack.is_on:
        cutter = attack.chance.choice(cutters)
        cutter.at, cutter.how = attack.chance.randrange(700), attack.chance.choice(("cut", "flip", "double", "insert"))
        before = attack.inputs
        dialer = attack.scene.access.dealer(context, cutter.port, CLIENT)
        try:
            dialer.send_multipart(said, zmq.NOBLOCK)
        except zmq.ZMQError:
            pass
        for _ in range(10):
            rest(0.01)
            if attack.inputs > before:
                break
        dialer.close(500)


@family()
def endless_handshakes(attack: Attack) -> None:
    """A step of the handshake, or a first message, of a length that is allowed for values: in many connections at once,
    each of which sends as much of it as it can."""
    chance = attack.chance
    while attack.is_on:
        held = []
        for _ in range(chance.randrange(1, 12)):
            one = raw_wire(attack, chance.choice(BOTH), is_greeting=False)
            one.say(greeting(chance.choice((b"NULL", b"CURVE", b"PLAIN", b"GSSAPI"))))
            if chance.random() < 0.5:
                one.say(ready(chance.choice((b"DEALER", b"ROUTER", b"SUB", b"")), secrets.token_bytes(16)))
            one.say(bytes([chance.choice((2, 3, 6))]) + struct.pack(">Q", chance.choice(_LARGE_SIZES)))
            held.append(one)
        block = bytes(1 << 20)
        for _ in range(20):
            for one in held:
                attack.count()
                one.say(block)
            if all(one.is_closed for one in held) or not attack.is_on:
                break
        for one in held:
            one.close()


_COMMANDS = (b"PONG", b"READY", b"ERROR", b"SUBSCRIBE", b"CANCEL", b"JOIN", b"LEAVE", b"MESSAGE", b"\xff", b"")


@family()
def zmtp_commands(attack: Attack) -> None:
    """Commands of ZMTP and such as do not exist, PINGs most of all, before and between messages, with contexts of any
    length; with the keys of this run if it has any, and often reset while the messages wait to be read."""
    chance, access = attack.chance, attack.scene.access
    while attack.is_on:
        peer = access.by_hand(attack.port + chance.choice(BOTH))
        attack.at_end(peer.close)
        if access.may_have_sessions and chance.random() < 0.5:
            peer.send(encode(hello(chance, CLIENT, credential=access.ticket(CLIENT))))
        names = chance.choice(((*_COMMANDS, b"PING"), (b"PING",)))
        said = []
        for number in range(chance.randrange(1, 200)):
            name = chance.choice(names)
            body = bytes([len(name)]) + name + chance.randbytes(chance.choice((0, 1, 2, 10, 16, 18, 300, 70_000)))
            said.append(peer.packed(body, more=chance.random() < 0.01, is_command=chance.random() < 0.95))
            if chance.random() < 0.5:
                said += [peer.packed(numbered(encode(samples()["ping"])[0], number + 1))] * chance.randrange(30)
        attack.count(len(said))
        peer.say(b"".join(said))
        chance.choice((peer.close, peer.reset, peer.reset))()


@family(has_sessions=True)
def part_counts(attack: Attack) -> None:
    """Messages of any number of frames, empty ones among them, with and without a session."""
    chance = attack.chance
    envelope = encode(samples()["ping"])[0]
    while attack.is_on:
        at = chance.choice(BOTH)
        peer = Peer(attack, at, CLIENT) if chance.random() < 0.5 else None
        one = wire(attack, at) if peer is None else peer.wire
        for number in range(chance.randrange(1, 30)):
            count = chance.choice((1, 2, 3, 4, 5, 6, 100, 4_095, 4_096, 4_097, 20_000))
            part = chance.choice((b"", b"x", numbered(envelope, number + 1)))
            attack.count(place="" if peer is None else peer.place)
            if not one.send([chance.choice((b"", numbered(envelope, number + 1))), *[part] * (count - 1)]):
                break
        one.close()
