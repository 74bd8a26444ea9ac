"""The ways to be hostile. Each is a function that goes on until the attack is over, and counts what it has sent."""

from __future__ import annotations

import itertools
import secrets
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from scaler_conformance.play import damage
from scaler_conformance.play.samples import samples
from scaler_conformance.wire import CODES, Message, decode, encode
from tests.fuzz import mutations
from tests.fuzz.attack import Attack
from tests.fuzz.curve import CurveWire
from tests.fuzz.mutations import Frames, frames, hello, numbered
from tests.fuzz.wire import Wire

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
    #: the least share of its messages that a server accepts; None: it means to be refused, or does not care
    least_accepted: float | None = None


FAMILIES: dict[str, Family] = {}


Run = Callable[[Attack], None]


def family(
    *,
    has_sessions: bool = False,
    place: str = "p and p+1, no session",
    needs_keys: bool = False,
    least_accepted: float | None = None,
) -> Callable[[Run], Run]:
    def register(run: Run) -> Run:
        name = run.__name__.replace("_", "-")
        FAMILIES[name] = Family(name, run, has_sessions, place, needs_keys, least_accepted)
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
        self.grant = b""  #: that the scheduler gives a client, where there are keys
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
        self.grant = bytes(welcome.body["ownerGrant"])
        return True

    def send(self, *messages: Frames) -> bool:
        """Numbers them, in the envelope that our encoder has made."""
        numbered_ones = []
        for made in messages:
            self.seq += 1
            numbered_ones.append([numbered(made[0], self.seq), *made[1:]])
        self._attack.count(len(messages), self.place)
        return self.wire.send(*numbered_ones) and self._audit(len(messages))

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
        return self.wire.send(*block) and self._audit(count)

    def _audit(self, count: int) -> bool:
        """Counts how many of the last `count` messages were refused, as long as the attack still wants to know it: a
        Pong comes behind every refusal. What comes meanwhile is read, so only the first messages are looked at."""
        if not self.is_welcome or not self._attack.takes_audit():
            return True
        self.seq += 1
        asked_seq, refused = self.seq, set[object]()
        self.wire.send(frames("ping", asked_seq))
        for made in self.wire.received(AUDIT_SECONDS):
            answer = decode(made, is_lenient=True)
            if answer.kind == "pong":
                self._attack.audited(count, len(refused))
                return True
            if answer.kind == "error":
                refused.add(answer.body["refSeq"])
            elif answer.kind == "objectReply" and answer.body["code"] in _REFUSALS:
                refused.add((answer.seq, answer.body["requestId"]))
        self._attack.audited(count, count if self.wire.is_closed else len(refused))
        return not self.wire.is_closed


class Keeper(Peer):
    """A client at the storage. Where there are keys it has a session with the scheduler as well, by whose grant it may
    name an owner."""

    def __init__(self, attack: Attack) -> None:
        self._home = None if attack.scene.access.is_insecure else Peer(attack, AT_P, CLIENT)
        self._pinged_at = time.monotonic()
        super().__init__(attack, AT_STORAGE, CLIENT)

    @property
    def named(self) -> dict[str, Any]:
        """The fields of a message about objects that name their owner."""
        home = self._home or self
        return {"owner": home.peer_id, "grant": home.grant}

    def put(self, object_id: bytes, body: bytes, total_bytes: int | None = None, request_id: int = 1) -> Frames:
        size = len(body) if total_bytes is None else total_bytes
        return frames("put", payload=[body], requestId=request_id, objectId=object_id, totalBytes=size, **self.named)

    def get(self, object_id: bytes, request_id: int = 2, **fields: Any) -> Frames:
        return frames("get", requestId=request_id, objectId=object_id, **self.named, **fields)

    def send(self, *messages: Frames) -> bool:
        self._stay()
        return super().send(*messages)

    def say(self, template: Frames, count: int, vary: Callable[[bytearray], None] | None = None) -> bool:
        self._stay()
        return super().say(template, count, vary)

    def _stay(self) -> None:
        """The scheduler would take a silent client for lost, and the storage would refuse what it owns."""
        if self._home is not None and time.monotonic() > self._pinged_at + 0.5:
            self._pinged_at = time.monotonic()
            self._home.send(frames("ping"))
            self._home.wire.drop_what_came()


AUDIT_SECONDS = 5.0
"""Without a word for so long, a server holds back what it would answer: what was not refused by then is accepted."""
_REFUSALS = frozenset((CODES.BAD_BATCH, CODES.NOT_ALLOWED, CODES.BAD_CHUNK))


