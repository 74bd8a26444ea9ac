"""Families that keep every bound of one message: crowds, lies of the session, and what is dear because of its shape."""

from __future__ import annotations

import itertools
import secrets
import socket
import struct
from dataclasses import replace
from typing import Any

from scaler_conformance.play.samples import samples
from scaler_conformance.wire import CODES, Message, encode
from tests.fuzz.attack import Attack
from tests.fuzz.families import (
    AT_P,
    BOTH,
    CLIENT,
    MONITOR,
    NOBODYS,
    WORKER,
    Keeper,
    Peer,
    family,
    in_turns,
    own_header,
    rest,
    submission,
    wire,
)
from tests.fuzz.mutations import Frames, frames, new_id
from tests.fuzz.wire import frame, greeting

MOST_HELD = 600
_ODD_ACKS = (0, 1, 2, 3, 2**16, 2**32, 2**63, 2**64 - 1)


# ---------------------------------------------------------------- before a session


@family()
def slow_greetings(attack: Attack) -> None:
    """Very many connections, each of which says its greeting a byte at a time."""
    held: list[tuple[socket.socket, bytes]] = []
    while attack.is_on:
        held = [(one, left[1:]) for one, left in held if _said(one, left[:1])]
        attack.count(len(held))
        for _ in range(min(20, MOST_HELD - len(held))):
            if (one := _dialed(attack, attack.chance.choice(BOTH))) is not None:
                held.append((one, greeting(attack.chance.choice((b"NULL", b"CURVE"))) * 2))
        rest()


@family()
def half_open_handshakes(attack: Attack) -> None:
    """The first step of CURVE by the thousand, never the second; with a key, and without."""
    held: list[socket.socket] = []
    while attack.is_on:
        one = _dialed(attack, attack.chance.choice(BOTH))
        if one is None:
            rest()
            continue
        step = b"\x05HELLO" + bytes([1, 0]) + bytes(72) + attack.chance.randbytes(120)
        _said(one, greeting(b"CURVE") + frame(step, is_command=True))
        attack.count()
        held.append(one)
        if len(held) > MOST_HELD:
            held.pop(0).close()


def _dialed(attack: Attack, at: int) -> socket.socket | None:
    try:
        one = socket.create_connection(("127.0.0.1", attack.port + at), timeout=0.5)
    except OSError:
        return None
    attack.at_end(one.close)
    return one


def _said(one: socket.socket, data: bytes) -> bool:
    try:
        one.sendall(data)
    except OSError:
        one.close()
        return False
    return bool(data)


# ---------------------------------------------------------------- lies of the session


@family(has_sessions=True)
def lies(attack: Attack) -> None:
    """Acknowledgements of what was never sent, or back and forth; windows, credits and heartbeats that cannot be."""
    chance = attack.chance
    while attack.is_on:
        timers = {
            "heartbeatSeconds": chance.choice((0.0, 1e-300, 1e-9, 0.5, 1e30)),
            "leaseSeconds": chance.choice((0.0, 1e-9, 3.0, 1e300)),
        }
        role = chance.choice((CLIENT, WORKER, MONITOR))
        fields: dict[str, Any] = {"timers": timers, "resultWindowBytes": chance.choice((0, 1, 2**63, 2**64 - 1))}
        if role == WORKER:
            offer = samples()["hello"].body["worker"]
            fields["worker"] = {**offer, "name": "hostile", "credit": chance.choice((0, 2**31, 2**32 - 1))}
        peer = Peer(attack, AT_P, role, **fields)
        for _ in range(chance.randrange(1, 40)):
            peer.seq += 1
            said = replace(samples()["ping"], seq=peer.seq, ack=chance.choice(_ODD_ACKS))
            attack.count(place=peer.place)
            if not peer.wire.send(encode(said)):
                break
        peer.wire.drop_what_came()
        peer.wire.close()


