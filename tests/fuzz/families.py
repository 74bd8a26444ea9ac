"""The ways to be hostile. Each is a function that goes on until the attack is over, and counts what it has sent."""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scaler_conformance.play import damage
from scaler_conformance.play.samples import samples
from scaler_conformance.wire import Message, decode, encode
from tests.fuzz import mutations
from tests.fuzz.attack import Attack
from tests.fuzz.curve import CurveWire
from tests.fuzz.mutations import Frames, frames, hello, numbered
from tests.fuzz.wire import Wire, frame, greeting

CLIENT, WORKER, SCHEDULER, MONITOR, MANAGER = 1, 2, 3, 4, 5
ROLES = (CLIENT, WORKER, SCHEDULER, MONITOR, MANAGER)
AT_P, AT_STORAGE = 0, 1
BOTH = (AT_P, AT_STORAGE)
PORTS = ("p", "p+1", "p+2")
ROLE_NAMES = {CLIENT: "client", WORKER: "worker", SCHEDULER: "scheduler", MONITOR: "monitor", MANAGER: "manager"}


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    run: Callable[[Attack], None]
    has_sessions: bool  #: it attacks from within sessions, and nothing if it gets none
    place: str  #: where inputs go that are in no session
    needs_keys: bool = False  #: it attacks what only tickets can keep apart


FAMILIES: dict[str, Family] = {}


Run = Callable[[Attack], None]


def family(
    *, has_sessions: bool = False, place: str = "p and p+1, no session", needs_keys: bool = False
) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        name = run.__name__.replace("_", "-")
        FAMILIES[name] = Family(name, run, has_sessions, place, needs_keys)
        return run

    return register


# ---------------------------------------------------------------- peers


def raw_wire(attack: Attack, at: int, kind: bytes = b"DEALER", *, is_greeting: bool = True) -> Wire:
    """By hand, and without any key: below what a key is asked for."""
    made = Wire(attack.port + at, kind, is_greeting=is_greeting)
    attack.at_end(made.close)
    return made


def wire(attack: Attack, at: int, role: int = CLIENT) -> Wire | CurveWire:
    """With what the hostile peers of this run have."""
    made = attack.scene.access.connect(attack.port + at, role)
    attack.at_end(made.close)
    return made


def hello_to(attack: Attack, at: int, role: int, **fields: Any) -> Message:
    """A Hello in this role. Where there are keys, the scheduler has its one standby: another scheduler is let in if it
    says that it serves. Without keys, the scheduler would end for it."""
    if role == SCHEDULER and at != AT_STORAGE and not attack.scene.access.is_insecure:
        fields["servingGeneration"] = 1
    return hello(attack.chance, role, **fields)


class Peer:
    """A connection with a session: numbers are right, all else is the family's."""

    def __init__(self, attack: Attack, at: int, role: int, **fields: Any) -> None:
        self.wire = wire(attack, at, role)
        self.seq = self.session_id = 0
        self.place = f"{PORTS[at]}, {ROLE_NAMES[role]}"
        self._attack = attack
        self.hello = hello_to(attack, at, role, credential=attack.scene.access.ticket(role), **fields)
        self.is_welcome = self.wire.send(encode(self.hello)) and self._is_answered()
        attack.sessions += self.is_welcome
        if not self.is_welcome:
            attack.count()  # the Hello: a stranger gets no further

    @property
    def peer_id(self) -> bytes:
        return bytes(self.hello.body["peerId"])

    def _is_answered(self) -> bool:
        return self.take_welcome(next(iter(self.wire.received(2.0)), None))

    def take_welcome(self, answer: Frames | None) -> bool:
        """Whether it is one: the session goes on where the server has received everything."""
        if answer is None or (welcome := decode(answer, is_lenient=True)).kind != "welcome":
            return False
        self.session_id, self.seq = int(welcome.body["sessionId"]), int(welcome.body["receivedSeq"])
        return True

    def send(self, *messages: Frames) -> bool:
        """Numbers them, in the envelope that our encoder has made."""
        numbered_ones = []
        for made in messages:
            self.seq += 1
            numbered_ones.append([numbered(made[0], self.seq), *made[1:]])
        self._attack.count(len(messages), self.place)
        return self.wire.send(*numbered_ones)

    def say(self, template: Frames, count: int, vary: Callable[[bytearray], None] | None = None) -> bool:
        """So many of the same message, made fast: the number and what `vary` writes are all that differs."""
        block = []
        for _ in range(count):
            self.seq += 1
            envelope = bytearray(numbered(template[0], self.seq))
            if vary is not None:
                vary(envelope)
            block.append([bytes(envelope), *template[1:]])
        self._attack.count(count, self.place)
        return self.wire.send(*block)


