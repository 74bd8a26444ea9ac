"""Conversations of true programs, recorded and said again: by another connection, in another order, cut and joined."""

from __future__ import annotations

import time

import zmq

from scaler_conformance.wire import Unreadable, decode, encode
from tests.fuzz.attack import Attack, Scene
from tests.fuzz.families import BOTH, CLIENT, PORTS, ROLE_NAMES, WORKER, family, wire
from tests.fuzz.mutations import Frames, hello, numbered

RECORD_SECONDS = 1.0
MOST_RECORDED = 400
_PROGRAMS = {CLIENT: ("tests.fuzz.bystander",), WORKER: ("scaler_worker", "-n", "1")}


def recorded(scene: Scene, role: int) -> list[Frames]:
    """What a program of this role says to the scheduler. It is answered by the scheduler itself, at the other end of a
    relay, which no program would dial that has a key."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    found: list[Frames] = []
    try:
        server, dialer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        port = server.bind_to_random_port("tcp://127.0.0.1")
        dialer.setsockopt(zmq.ROUTING_ID, new_id_of(role))
        dialer.connect(scene.address)
        address = f"tcp://127.0.0.1:{port}"
        module, *options = _PROGRAMS[role]
        program = scene.start(module, address, *options, "--insecure")
        try:
            _relay(server, dialer, found)
        finally:
            program.end()
    finally:
        context.destroy(500)
    return found


def new_id_of(role: int) -> bytes:
    return bytes([role]) * 16


def _relay(server: zmq.Socket[bytes], dialer: zmq.Socket[bytes], found: list[Frames]) -> None:
    """Until the program has said nothing more for a while, or much."""
    routing_id, patience = b"", 10.0
    while len(found) < MOST_RECORDED:
        ready = [one for one, _ in zmq.zmq_poll([(server, zmq.POLLIN), (dialer, zmq.POLLIN)], int(1e3 * patience))]
        if not ready:
            return
        if server in ready:
            routing_id, *said = server.recv_multipart()
            found.append(said)
            dialer.send_multipart(said)
            patience = RECORD_SECONDS
        if dialer in ready and routing_id:
            server.send_multipart([routing_id, *dialer.recv_multipart()])


@family(has_sessions=True)
def replays(attack: Attack) -> None:
    """The recorded ones of client and worker: as they were, under the same peer id or another one, with messages left
    out, doubled, in another order, and those of two roles in one. With keys nothing can be recorded, and only Hellos
    are said."""
    chance, roles = attack.chance, (CLIENT, WORKER)
    seconds = attack.end_at - time.monotonic()
    stories = {role: recorded(attack.scene, role) for role in roles if attack.scene.access.is_insecure}
    attack.end_at = time.monotonic() + seconds
    while attack.is_on:
        role = chance.choice(roles)
        story = [*stories.get(role, [])]
        first = _hello_of(story) if story and chance.random() < 0.5 else None
        if first is None:
            first = encode(hello(chance, role, credential=attack.scene.access.ticket(role)))
        if story and chance.random() < 0.3:
            story += stories[chance.choice(sorted(stories))]
        rest_of_it = _changed(attack, story[1:])
        at = chance.choice(BOTH)
        peer, place = wire(attack, at, role), f"{PORTS[at]}, {ROLE_NAMES[role]}"
        peer.send(first)
        answer = next(iter(peer.received(0.5)), None)
        attack.sessions += answer is not None and _kind_of(answer) == "welcome"
        attack.count(place=place)
        is_numbered = chance.random() < 0.7
        for number, made in enumerate(rest_of_it, 1):
            attack.count(place=place)
            said = [numbered(made[0], number), *made[1:]] if is_numbered else made
            if not attack.is_on or not peer.send(said):
                break
        peer.drop_what_came()
        peer.close()


def _hello_of(story: list[Frames]) -> Frames | None:
    return next((made for made in story if _kind_of(made) == "hello"), None)


def _kind_of(made: Frames) -> str:
    try:
        return decode(made, is_lenient=True).kind
    except Unreadable:
        return ""


def _changed(attack: Attack, story: list[Frames]) -> list[Frames]:
    chance = attack.chance
    how = chance.randrange(6)
    if how == 1:
        chance.shuffle(story)
    elif how == 2:
        return [made for made in story for _ in range(2)]
    elif how == 3:
        return [made for made in story if chance.random() < 0.7]
    elif how == 4:
        return story[::-1]
    elif how == 5:
        return story[chance.randrange(len(story) + 1) :] + story
    return story
