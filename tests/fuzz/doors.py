"""Every door of a cluster with keys: which ticket opens it, for which role, and what a watcher is shown behind it.

The tables are those of chapter 17 (SEC-16) and chapter 02 (HSK-13), as they stand in the specification.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from scaler_conformance.play.samples import forbidden_kinds, may_send
from scaler_conformance.wire import CODES, Message, Unreadable, decode, encode
from scaler_protocol.keys import Keyring, Pass, new_secret, pass_of
from tests.fuzz.attack import Attack
from tests.fuzz.controls import order
from tests.fuzz.families import (
    AT_P,
    AT_STORAGE,
    CLIENT,
    MANAGER,
    MONITOR,
    PORTS,
    ROLE_NAMES,
    ROLES,
    SCHEDULER,
    WORKER,
    family,
    hello_to,
)
from tests.fuzz.monitors import AT_MONITOR, TOPICS
from tests.fuzz.mutations import Frames, frames, hello
from tests.fuzz.neighbours import Neighbour, Thief, beside_another_user, in_turns, stolen
from tests.fuzz.victims import ID_BYTES, Victim

SERVERS = {AT_P: "scheduler", AT_STORAGE: "storage", AT_MONITOR: "scheduler"}
_SECURITY = Path(__file__).resolve().parents[2] / "protocol" / "spec" / "17-security.md"
_ANSWER_SECONDS = 5.0
_WAITS = 30  #: of 0.3 s each: a busy machine takes its time
_DAY = 86_400
_NOBODY = 65_534
#: what a task prints is for watchers to read, with the values in it
_SHOWS_OUTPUT = frozenset(("taskLog", "taskLogs"))


@cache
def opened() -> Mapping[tuple[str, str], frozenset[str]]:
    """(server, role of the ticket) -> the roles in which it is admitted, but for those that need a task."""
    lines = _SECURITY.read_text(encoding="utf-8").split("| a ticket for |")[1].splitlines()[2:]
    found = {}
    for line in lines[: lines.index("")]:
        ticket, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        for server, cell in zip(("scheduler", "storage"), cells, strict=True):
            found[server, ticket] = frozenset(role.strip() for role in cell.split(",") if "parentTask" not in role)
    return found


# ---------------------------------------------------------------- tickets


def _is_welcome(attack: Attack, at: int, role: int, shown: Pass, ticket: bytes | None = None) -> bool:
    """Whether a connection of this pair gets a session in this role. A refusal is an answer too."""
    wire = attack.scene.access.connect_with(attack.port + at, shown)
    try:
        attack.count(place=f"{PORTS[at]}, hello")
        wire.send(encode(hello_to(attack, at, role, credential=shown.ticket if ticket is None else ticket)))
        answer = next(iter(wire.received(_ANSWER_SECONDS)), None)
        return answer is not None and decode(answer, is_lenient=True).kind == "welcome"
    finally:
        wire.close()


def tickets_of_every_role_at_every_port(attack: Attack, victim: Victim) -> None:
    for at, server in SERVERS.items():
        for holds in ROLES:
            shown = attack.scene.access.pass_for(frozenset({holds}))
            for claims in ROLES:
                is_admitted = _is_welcome(attack, at, claims, shown)
                may_be = ROLE_NAMES[claims] in opened()[server, ROLE_NAMES[holds]]
                if is_admitted != may_be:
                    told = "welcomed" if is_admitted else "refused"
                    names = f"a {ROLE_NAMES[holds]}'s ticket as {ROLE_NAMES[claims]}"
                    attack.troubles.append(f"{PORTS[at]}: {names} was {told}")


def _untrue_passes(attack: Attack) -> Iterator[tuple[str, Pass]]:
    """Each with the right public key of the servers, so that the connection is let in."""
    access = attack.scene.access
    every = frozenset(ROLES)
    now = time.time()
    yield "expired a second ago", access.pass_for(every, expires=now - 1)
    yield "expired in 1970", access.pass_for(every, expires=1.0)
    removed = pass_of(Keyring([new_secret()]).derive("mallory", every, expires=now + _DAY), "fuzz")
    real = access.pass_for(every)
    yield (
        "signed by a key that was removed",
        Pass(real.server_keys, removed.public_key, removed.secret_key, removed.ticket),
    )
    yield "of another pair", Pass(real.server_keys, removed.public_key, removed.secret_key, real.ticket)


def untrue_tickets(attack: Attack, victim: Victim) -> None:
    for at in SERVERS:
        for what, shown in _untrue_passes(attack):
            for role in ROLES:
                if _is_welcome(attack, at, role, shown):
                    attack.troubles.append(f"{PORTS[at]}: a ticket {what} was welcomed as {ROLE_NAMES[role]}")


# ---------------------------------------------------------------- messages of other roles


def messages_of_other_roles(attack: Attack, victim: Victim) -> None:
    """Every kind of message that a role may not send to a server, with the other user's ids: each is refused."""
    chance, ids = attack.chance, victim.ids
    home = Neighbour(attack, AT_P, CLIENT, victim)
    thief = Thief(home, victim)
    for at, role in ((AT_P, CLIENT), (AT_P, WORKER), (AT_P, MANAGER), (AT_MONITOR, MONITOR), (AT_STORAGE, CLIENT)):
        kinds = [kind for kind in forbidden_kinds(SERVERS[at], ROLE_NAMES[role]) if kind not in ("hello", "error")]
        peer = Neighbour(attack, at, role, victim)
        for kind in kinds:
            if not peer.is_welcome:
                attack.troubles.append(f"{peer.place}: a right ticket was refused")
                break
            peer.send(encode(stolen(chance, ids, kind, thief)))
            answers = _answers_until(peer, peer.seq)
            if not any(answer.kind == "error" and answer.body["refSeq"] == peer.seq for answer in answers):
                attack.troubles.append(f"{peer.place}: {kind} was not refused: {[one.kind for one in answers]}")
            if any(answer.kind == "error" and answer.body["fatal"] for answer in answers):
                peer.close()
                peer = Neighbour(attack, at, role, victim)
        peer.close()
    home.close()