def rest(seconds: float = 0.02) -> None:
    """Other processes of this machine run now."""
    time.sleep(seconds)


def in_turns(attack: Attack, make: Callable[[], Peer], step: Callable[[Peer], bool], peers: int = 1) -> None:
    """Each of some peers takes a step in turn; one that was closed comes again."""
    living = [make() for _ in range(peers)]
    while attack.is_on:
        for at, peer in enumerate(living):
            if not peer.is_welcome or peer.wire.is_closed or not step(peer):
                peer.wire.close()
                rest()
                living[at] = make()
            if not attack.is_on:
                return


# ---------------------------------------------------------------- messages with something wrong


@family()
def mutants_before_hello(attack: Attack) -> None:
    chance, kinds = attack.chance, sorted(mutations.vectors())
    while attack.is_on:
        peer = wire(attack, chance.choice(BOTH))
        for _ in range(chance.randrange(1, 60)):
            attack.count()
            if not peer.send(mutations.mutated(chance, chance.choice(kinds), chance.choice((0, 1, 2)))):
                break
        peer.close()


@family(has_sessions=True)
def mutants_in_sessions(attack: Attack) -> None:
    """Of all kinds, also those that the role may not send, in sessions of all roles with both servers."""
    chance, kinds = attack.chance, sorted(set(mutations.vectors()) - {"hello"})
    while attack.is_on:
        peer = Peer(attack, chance.choice(BOTH), chance.choice(ROLES))
        for _ in range(chance.randrange(1, 60)):
            attack.count(place=peer.place)
            made = mutations.mutated(chance, chance.choice(kinds), peer.seq + chance.choice((1, 1, 1, 1, 0, 2)))
            peer.seq += 1
            if not peer.wire.send(made):
                break
        peer.wire.drop_what_came()
        peer.wire.close()


@family(has_sessions=True)
def sequences(attack: Attack) -> None:
    """Well-formed messages with numbers and acknowledgements of any kind, resumes and incarnations among them."""
    chance = attack.chance
    while attack.is_on:
        peer = Peer(attack, chance.choice(BOTH), chance.choice(ROLES))
        for _ in range(chance.randrange(1, 30)):
            attack.count(place=peer.place)
            seq = chance.choice((0, 1, peer.seq, peer.seq + 1, peer.seq + 2, 2**32, 2**64 - 1))
            peer.seq = max(peer.seq, min(seq, peer.seq + 1))
            kind = chance.choice(("ping", "pong", "acknowledge", "bye", "error", "hello"))
            fields: dict[str, Any] = {}
            if kind == "hello":
                resume = {
                    "sessionId": chance.choice((0, 1, chance.getrandbits(64))),
                    "receivedSeq": chance.getrandbits(8),
                }
                fields = {**peer.hello.body, "resume": resume, "incarnation": chance.choice((0, 1, 2**63))}
            peer.wire.send(frames(kind, seq, **fields))
        peer.wire.close()


# ---------------------------------------------------------------- below messages


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


# ---------------------------------------------------------------- floods


def flood(attack: Attack, at: int, made: Frames, block: int = 2000) -> None:
    """The same message without end, from a connection that reads nothing."""
    peer = wire(attack, at)
    while attack.is_on:
        attack.count(block, f"{PORTS[at]}, no session")
        if not peer.send_same(made, block):
            peer.close()
            rest()
            peer = wire(attack, at)


