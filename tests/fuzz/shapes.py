"""Families of what messages may be made of: pointers of all kinds, texts in all alphabets, and sums of many bounds."""

from __future__ import annotations

import random
import secrets
import struct
from typing import Any

from scaler_conformance.play.samples import samples
from scaler_conformance.wire import encode
from tests.fuzz import mutations
from tests.fuzz.attack import Attack
from tests.fuzz.families import (
    AT_P,
    BOTH,
    CLIENT,
    MANAGER,
    NOBODYS,
    ROLES,
    WORKER,
    Keeper,
    Peer,
    family,
    in_turns,
    rest,
    submission,
)
from tests.fuzz.forged import FORGED
from tests.fuzz.mutations import Frames, frames, new_id, numbered

# ---------------------------------------------------------------- pointers


def _struct(chance: random.Random) -> int:
    return (chance.randrange(-40, 40) << 2) & 0xFFFFFFFF | _half(chance) << 32 | _half(chance) << 48


def _list(chance: random.Random) -> int:
    """Of void, bits, bytes, words, pointers, or structs; of none or of 2^29."""
    count = chance.choice((0, 1, 2, 100, 65_535, (1 << 29) - 1))
    return 1 | (chance.randrange(-40, 40) << 2) & 0xFFFFFFFC | chance.randrange(8) << 32 | count << 35


def _far(chance: random.Random) -> int:
    """To a landing pad of one word or two, in this segment, another one, or none."""
    return 2 | chance.randrange(2) << 2 | chance.choice((0, 1, 2, 5, (1 << 29) - 1)) << 3 | chance.randrange(4) << 32


def _other(chance: random.Random) -> int:
    return 3 | chance.getrandbits(62) << 2


def _half(chance: random.Random) -> int:
    return chance.choice((0, 1, 2, 9, 255, 65_535))


