"""Hostile monitors, at the port where monitors dial: they watch without reading, ask without end, change their mind."""

from __future__ import annotations

from tests.fuzz.attack import Attack
from tests.fuzz.families import AT_P, CLIENT, MONITOR, Peer, family, in_turns, raw_wire, rest
from tests.fuzz.mutations import frames
from tests.fuzz.wire import frame

AT_MONITOR = 2
TOPICS = ("status", "tasks", "graphs", "logs")
WATCHERS = 100


@family(place="p+2, no session")
def subscriptions(attack: Attack) -> None:
    """Subscribers of an earlier protocol: topics without end, and one that is very long."""
    peer = raw_wire(attack, AT_MONITOR, b"SUB")
    chance = attack.chance
    while attack.is_on:
        if peer.is_closed:
            rest()
            peer = raw_wire(attack, AT_MONITOR, b"SUB")
        if chance.random() < 0.1:
            peer.say(frame(b"\x01" + bytes(1 << 20)))
        block = b"".join(frame(b"\x01" + chance.randbytes(30)) for _ in range(2000))
        attack.count(2000)
        if not peer.say(block):
            peer.close()


@family(has_sessions=True)
def watches_without_end(attack: Attack) -> None:
    """Other topics each time: ours, unknown ones, very many, very long ones."""
    made = [
        frames("watch", topics=list(TOPICS)),
        frames("watch", topics=[]),
        frames("watch", topics=["tasks"] * 1_000),
        frames("watch", topics=["x" * 60_000]),
        frames("watch", topics=[f"topic {number}" for number in range(5_000)]),
    ]
    weights = (300, 300, 20, 20, 1)

    def step(peer: Peer) -> bool:
        return peer.say(*(attack.chance.choices(made, weights)), attack.chance.choice((1, 5, 20)))

    in_turns(attack, lambda: Peer(attack, AT_MONITOR, MONITOR), step, peers=20)


@family(has_sessions=True)
def deaf_watchers(attack: Attack) -> None:
    """More than are served, and none of them reads anything."""
    peers = [Peer(attack, AT_MONITOR, MONITOR) for _ in range(WATCHERS + 20)]
    for peer in peers:
        peer.send(frames("watch", topics=list(TOPICS)))
    bystander = Peer(attack, AT_P, CLIENT)
    while attack.is_on:
        rest(0.1)
        bystander.send(frames("ping"))


@family(has_sessions=True)
def questions(attack: Attack) -> None:
    """Snapshots, explanations, stacks and parts of dumps, asked for without end and not read."""
    made = [
        frames("snapshotRequest", requestId=1),
        frames("explain", requestId=2),
        frames("explain", requestId=2, taskId=bytes(16)),
        frames("dumpRequest", requestId=3),
        frames("dumpRequest", requestId=3, part=1),
        frames("explain", requestId=4, taskSource=bytes(4), taskNumber=1),
        frames("stackRequest", requestId=5, taskId=bytes(16)),
        frames("graphRequest", requestId=6, graphId=bytes(16), clientId=bytes(16), first=2**32 - 1, wantsShape=True),
    ]

    def step(peer: Peer) -> bool:
        return peer.say(attack.chance.choice(made), attack.chance.choice((1, 50, 300)))

    in_turns(attack, lambda: Peer(attack, AT_MONITOR, MONITOR), step, peers=5)