def _answers_until(peer: Neighbour, seq: int) -> list[Message]:
    found: list[Message] = []
    end_at = time.monotonic() + _ANSWER_SECONDS
    while time.monotonic() < end_at:
        found += peer.look(0.02)
        if any(one.kind == "error" and one.body["refSeq"] == seq for one in found):
            break
    return found


# ---------------------------------------------------------------- watchers


class Watcher(Neighbour):
    """A monitor. It is shown what tasks print, and neither values nor what opens them."""

    def look(self, seconds: float = 0.0) -> list[Message]:
        found = []
        for message in self.wire.received(seconds):
            try:
                found.append(decode(message, is_lenient=True))
            except Unreadable as problem:
                self._attack.troubles.append(f"{self.place} was sent what cannot be read: {problem.text}")
                continue
            body = b"".join(bytes(frame) for frame in message)
            secrets = {"peer id": self._victim.peer_id, "peer id in text": self._victim.peer_id.hex().encode()}
            if found[-1].kind not in _SHOWS_OUTPUT:
                secrets["value"] = self._victim.marker
            for what, secret in secrets.items():
                if secret in body:
                    self._attack.troubles.append(f"{self.place} was sent a {what} of the other user: {found[-1].kind}")
        return found

    def wait_for(self, kind: str, count: int = 1) -> list[Message]:
        """So many messages of a kind, or fewer if no more have come in time. The scheduler answers the questions of all
        monitors of a user in their order, so an answer may wait for those of an earlier watcher."""
        found: list[Message] = []
        for _ in range(_WAITS):
            found += [one for one in self.look(0.3) if one.kind == kind]
            if len(found) >= count:
                break
        return found


def watches(attack: Attack, victim: Victim) -> None:
    """All topics, snapshots, explanations and dumps, and every other message of a monitor, about the other user."""
    chance = attack.chance
    home = Neighbour(attack, AT_P, CLIENT, victim)
    thief = Thief(home, victim)
    kinds = sorted(set(may_send("scheduler", "monitor")) - {"bye"})
    ids = [one for one in victim.ids if one != victim.peer_id]  # an answer may repeat what was asked for
    for at in (AT_MONITOR, AT_P):
        watcher = Watcher(attack, at, MONITOR, victim)
        if not watcher.is_welcome:
            attack.troubles.append(f"{watcher.place}: a right ticket was refused")
            continue
        watcher.send(encode(Message("watch", {"topics": list(TOPICS)}, 0, 0)))
        for kind in [*kinds, *chance.choices(kinds, k=30)]:
            watcher.send(encode(stolen(chance, ids, kind, thief)))
        watcher.send(encode(Message("watch", {"topics": list(TOPICS)}, 0, 0)))
        if not any(watcher.look(0.3) for _ in range(_WAITS)):
            attack.troubles.append(f"{watcher.place} was shown nothing")
        watcher.close()
    home.close()


def orders(attack: Attack, victim: Victim) -> None:
    """A monitor whose ticket is no operator's, at a scheduler that lets operators give orders: about tasks of the other
    user, about all clients and all workers. None is done, so the other user's values stay right as well."""
    for at in (AT_MONITOR, AT_P):
        watcher = Watcher(attack, at, MONITOR, victim)
        if not watcher.is_welcome:
            attack.troubles.append(f"{watcher.place}: a right ticket was refused")
            continue
        watcher.send(frames("snapshotRequest", requestId=1))
        shown = next(iter(watcher.wait_for("clusterStatus")), None)
        if shown is None:
            attack.troubles.append(f"{watcher.place} was not shown a snapshot")
            continue
        given = [
            *((CODES.CONTROL_CANCEL_TASK, task_id) for task_id in victim.ids[-50:]),
            *((CODES.CONTROL_CANCEL_CLIENT, entry["peerId"]) for entry in shown["clients"]),
            *((CODES.CONTROL_DRAIN_WORKER, entry["peerId"]) for entry in shown["workers"]),
        ]
        watcher.send(*(order(action, subject) for action, subject in given))
        outcomes = Counter(one.body["outcome"] for one in watcher.wait_for("controlReply", len(given)))
        if outcomes != {CODES.CONTROL_NO_OPERATOR: len(given)}:
            attack.troubles.append(f"{watcher.place}: {len(given)} orders were answered with {outcomes}")
        watcher.close()


