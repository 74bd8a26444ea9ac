"""Families below messages: bytes that are no greeting, frames that make no message, connections that say nothing."""

from __future__ import annotations

import socket
import struct

from tests.fuzz.attack import Attack
from tests.fuzz.families import BOTH, family, raw_wire, rest
from tests.fuzz.wire import Wire, frame, greeting


@family()
def garbage(attack: Attack) -> None:
    chance = attack.chance
    noises = (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\xc8\x01",
        greeting()[:20],
        greeting(minor=0),
        greeting(b"CURVE"),
    )
    while attack.is_on:
        peer = raw_wire(attack, chance.choice(BOTH), is_greeting=False)
        peer.say(chance.choice(noises) + chance.randbytes(chance.randrange(2000)))
        attack.count()
        peer.close()


@family()
def commands(attack: Attack) -> None:
    """ZMTP frames that make no message: commands without end, flags that do not exist, lengths of 2^63."""
    chance = attack.chance
    while attack.is_on:
        peer = raw_wire(attack, chance.choice(BOTH))
        for _ in range(chance.randrange(1, 10)):
            head = bytes([chance.randrange(256)])
            size = chance.choice((0, 1, 255, 2**31, 2**63, 2**64 - 1))
            peer.say(head + struct.pack(">Q", size) + chance.randbytes(chance.randrange(100)))
            attack.count()
        peer.close()


@family()
def idle_connections(attack: Attack) -> None:
    """They greet, and then say nothing."""
    held: list[Wire] = []
    while attack.is_on:
        if len(held) < 400:
            held.append(raw_wire(attack, attack.chance.choice(BOTH)))
            attack.count()
        else:
            rest()


@family()
def half_open(attack: Attack) -> None:
    """They do not even greet."""
    held: list[socket.socket] = []
    while attack.is_on:
        if len(held) >= 400:
            rest()
            continue
        try:
            one = socket.create_connection(("127.0.0.1", attack.port + attack.chance.choice(BOTH)), timeout=1)
            one.sendall(greeting()[: attack.chance.randrange(64)])
        except OSError:
            rest()
            continue
        attack.at_end(one.close)
        held.append(one)
        attack.count()


@family()
def endless_messages(attack: Attack) -> None:
    """Frames that each say that another one follows, from connections that have said no Hello."""
    peer = raw_wire(attack, attack.chance.choice(BOTH))
    block = frame(bytes(65_536), more=True) * 16
    while attack.is_on:
        if not peer.say(block):
            rest()
            peer = raw_wire(attack, attack.chance.choice(BOTH))
        attack.count(16)