@family()
def small_messages(attack: Attack) -> None:
    flood(attack, attack.chance.choice(BOTH), frames("ping", 1))


@family()
def dear_messages(attack: Attack) -> None:
    """Short, and long to read: lists of very many structs that have no words."""
    kinds = [kind for kind, found in mutations.vectors().items() if any(_has_structs(one.body) for one in found)]
    kind = attack.chance.choice(sorted(kinds))
    made = encode(max(mutations.vectors()[kind], key=lambda one: len(repr(one.body))))
    try:
        made = damage.emptied(made, attack.chance.choice((1_000, 8_000, 60_000)))
    except StopIteration:
        pass
    flood(attack, attack.chance.choice(BOTH), made, 200)


def _has_structs(body: Any) -> bool:
    if isinstance(body, dict):
        return any(map(_has_structs, body.values()))
    return isinstance(body, list) and any(isinstance(item, dict) for item in body)


@family()
def hellos_again(attack: Attack) -> None:
    """One connection says the same Hello for ever, and never reads a Welcome."""
    flood(
        attack,
        attack.chance.choice(BOTH),
        encode(hello(attack.chance, CLIENT, credential=attack.scene.access.ticket(CLIENT))),
        500,
    )


@family()
def new_sessions(attack: Attack) -> None:
    """Hello, a gap, Hello, a gap: each begins another session, on one connection."""
    chance, at = attack.chance, attack.chance.choice(BOTH)
    role = chance.choice((CLIENT, WORKER, MONITOR))
    ticket = attack.scene.access.ticket(role)
    peer = wire(attack, at, role)
    while attack.is_on:
        block: list[Frames] = []
        for _ in range(200):
            block += [encode(hello(chance, role, credential=ticket)), frames("ping", 9)]
        attack.count(400)
        if not peer.send(*block):
            peer.close()
            rest()
            peer = wire(attack, at, role)
        peer.drop_what_came()


@family(has_sessions=True)
def resumes(attack: Attack) -> None:
    """A backlog that is never acknowledged, and one connection after another that wants all of it."""
    owner = Peer(attack, AT_STORAGE, CLIENT)
    object_id, body = secrets.token_bytes(16), bytes(60_000)
    owner.send(
        frames("put", payload=[body], requestId=1, objectId=object_id, owner=owner.peer_id, totalBytes=len(body))
    )
    owner.say(frames("get", requestId=2, objectId=object_id), 300)
    while attack.is_on:
        again = wire(attack, AT_STORAGE)
        again.send(encode(owner.hello))
        attack.count()
        rest(0.01)


@family(has_sessions=True)
def unread_answers(attack: Attack) -> None:
    """Sessions that ask for much and read nothing of it."""
    object_id, body = secrets.token_bytes(16), bytes(60_000)

    def make() -> Peer:
        peer = Peer(attack, AT_STORAGE, CLIENT)
        put = frames("put", payload=[body], requestId=1, objectId=object_id, owner=peer.peer_id, totalBytes=len(body))
        peer.send(put)
        return peer

    in_turns(attack, make, lambda peer: peer.say(frames("get", requestId=2, objectId=object_id), 100), peers=4)


@family(has_sessions=True)
def snapshots(attack: Attack) -> None:
    """Managers with very many units, and monitors that ask for the state again and again."""
    full = next(one for one in reversed(mutations.vectors()["managerStatus"]) if one.body["units"])
    unit = full.body["units"][0]
    for _ in range(20):
        manager = Peer(attack, AT_P, MANAGER)
        many = [{**unit, "unitId": f"u{number}"} for number in range(500)]
        manager.send(frames("managerStatus", maxWorkers=500, units=many))
    made = frames("snapshotRequest", requestId=1)
    in_turns(attack, lambda: Peer(attack, AT_P, MONITOR), lambda peer: peer.say(made, 100), peers=2)