@family(has_sessions=True)
def resume_storms(attack: Attack) -> None:
    """Workers that answer for tasks they do not hold, faster than that is worked off, and resume at once when they are
    held back."""
    made, peer = _results(20_000), Peer(attack, AT_P, WORKER)
    while attack.is_on:
        for _ in range(attack.chance.choice((3, 30))):
            peer.send(made)
        body = dict(peer.hello.body)
        body["resume"] = {"sessionId": attack.chance.choice((1, peer.session_id, peer.session_id)), "receivedSeq": 0}
        peer.wire.close()
        peer.wire = wire(attack, AT_P, WORKER)
        peer.wire.send(encode(Message("hello", body)))
        attack.count()
        answer = next(iter(peer.wire.received(0.05)), None)
        if (answer is not None and not peer.take_welcome(answer)) or attack.chance.random() < 0.1:
            peer.wire.close()
            peer = Peer(attack, AT_P, WORKER)


# ---------------------------------------------------------------- crowds, each within its bounds


@family(has_sessions=True)
def half_of_its_bounds(attack: Attack) -> None:
    """Forty workers, each with four megabytes of work, and forty readers of the storage that read nothing."""
    made, object_id, body = _results(20_000), secrets.token_bytes(16), bytes(1 << 20)
    workers: list[Peer] = []
    while attack.is_on:
        if len(workers) < 40:
            workers.append(Peer(attack, AT_P, WORKER))
            reader = Keeper(attack)
            reader.send(reader.put(object_id, body))
            reader.say(reader.get(object_id), 16)
        for worker in workers:
            if not worker.wire.is_closed and attack.is_on:
                worker.send(*[made] * 12)
                worker.wire.close()
        rest()
        workers = [worker for worker in workers if not worker.wire.is_closed]


def _results(count: int) -> Frames:
    ids, sizes = secrets.token_bytes(16 * count), struct.pack("<I", 1) * count
    return frames("results", payload=[b"x" * count], ids=ids, sizes=sizes)


@family(has_sessions=True, least_accepted=0.3)
def tiny_things(attack: Attack) -> None:
    """Very many owners that own nothing, or one byte; functions with names; releases of what is not there."""
    chance, marker = attack.chance, b"\xaa" * 16

    kinds = itertools.cycle(("put", "release", "owner", "put", "name"))

    def step(peer: Keeper) -> bool:
        kind = next(kinds)
        made = {
            "put": peer.put(marker, b"x"),
            "release": frames("release", ids=marker * 1_000, requestId=1, **peer.named),
            "owner": frames("put", payload=[b"x"], objectId=new_id(chance), owner=marker, totalBytes=1, requestId=1),
            "name": frames("releaseOwner", owner=marker, requestId=1),
        }[kind]
        at = made[0].find(marker)

        def vary(envelope: bytearray) -> None:
            envelope[at : at + 16] = new_id(chance)

        attack.keeps(100)
        is_on = peer.say(made, 100, vary)
        peer.wire.drop_what_came()
        return is_on

    in_turns(attack, lambda: Keeper(attack), step, peers=3)


# ---------------------------------------------------------------- shapes


