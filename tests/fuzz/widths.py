"""Families of numbers at the ends of their fields: what peers choose overflows nothing that a server counts."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Any

from scaler_conformance.play.samples import may_send, samples
from scaler_conformance.wire import CODES, Message, decode, encode
from scaler_conformance.wire.envelope import encode_task_error
from tests.fuzz import mutations
from tests.fuzz.attack import Attack
from tests.fuzz.families import (
    AT_P,
    AT_STORAGE,
    CLIENT,
    MANAGER,
    MONITOR,
    ROLE_NAMES,
    WORKER,
    Peer,
    family,
    own_header,
    rest,
)
from tests.fuzz.mutations import Frames, frames, new_id

ENDS = (0, 1, 2**16 - 1, 2**16, 2**32 - 1, 2**63, 2**64 - 1)
LAST_ATTEMPT = 65_535
PRESENT_HELD = "present-held"
_IS_STOPPING = frozenset(("bye", "shutdown"))
SERVERS = {AT_P: "scheduler", AT_STORAGE: "storage"}
ROLES_AT = {AT_P: (CLIENT, WORKER, MANAGER, MONITOR), AT_STORAGE: (CLIENT, WORKER)}


def _with_ends(body: Any) -> Iterator[Any]:
    """The same body with one number at an end of its field, or one column of numbers full of such: each in turn."""
    for key, value in body.items() if isinstance(body, dict) else enumerate(body):
        changed: list[Any] = []
        if isinstance(value, int) and not isinstance(value, bool):
            changed = list(ENDS)
        elif isinstance(value, bytes) and value:
            changed = [b"\xff" * len(value)]
        elif isinstance(value, dict | list):
            changed = list(_with_ends(value))
        for one in changed:
            yield {**body, key: one} if isinstance(body, dict) else [*body[:key], one, *body[key + 1 :]]


def at_the_ends(kind: str) -> Iterator[Frames]:
    """All messages of this kind that the schema can carry."""
    for message in mutations.vectors()[kind]:
        for body in _with_ends(message.body):
            try:
                yield encode(Message(kind, body, 0, 0, message.payload))
            except Exception:
                continue


@family(has_sessions=True)
def ends_of_numbers(attack: Attack) -> None:
    """Each number of each message at each end of its field, by every role that may send it."""
    chance = attack.chance
    places = [(at, role) for at, roles in ROLES_AT.items() for role in roles]
    while attack.is_on:
        at, role = chance.choice(places)
        kinds = [kind for kind in may_send(SERVERS[at], ROLE_NAMES[role]) if kind not in {"hello", *_IS_STOPPING}]
        made = list(itertools.chain.from_iterable(map(at_the_ends, chance.sample(kinds, min(3, len(kinds))))))
        chance.shuffle(made)
        peer = Peer(attack, at, role)
        for one in made:
            if not attack.is_on:
                break
            if not peer.is_welcome or peer.wire.is_closed or not peer.send(one):
                rest()
                peer = Peer(attack, at, role)
        peer.wire.drop_what_came()
        peer.wire.close()


@family(has_sessions=True)
def sums_at_the_ends(attack: Attack) -> None:
    """Numbers that a scheduler counts on from, or multiplies: attempts, generations, workers of units. Without keys,
    because a worker needs the grant of a client for what it presents."""
    chance = attack.chance
    while attack.is_on:
        _present_the_last_attempt(attack, chance.choice((CODES.STORAGE_UNREACHABLE, CODES.OWNER_GONE, 0)))
        _offer_vast_units(attack)
        Peer(attack, AT_P, CLIENT, features=[PRESENT_HELD], generation=chance.choice(ENDS), lastServerId=new_id(chance))


_ASKED = [{"name": "hostile", "amount": -1}]


def _submission(task: bytes) -> Frames:
    """Returns the submission of one task, which only the workers of this family may take."""
    header = {**own_header(), "capabilities": _ASKED}
    return frames("submit", payload=[b"x"], header=header, ids=task, partSizes=struct.pack("<I", 1))


def _present_the_last_attempt(attack: Attack, code: int) -> None:
    """`code`: with which it fails then; zero: another session takes it over."""
    before: dict[str, Any] = {"features": [PRESENT_HELD], "lastServerId": new_id(attack.chance)}
    before["generation"] = attack.chance.choice(ENDS)
    offer = {**samples()["hello"].body["worker"], "name": "hostile", "credit": 2, "capabilities": _ASKED}
    worker, client = Peer(attack, AT_P, WORKER, worker=offer, **before), Peer(attack, AT_P, CLIENT, **before)
    task, attempts = new_id(attack.chance), struct.pack("<H", LAST_ATTEMPT)
    worker.send(
        frames("holding", ids=task, attempts=attempts, states=b"\1", clients=new_id(attack.chance), isLast=True)
    )
    client.send(_submission(task))
    rest()
    value = encode_task_error({"code": code, "typeName": "X", "message": "x", "text": "x"}) if code else b""
    if not code:
        Peer(attack, AT_P, CLIENT, **before).send(_submission(task))
        rest()
    worker.send(
        frames(
            "results", ids=task, attempts=attempts, sizes=struct.pack("<I", len(value)), payload=[value],
            statuses=bytes([CODES.STATUS_FAILED if code else CODES.STATUS_CANCELED]),
            kinds=bytes([CODES.KIND_INLINE if code else CODES.KIND_NONE]),
        )
    )  # fmt: skip
    rest()
    worker.wire.close()
    refused = [one for one in _told(client) if one.kind == "error" and one.body["code"] == CODES.BAD_BATCH]
    if refused:
        attack.troubles.append(f"its Submit is refused, so nothing was attacked: {refused[0].body['text']}")
    client.wire.close()


def _told(peer: Peer) -> list[Message]:
    return [decode(made, is_lenient=True) for made in peer.wire.received(0.05)]


def _offer_vast_units(attack: Attack) -> None:
    each = attack.chance.choice(ENDS[1:5])
    manager = Peer(attack, AT_P, MANAGER, manager={"managerId": new_id(attack.chance), "workersPerUnit": each})
    units = [{"unitId": f"u{number}", "state": 1 + number % 2} for number in range(3)]
    manager.send(frames("managerStatus", maxWorkers=2**32 - 1, units=units))
    client, task = Peer(attack, AT_P, CLIENT), new_id(attack.chance)
    client.send(_submission(task), frames("explain", requestId=1, taskId=task))
    list(client.wire.received(0.1))
    client.wire.close()
    manager.wire.close()