@family(has_sessions=True)
def names(attack: Attack) -> None:
    """Names for very many functions."""
    count = 65_000
    made = frames("nameFunctions", ids=secrets.token_bytes(16 * count), names=[""] * count)
    in_turns(attack, lambda: Peer(attack, AT_P, CLIENT), lambda peer: peer.send(made))


def submission(
    count: int, depends: Callable[[list[bytes]], tuple[bytes, bytes]] | None = None, **differs: Any
) -> Frames:
    """`differs`: fields of its header."""
    ids = [bytes([1]) + secrets.token_bytes(15) for _ in range(count)]
    header = {**samples()["submit"].body["header"], "capabilities": [{"name": "no worker has it", "amount": -1}]}
    header.update(differs)
    fields: dict[str, Any] = {"header": header, "ids": b"".join(ids), "partSizes": struct.pack("<I", 1) * count}
    if depends is not None:
        fields["dependencyCounts"], fields["dependencies"] = depends(ids)
        fields["keySizes"], fields["keys"] = b"\x40" * count, secrets.token_bytes(64) * count
    return frames("submit", payload=[b"x" * count], **fields)


@family(has_sessions=True)
def large_cancels(attack: Attack) -> None:
    """Very many tasks, all canceled at once; ids that no peer knows; a Bye with all of them."""
    chance = attack.chance
    while attack.is_on:
        peer = Peer(attack, AT_P, CLIENT)
        for _ in range(chance.randrange(1, 4)):
            peer.send(submission(20_000))
        peer.send(frames("cancel", ids=secrets.token_bytes(16 * 50_000)))
        peer.send(frames("cancel", isAll=True) if chance.random() < 0.5 else frames("bye"))
        list(peer.wire.received(0.2))
        peer.wire.close()


@family(has_sessions=True)
def graphs(attack: Attack) -> None:
    """Very wide, very deep, and round."""

    def wide(ids: list[bytes]) -> tuple[bytes, bytes]:
        return struct.pack(f"<{len(ids)}H", 0, *[1] * (len(ids) - 1)), ids[0] * (len(ids) - 1)

    def deep(ids: list[bytes]) -> tuple[bytes, bytes]:
        return struct.pack(f"<{len(ids)}H", 0, *[1] * (len(ids) - 1)), b"".join(ids[:-1])

    def circle(ids: list[bytes]) -> tuple[bytes, bytes]:
        return struct.pack(f"<{len(ids)}H", *[1] * len(ids)), b"".join([*ids[1:], ids[0]])

    while attack.is_on:
        peer = Peer(attack, AT_P, CLIENT)
        peer.send(submission(20_000, attack.chance.choice((wide, deep, circle))))
        list(peer.wire.received(0.2))
        peer.wire.close()


@family(has_sessions=True)
def empty_objects(attack: Attack) -> None:
    """They weigh nothing, and each has an entry of its own."""
    marker = b"\xaa" * 16

    def make() -> Peer:
        peer = Peer(attack, AT_STORAGE, CLIENT)
        peer.template = frames("put", payload=[b""], objectId=marker, owner=peer.peer_id)  # type: ignore[attr-defined]
        return peer

    def step(peer: Peer) -> bool:
        template: Frames = peer.template  # type: ignore[attr-defined]
        at = template[0].find(marker)

        def vary(envelope: bytearray) -> None:
            envelope[at : at + 16] = secrets.token_bytes(16)

        attack.keeps(500)
        is_on = peer.say(template, 500, vary)
        peer.wire.drop_what_came()
        return is_on

    in_turns(attack, make, step)


@family(has_sessions=True)
def results_of_others(attack: Attack) -> None:
    """A worker answers for tasks that it does not hold, very many at once."""
    count = 20_000
    made = frames(
        "results", payload=[b"x" * count], ids=secrets.token_bytes(16 * count), sizes=struct.pack("<I", 1) * count
    )
    in_turns(attack, lambda: Peer(attack, AT_P, WORKER), lambda peer: peer.send(made))