@family(has_sessions=True, least_accepted=0.5)
def fans(attack: Attack) -> None:
    """Graphs in which a few tasks need very many, and very many need the same few."""
    chance = attack.chance

    def fan_in(ids: list[bytes]) -> tuple[bytes, bytes]:
        half = len(ids) // 2
        counts = [0] * half + [half // 2] * 8 + [0] * (len(ids) - half - 8)
        return struct.pack(f"<{len(ids)}H", *counts), b"".join([*ids[: half // 2]] * 8)

    def fan_out(ids: list[bytes]) -> tuple[bytes, bytes]:
        counts = [0] * 8 + [8] * (len(ids) - 8)
        return struct.pack(f"<{len(ids)}H", *counts), b"".join(ids[:8]) * (len(ids) - 8)

    while attack.is_on:
        peer = Peer(attack, AT_P, CLIENT)
        for _ in range(chance.randrange(1, 4)):
            peer.send(submission(10_000, chance.choice((fan_in, fan_out))))
        peer.send(frames("cancel", isAll=True))
        list(peer.wire.received(0.2))
        peer.wire.close()


@family(has_sessions=True, least_accepted=0.5)
def unread_cancels(attack: Attack) -> None:
    """Submit and Cancel in turns, without ever reading an answer: of all, of the same ones many times, of no task."""
    chance = attack.chance

    def step(peer: Peer) -> bool:
        made = submission(chance.choice((1, 100, 2_000)))
        cancels = (
            frames("cancel", isAll=True),
            frames("cancel", ids=secrets.token_bytes(16) * 2_000),
            frames("cancel", ids=secrets.token_bytes(16 * 2_000)),
        )
        return peer.send(made, chance.choice(cancels))

    in_turns(attack, lambda: Peer(attack, AT_P, CLIENT), step, peers=4)


@family(has_sessions=True, least_accepted=0.5)
def unread_replies(attack: Attack) -> None:
    """What costs a server nothing to answer, without ever reading an answer: pings, releases, objects that do not
    exist, behind Gets that wait until the peer reads."""
    object_id, body = secrets.token_bytes(16), bytes(60_000)
    at_p = [frames("ping"), frames("explain", requestId=2, taskId=bytes(16)), frames("cancel", ids=bytes(16))]

    def make() -> Peer:
        if attack.chance.choice(BOTH) == AT_P:
            return Peer(attack, AT_P, CLIENT)
        peer = Keeper(attack)
        peer.send(peer.put(object_id, body))
        return peer

    def asked(peer: Peer) -> list[Frames]:
        if not isinstance(peer, Keeper):
            return at_p
        return [
            peer.get(object_id),
            peer.get(bytes(15) + b"x"),
            frames("release", requestId=2, ids=bytes(16), **peer.named),
            frames("storageStatusRequest", requestId=2),
            frames("ping"),
        ]

    def step(peer: Peer) -> bool:
        return peer.say(attack.chance.choice(asked(peer)), attack.chance.choice((1, 50, 300)))

    in_turns(attack, make, step, peers=8)


@family(has_sessions=True, least_accepted=0.2)
def the_same_again(attack: Attack) -> None:
    """The same batch again and again, batches of one id, and tasks that need themselves."""
    chance = attack.chance

    def of_one(ids: list[bytes]) -> tuple[bytes, bytes]:
        return struct.pack(f"<{len(ids)}H", *[1] * len(ids)), b"".join(ids)

    def step(peer: Peer) -> bool:
        count = chance.choice((1, 1_000))
        made = submission(count, chance.choice((None, of_one)))
        one = secrets.token_bytes(16) * count
        doubled = frames("submit", payload=[b"x" * count], ids=one, partSizes=struct.pack("<I", 1) * count)
        return peer.send(made, made, doubled, frames("cancel", isAll=True))

    in_turns(attack, lambda: Peer(attack, AT_P, CLIENT), step, peers=2)


@family(has_sessions=True, least_accepted=0.5)
def explanations(attack: Attack) -> None:
    """Clients that ask where their task is, of very many that wait, and do not read the answers."""

    def make() -> Peer:
        peer = Peer(attack, AT_P, CLIENT)
        peer.send(submission(5_000))
        return peer

    in_turns(attack, make, lambda peer: peer.say(frames("explain", requestId=1, taskId=b"\1" * 16), 200), peers=3)


@family(has_sessions=True, least_accepted=0.5)
def sums(attack: Attack) -> None:
    """A task that takes the values of as many others as a message has room for, or names them and takes each again and
    again."""
    chance = attack.chance
    for turn in itertools.count():
        if not attack.is_on:
            return
        is_whole = turn % 2 == 0  # the others are in the same batch, which has room for fewer
        others = [bytes([1]) + secrets.token_bytes(15) for _ in range(20_000 if is_whole else 65_535)]
        named, taken = others, others if chance.random() < 0.5 else others[-1:] * len(others)
        if not is_whole and chance.random() < 0.3:  # the last is none of them
            taken = [*taken[:-1], secrets.token_bytes(16)]
        first = len(others) if is_whole else 0
        peer = Peer(attack, AT_P, CLIENT)
        peer.send(
            frames(
                "submit", payload=[b"x" * first + b"".join(taken)],
                header={**own_header(), "capabilities": NOBODYS},
                ids=b"".join(others[:first]) + bytes([2]) + secrets.token_bytes(15),
                partCounts=struct.pack(f"<{first + 1}H", *[1] * first, len(taken)),
                partKinds=bytes([CODES.KIND_INLINE]) * first + bytes([CODES.KIND_TASK]) * len(taken),
                partSizes=struct.pack("<I", 1) * first + struct.pack("<I", 16) * len(taken),
                dependencyCounts=struct.pack(f"<{first + 1}H", *[0] * first, len(named)),
                dependencies=b"".join(named),
            )
        )  # fmt: skip
        list(peer.wire.received(0.2))
        peer.wire.close()
