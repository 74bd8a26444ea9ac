"""A user of the cluster who has tickets, knows every id of another user, and tries what the ids are good for.

What is tried is made from the table of rights (HSK-13): each kind of message that any role may send to a server, with
the other user's ids in all places where ids stand. So a new kind of message is tried as soon as it has a vector.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

from scaler_conformance.play.samples import may_send, samples
from scaler_conformance.wire import Message, decode, encode
from scaler_protocol.codes import KIND_OBJECT
from tests.fuzz.attack import Attack
from tests.fuzz.families import (
    AT_P,
    AT_STORAGE,
    BOTH,
    CLIENT,
    MANAGER,
    MONITOR,
    PORTS,
    ROLE_NAMES,
    SCHEDULER,
    WORKER,
    family,
    rest,
)
from tests.fuzz.mutations import Frames, frames, hello, new_id, numbered, vectors
from tests.fuzz.victims import ID_BYTES, Victim
from tests.fuzz.wire import Wire

SERVERS = {AT_P: "scheduler", AT_STORAGE: "storage"}
ROLES_AT = {AT_P: (CLIENT, CLIENT, CLIENT, WORKER, MANAGER), AT_STORAGE: (CLIENT, CLIENT, WORKER)}
#: fields that hold ids, one or a column of them
_ID_FIELDS = frozenset(
    (
        "awaited", "client", "dependencies", "functions", "graphId", "ids", "inputIds", "managerId", "objectId",
        "owner", "owners", "parentTask", "resultSalt", "serializer", "source", "sourceOwner", "target", "taskId",
    )
)  # fmt: skip
#: of these an empty one is filled as well
_FILLED_FIELDS = frozenset(("client", "graphId", "ids", "owner", "owners", "parentTask", "sourceOwner", "taskId"))
#: of these it names itself more often, because nothing else is looked at if they are wrong
_NAMES_ITSELF = frozenset(("client", "owner"))
_GRANT_FIELDS = frozenset(("grant", "sourceGrant", "ownerGrant"))
_IS_STOPPING = frozenset(("bye", "shutdown"))


class Neighbour:
    """One session of the hostile user. What it is sent is searched for what belongs to the other one."""

    def __init__(self, attack: Attack, at: int, role: int, victim: Victim, **fields: Any) -> None:
        self._attack, self._victim = attack, victim
        self.at, self.role, self.seq = at, role, 0
        self.place = f"{PORTS[at]}, {ROLE_NAMES[role]}"
        self.wire = attack.scene.access.connect(attack.port + at, role)
        attack.at_end(self.wire.close)
        self.hello = hello(attack.chance, role, **{"credential": attack.scene.access.ticket(role), **fields})
        self.grant, self.is_welcome = b"", False
        self.wire.send(encode(self.hello))
        answer = next(iter(self.wire.received(2.0)), None)
        if answer is not None:
            welcome = decode(answer, is_lenient=True)
            self.is_welcome = welcome.kind == "welcome"
            self.grant = bytes(welcome.body["ownerGrant"]) if self.is_welcome else b""
        attack.sessions += self.is_welcome

    @property
    def peer_id(self) -> bytes:
        return bytes(self.hello.body["peerId"])

    def send(self, *messages: Frames) -> bool:
        self._attack.count(len(messages), self.place)
        block = []
        for made in messages:
            self.seq += 1
            block.append([numbered(made[0], self.seq), *made[1:]])
        return self.wire.send(*block)

    def look(self, seconds: float = 0.0) -> list[Message]:
        """Whatever has come. Nothing of the other user may be in it."""
        found = []
        for message in self.wire.received(seconds):
            found.append(decode(message, is_lenient=True))
            if any(self._victim.marker in bytes(frame) for frame in message):
                self._attack.troubles.append(f"{self.place} was sent a value of the other user: {found[-1]!r:.300}")
        return found

    def close(self) -> None:
        self.look(0.01)
        self.wire.close()


# ---------------------------------------------------------------- messages


class Thief:
    """Who the hostile user is in truth, and which grants it can show: its own, and what can be made of that."""

    def __init__(self, home: Neighbour, victim: Victim) -> None:
        """`home`: its session with the scheduler, from which it has its grant."""
        self.peer_id, self.grant = home.peer_id, home.grant
        own = home.grant[-ID_BYTES:]
        self.wrong_grants = (own, victim.peer_id + own, b"", bytes(ID_BYTES), bytes(2 * ID_BYTES))

    def id_for(self, chance: random.Random, name: str, ids: Sequence[bytes]) -> bytes:
        is_honest = chance.random() < (0.6 if name in _NAMES_ITSELF else 0.1)
        return self.peer_id if is_honest else chance.choice(ids)

    def grant_to_show(self, chance: random.Random) -> bytes:
        return self.grant if chance.random() < 0.8 else chance.choice(self.wrong_grants)


def stolen(chance: random.Random, ids: Sequence[bytes], kind: str, thief: Thief) -> Message:
    """A message of this kind with the other user's ids in it."""
    message = chance.choice(vectors()[kind])

    def replaced(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(key, item) for key, item in value.items()}
        if isinstance(value, list):
            return [replaced(name, item) for item in value]
        if name in _ID_FIELDS and (value or name in _FILLED_FIELDS):
            count = max(1, len(value) // ID_BYTES)
            return b"".join(thief.id_for(chance, name, ids) for _ in range(count))
        if name in _GRANT_FIELDS:
            return thief.grant_to_show(chance)
        if name == "waitSeconds":
            return chance.choice((0.0, 0.05, 60.0))
        if name in ("credit", "limit"):
            return chance.choice((0, 1))
        if name == "workerNames":
            return chance.choice(("bystander", "worker", "hostile"))
        return value

    return Message(kind, {name: replaced(name, value) for name, value in message.body.items()}, 0, 0, message.payload)


def reading(chance: random.Random, ids: Sequence[bytes], thief: Thief, own: bytes) -> Message:
    """A task of its own, with an object of the other user as its argument, and with a function of the other user."""
    header = {**samples()["submit"].body["header"], "client": own, "priority": chance.choice((0, 1, -1))}
    if chance.random() < 0.5:
        header["parentTask"] = chance.choice(ids)
    header["ownerGrant"] = thief.grant_to_show(chance)
    body = {
        **samples()["submit"].body,
        "header": header,
        "ids": new_id(chance),
        "functions": chance.choice(ids),
        "partKinds": bytes([KIND_OBJECT]),
        "partSizes": struct.pack("<I", ID_BYTES),
    }
    return Message("submit", body, 0, 0, (chance.choice(ids),))


# ---------------------------------------------------------------- sessions


def takes_sessions(attack: Attack, victim: Victim) -> None:
    """Hellos that resume, replace or repeat the other user's session, or are parts of its tasks."""
    chance, ids = attack.chance, victim.ids
    for at in BOTH:
        for fields in (
            {"resume": {"sessionId": victim.session_id, "receivedSeq": chance.randrange(50)}},
            {"incarnation": 2**63},
            {"incarnation": 0},
            {"parentTask": chance.choice(ids)},
        ):
            thief = Neighbour(attack, at, CLIENT, victim, peerId=victim.peer_id, **fields)
            attack.count(place=f"{PORTS[at]}, hello")
            if thief.is_welcome and at == AT_P:
                attack.troubles.append(f"a Hello with the other user's peer id was welcomed: {fields}")
            thief.close()
        worker = Neighbour(attack, at, CLIENT, victim, credential=attack.scene.access.ticket(WORKER))
        if worker.is_welcome:
            attack.troubles.append("a connection of one holder was welcomed with the ticket of another")
        worker.close()


def wrong_tickets(attack: Attack, victim: Victim) -> None:
    """Cut short, changed, of other roles: each is refused."""
    chance, access = attack.chance, attack.scene.access
    for role in (CLIENT, WORKER, MONITOR, MANAGER):
        ticket = access.ticket(role)
        at = chance.randrange(len(ticket))
        changed = ticket[:at] + bytes([ticket[at] ^ 1 << chance.randrange(8)]) + ticket[at + 1 :]
        other = chance.choice([one for one in (CLIENT, WORKER, MONITOR, MANAGER, SCHEDULER) if one != role])
        for claimed, shown in ((role, ticket[: chance.randrange(len(ticket))]), (role, changed), (other, ticket)):
            made = access.connect(attack.port, role)
            attack.at_end(made.close)
            attack.count(place="p, hello")
            made.send(encode(hello(chance, claimed, credential=shown)))
            answer = next(iter(made.received(2.0)), None)
            if answer is not None and decode(answer, is_lenient=True).kind == "welcome":
                attack.troubles.append(f"a {ROLE_NAMES[role]}'s ticket, changed or as {claimed}, was welcomed")
            made.close()


def downgraded(attack: Attack, victim: Victim) -> None:
    """Without CURVE, and with a ticket in the clear."""
    for at in BOTH:
        made = Wire(attack.port + at)
        attack.at_end(made.close)
        attack.count(place="p, hello")
        made.send(encode(hello(attack.chance, CLIENT, credential=attack.scene.access.ticket(CLIENT))))
        if any(decode(answer, is_lenient=True).kind == "welcome" for answer in made.received(0.3)):
            attack.troubles.append("a Hello without CURVE was welcomed by a server with keys")
        made.close()


# ---------------------------------------------------------------- the program


def in_sessions(attack: Attack, victim: Victim) -> None:
    """A session of some role, with messages of all kinds that its role may send."""
    chance = attack.chance
    at = chance.choice(BOTH)
    role = chance.choice(ROLES_AT[at])
    home = Neighbour(attack, AT_P, CLIENT, victim)
    neighbour = home if (at, role) == (AT_P, CLIENT) else Neighbour(attack, at, role, victim)
    if not (home.is_welcome and neighbour.is_welcome):
        attack.troubles.append(f"{neighbour.place}: a right ticket was refused")
        return
    ids, thief = victim.ids, Thief(home, victim)
    kinds = sorted(set(may_send(SERVERS[at], ROLE_NAMES[role])) - _IS_STOPPING)
    for kind in chance.choices(kinds, k=30) + kinds:
        message = stolen(chance, ids, kind, thief)
        if kind == "submit" and chance.random() < 0.5:
            message = reading(chance, ids, thief, neighbour.peer_id)
        neighbour.send(encode(message))
    if neighbour is home:
        neighbour.send(frames("shutdown"), frames("cancel", isAll=True))
    neighbour.look(0.05)
    neighbour.close()
    home.close()


_STEPS: tuple[Callable[[Attack, Victim], None], ...] = (
    in_sessions, in_sessions, in_sessions, in_sessions, takes_sessions, wrong_tickets, downgraded,
)  # fmt: skip


def in_turns(attack: Attack, victim: Victim, steps: Sequence[Callable[[Attack, Victim], None]]) -> None:
    """Each once at least, and then any of them until the attack is over."""
    for step in steps:
        step(attack, victim)
    while attack.is_on:
        attack.chance.choice(steps)(attack, victim)
        rest(0.005)


def attacked(attack: Attack, victim: Victim) -> None:
    in_turns(attack, victim, _STEPS)


@family(has_sessions=True, needs_keys=True)
def another_user(attack: Attack) -> None:
    """All of it while the other user works: its values stay right, and the hostile one reads none of them."""
    beside_another_user(attack, attacked)


def beside_another_user(attack: Attack, run: Callable[[Attack, Victim], None]) -> None:
    assert attack.scene.access.kind == "holder", "without tickets there are no users"
    victim = Victim(attack.scene.address, attack.scene.access.user_file("ana", attack.scene.directory))
    try:
        victim.start()
        run(attack, victim)
    finally:
        victim.close()
    attack.troubles += [f"the other user: {trouble}" for trouble in victim.troubles]
    if not victim.rounds:
        attack.troubles.append("the other user has not computed anything")