def rest(seconds: float = 0.02) -> None:
    """Other processes of this machine run now."""
    time.sleep(seconds)


AnyPeer = TypeVar("AnyPeer", bound=Peer)


def in_turns(attack: Attack, make: Callable[[], AnyPeer], step: Callable[[AnyPeer], bool], peers: int = 1) -> None:
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
    owner, object_id = Keeper(attack), secrets.token_bytes(16)
    owner.send(owner.put(object_id, bytes(60_000)))
    owner.say(owner.get(object_id), 300)
    while attack.is_on:
        again = wire(attack, AT_STORAGE)
        again.send(encode(owner.hello))
        attack.count()
        rest(0.01)


@family(has_sessions=True)
def unread_answers(attack: Attack) -> None:
    """Sessions that ask for much and read nothing of it."""
    object_id, body = secrets.token_bytes(16), bytes(60_000)

    def make() -> Keeper:
        peer = Keeper(attack)
        peer.send(peer.put(object_id, body))
        return peer

    in_turns(attack, make, lambda peer: peer.say(peer.get(object_id), 100), peers=4)


@family(has_sessions=True, least_accepted=0.5)
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


@family(has_sessions=True, least_accepted=0.5)
def names(attack: Attack) -> None:
    """Names for very many functions: as many as a message has room for."""
    count = 10_000
    made = frames("nameFunctions", ids=secrets.token_bytes(16 * count), names=[""] * count)
    in_turns(attack, lambda: Peer(attack, AT_P, CLIENT), lambda peer: peer.send(made))


NOBODYS = [{"name": "no worker has it", "amount": -1}]


def own_header() -> dict[str, Any]:
    """Returns the header of a Submit in the name of the client that sends it."""
    return {**samples()["submit"].body["header"], "client": b""}


def submission(
    count: int, depends: Callable[[list[bytes]], tuple[bytes, bytes]] | None = None, **differs: Any
) -> Frames:
    """`differs`: fields of its header."""
    ids = [bytes([1]) + secrets.token_bytes(15) for _ in range(count)]
    header = {**own_header(), "capabilities": NOBODYS, **differs}
    fields: dict[str, Any] = {"header": header, "ids": b"".join(ids), "partSizes": struct.pack("<I", 1) * count}
    if depends is not None:
        fields["dependencyCounts"], fields["dependencies"] = depends(ids)
        fields["keySizes"], fields["keys"] = b"\x40" * count, secrets.token_bytes(64) * count
    return frames("submit", payload=[b"x" * count], **fields)


@family(has_sessions=True, least_accepted=0.5)
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


@family(has_sessions=True, least_accepted=0.5)
def graphs(attack: Attack) -> None:
    """Very wide, very deep, and round."""

    def wide(ids: list[bytes]) -> tuple[bytes, bytes]:
        return struct.pack(f"<{len(ids)}H", 0, *[1] * (len(ids) - 1)), ids[0] * (len(ids) - 1)

    def deep(ids: list[bytes]) -> tuple[bytes, bytes]:
        return struct.pack(f"<{len(ids)}H", 0, *[1] * (len(ids) - 1)), b"".join(ids[:-1])

    def circle(ids: list[bytes]) -> tuple[bytes, bytes]:
        return struct.pack(f"<{len(ids)}H", *[1] * len(ids)), b"".join([*ids[1:], ids[0]])

    for shape in itertools.cycle((wide, deep, circle)):
        if not attack.is_on:
            return
        peer = Peer(attack, AT_P, CLIENT)
        peer.send(submission(20_000, shape))
        list(peer.wire.received(0.2))
        peer.wire.close()


@family(has_sessions=True, least_accepted=0.5)
def empty_objects(attack: Attack) -> None:
    """They weigh nothing, and each has an entry of its own."""
    marker = b"\xaa" * 16

    def step(peer: Keeper) -> bool:
        template = peer.put(marker, b"")
        at = template[0].find(marker)

        def vary(envelope: bytearray) -> None:
            envelope[at : at + 16] = secrets.token_bytes(16)

        attack.keeps(500)
        is_on = peer.say(template, 500, vary)
        peer.wire.drop_what_came()
        return is_on

    in_turns(attack, lambda: Keeper(attack), step)


@family(has_sessions=True)
def results_of_others(attack: Attack) -> None:
    """A worker answers for tasks that it does not hold, very many at once."""
    count = 20_000
    made = frames(
        "results", payload=[b"x" * count], ids=secrets.token_bytes(16 * count), sizes=struct.pack("<I", 1) * count
    )
    in_turns(attack, lambda: Peer(attack, AT_P, WORKER), lambda peer: peer.send(made))