# ---------------------------------------------------------------- the lane


_ANOTHER_ACCOUNT = """
import os, socket, sys
os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
for name in sys.argv[3:]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lane:
        lane.settimeout(20)
        try:
            lane.connect("\\0" + name)
            lane.sendall(bytes.fromhex(sys.argv[2]))
            answer = lane.recv(65536)
        except ConnectionError:
            answer = b""
        print(name, "sent", len(answer), "bytes to another account", flush=True)
"""


def _framed(made: Frames) -> bytes:
    return struct.pack(f"<{1 + len(made)}I", len(made), *map(len, made)) + b"".join(made)


def _lanes(attack: Attack) -> list[str]:
    return [f"scaler/1/127.0.0.1:{attack.port + at}/keys" for at in (AT_P, AT_STORAGE)]


def lane_of_another_account(attack: Attack, victim: Victim) -> None:
    """A process of another account of this host, with a right ticket of its own in its Hello."""
    import os

    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return
    said = _framed(encode(hello(attack.chance, CLIENT, credential=attack.scene.access.ticket(CLIENT))))
    arguments = [sys.executable, "-c", _ANOTHER_ACCOUNT, str(_NOBODY), said.hex(), *_lanes(attack)]
    found = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    attack.count(2, "lane")
    if found.returncode != 0 or len(found.stdout.splitlines()) != 2:
        attack.troubles.append(f"the program of another account failed: {found.stderr[-300:]}")
    for line in found.stdout.splitlines():
        if " sent 0 bytes " not in line:
            attack.troubles.append(line)


def tickets_on_the_lane(attack: Attack, victim: Victim) -> None:
    """The own account, but with a ticket that is expired, by a removed key, or for other roles: none is overlooked."""
    if not sys.platform.startswith("linux"):
        return
    shown = [*_untrue_passes(attack)][:3]  # on the lane there is no other pair
    shown.append(("for another role", attack.scene.access.pass_for(frozenset({MONITOR}))))
    for name in _lanes(attack):
        for what, one in shown:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lane:
                lane.settimeout(_ANSWER_SECONDS)
                lane.connect(f"\0{name}")
                lane.sendall(_framed(encode(hello(attack.chance, CLIENT, credential=one.ticket))))
                attack.count(place="lane")
                answer = _first_of(lane)
            if answer is None or answer.kind != "reject" or answer.body["code"] != CODES.UNAUTHORIZED:
                attack.troubles.append(f"{name}: a ticket {what} was answered with {answer and answer.kind}")


def _first_of(lane: socket.socket) -> Message | None:
    data = b""
    while len(data) < 8 or len(data) < 8 + struct.unpack("<I", data[4:8])[0]:
        try:
            portion = lane.recv(65_536)
        except OSError:
            return None
        if not portion:
            return None
        data += portion
    return decode([data[8 : 8 + struct.unpack("<I", data[4:8])[0]]], is_lenient=True)


# ---------------------------------------------------------------- sessions of others


def sessions_of_others(attack: Attack, victim: Victim) -> None:
    """A Hello that resumes, replaces or names itself as the other user's session, in every role and at every port."""
    chance = attack.chance
    for at, server in SERVERS.items():
        for role in (one for one in ROLES if ROLE_NAMES[one] in opened()[server, ROLE_NAMES[one]]):
            if role == SCHEDULER:
                continue  # there is no ticket of a user for it
            for resume in ({"sessionId": victim.session_id, "receivedSeq": 0}, {"sessionId": 0, "receivedSeq": 0}):
                fields = {"peerId": victim.peer_id, "incarnation": chance.randrange(99), "resume": resume}
                thief = Neighbour(attack, at, role, victim, **fields)
                attack.count(place=f"{PORTS[at]}, hello")
                if thief.is_welcome and server == "scheduler":
                    attack.troubles.append(f"{thief.place}: a Hello as the other user was welcomed: {resume}")
                thief.close()


def former_names(attack: Attack, victim: Victim) -> None:
    """Hellos that say to have been the other user: none gets into the family of that user's objects."""
    home = Neighbour(attack, AT_P, CLIENT, victim)
    home.close()
    for grant in (*Thief(home, victim).wrong_grants, home.grant):
        made = Neighbour(attack, AT_P, CLIENT, victim, formerName=victim.peer_id + grant)
        attack.count(place="p, hello")
        if made.is_welcome and made.grant[:ID_BYTES] == victim.peer_id:
            attack.troubles.append(
                f"a client that named itself the other user's successor is in that family: {grant!r}"
            )
        made.close()


STEPS = (
    tickets_of_every_role_at_every_port, untrue_tickets, messages_of_other_roles, watches, orders,
    lane_of_another_account, tickets_on_the_lane, sessions_of_others, former_names,
)  # fmt: skip


@family(needs_keys=True)
def doors(attack: Attack) -> None:
    beside_another_user(attack, lambda attack, victim: in_turns(attack, victim, STEPS))