def _bent(chance: random.Random, made: Frames) -> Frames:
    """Some words become pointers, and the message may become one of several segments, which point at each other."""
    words = [made[0][at : at + 8] for at in range(8, len(made[0]) // 8 * 8, 8)]
    for _ in range(chance.randrange(1, 4)):
        pointer = chance.choice((_struct, _list, _far, _other))(chance) & (2**64 - 1)
        words[chance.randrange(len(words))] = pointer.to_bytes(8, "little")
    cuts = sorted(chance.randrange(len(words) + 1) for _ in range(chance.choice((0, 0, 1, 2, 3))))
    sizes = [end - begin for begin, end in zip([0, *cuts], [*cuts, len(words)], strict=True)]
    table = struct.pack(f"<{1 + len(sizes)}I", len(sizes) - 1, *sizes)
    return [table + bytes(-len(table) % 8) + b"".join(words), *made[1:]]


@family(has_sessions=True)
def pointers(attack: Attack) -> None:
    """Messages of all kinds whose pointers lead everywhere: in circles, far away, to lists of nothing, to open text."""
    chance, kinds = attack.chance, sorted(set(mutations.vectors()) - {"hello"})
    while attack.is_on:
        peer = Peer(attack, chance.choice(BOTH), chance.choice(ROLES))
        for _ in range(chance.randrange(1, 80)):
            made = encode(chance.choice(mutations.vectors()[chance.choice(kinds)]))
            peer.seq += 1
            attack.count(place=peer.place)
            if not peer.wire.send(_bent(chance, [numbered(made[0], peer.seq), *made[1:]])):
                break
        peer.wire.drop_what_came()
        peer.wire.close()


# ---------------------------------------------------------------- names

_PIECES = (
    "", "a", "é", "名", "👩‍👩‍👧", "\u202e", "\u2028", "\u0085", "\x00", "\x07", "\x1b[2J", "\x1b]0;x\x07", "\x9b31m",
    "\r", "\n", f"\n{FORGED}", '"', "\\", "'", "`", "$(id)", "{0}", "%s%n", "</script>", "<img src=x>", "&amp;",
    '"} 1\nscaler_up 0\n', "\ufeff", "\uffff", "\ud7ff", "𝕏", "../../etc/passwd", "CON", "x" * 300,
)  # fmt: skip


def _name(chance: random.Random) -> str:
    return "".join(
        chance.choice((*_PIECES, chr(chance.randrange(0xE000, 0x10FFFF)))) for _ in range(chance.randrange(6))
    )


@family(has_sessions=True)
def names_of_all_alphabets(attack: Attack) -> None:
    """Hosts, programs, workers, managers, units, functions and capabilities with names that would forge what shows
    them, and texts of the same kind in goodbyes and errors."""
    chance = attack.chance
    while attack.is_on:
        role = chance.choice((CLIENT, WORKER, MANAGER))
        software = {name: _name(chance) for name in ("name", "version", "language", "host")}
        fields: dict[str, Any] = {"software": {**samples()["hello"].body["software"], **software}}
        capabilities = [{"name": _name(chance) or "x", "amount": 1} for _ in range(3)]
        if role == WORKER:
            offer = samples()["hello"].body["worker"]
            fields["worker"] = {**offer, "name": _name(chance), "capabilities": capabilities}
        if role == MANAGER:
            offer = samples()["hello"].body["manager"]
            fields["manager"] = {**offer, "managerId": new_id(chance), "name": _name(chance)}
        peer = Peer(attack, AT_P, role, **fields)
        if role == MANAGER:
            unit = {"unitId": _name(chance) or "u", "state": 1, "place": _name(chance), "workerNames": [_name(chance)]}
            peer.send(frames("managerStatus", maxWorkers=1, units=[unit], trouble=_name(chance)))
        if role == CLIENT:
            peer.send(frames("nameFunctions", ids=secrets.token_bytes(16), names=[_name(chance)]))
        peer.send(frames("error", code=5, fatal=False, text=_name(chance), clause=_name(chance)))
        peer.send(frames("bye", code=3, text=_name(chance)))
        peer.wire.close()


# ---------------------------------------------------------------- sums


@family(has_sessions=True, least_accepted=0.3)
def uploads_that_stand_still(attack: Attack) -> None:
    """Very many sessions with the storage, each with objects of which only the first part comes."""
    chance, body = attack.chance, bytes(50_000)

    def step(peer: Keeper) -> bool:
        made = [
            peer.put(new_id(chance), body, chance.choice((len(body) + 1, 1 << 30, 2**63)), request_id=number + 1)
            for number in range(20)
        ]
        attack.kept_bytes += 20 * len(body)
        return peer.send(*made)

    in_turns(attack, lambda: Keeper(attack), step, peers=100)


@family(has_sessions=True, least_accepted=0.3)
def waits_without_end(attack: Attack) -> None:
    """Gets of what never comes, from very many sessions at once, up to the bound of each and beyond it."""
    chance = attack.chance

    def step(peer: Keeper) -> bool:
        made = peer.get(new_id(chance), waitSeconds=chance.choice((0.1, 30.0, 1e9)))
        return peer.say(made, chance.choice((1, 50, 300)))

    in_turns(attack, lambda: Keeper(attack), step, peers=50)


@family(has_sessions=True, least_accepted=0.2)
def many_lines(attack: Attack) -> None:
    """Very many Submits, each of which asks for another capability, priority or depth."""
    chance = attack.chance

    def step(peer: Peer) -> bool:
        made = []
        for _ in range(200):
            asked = range(chance.choice((0, 1, 1, 1, 3)))
            names = [{"name": f"x{chance.randrange(10**6)}", "amount": -1} for _ in asked] or NOBODYS
            made.append(submission(1, capabilities=names, priority=chance.choice((0, chance.randrange(1000)))))
        return peer.send(*made)

    in_turns(attack, lambda: Peer(attack, AT_P, CLIENT), step, peers=chance.choice((1, 20)))


@family(has_sessions=True, least_accepted=0.5)
def sessions_without_end(attack: Attack) -> None:
    """Hellos with new peer ids from connections that stay, each with a little work of its own."""
    chance = attack.chance
    held = []
    while attack.is_on:
        role = chance.choice((CLIENT, WORKER))
        peer = Peer(attack, chance.choice(BOTH), role)
        peer.send(frames("ping"), frames("ping"))
        held.append(peer)
        if len(held) > 300:
            held.pop(0).wire.close()
        if not peer.is_welcome:
            rest()
