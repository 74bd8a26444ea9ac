"""Peers that cause answers and read none of them: what a storage keeps for all of them together is bounded, whatever
they ask for, and peers that read notice nothing (LIM-14, LIM-19, LIM-21, SES-35)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from scaler_protocol.ids import task_id_source
from scaler_protocol.messages import (
    Duplicate,
    Get,
    Hello,
    Put,
    Release,
    ReleaseOwner,
    StorageStatusRequest,
    Value,
    Welcome,
)
from scaler_protocol.session import Lost, Opened, Received
from scaler_protocol.transport.sockets import ZERO_COPY_BYTES
from scaler_storage.core import CoreLimits, Send, StorageCore, Tick, invariants
from scaler_storage.core.replies import answer_bytes

LIMITS = CoreLimits(
    chunk_bytes=100_000,
    unread_bytes=300_000,
    all_unread_bytes=900_000,
    least_unread_bytes=20_000,
    small_chunk_bytes=50_000,
    copied_unread_bytes=100_000,
    all_copied_unread_bytes=200_000,
    answers_bytes=40_000,
    all_answers_bytes=80_000,
    least_answers_bytes=5_000,
    session_waiters=100,
    all_waiters=200,
    least_waiters=10,
)
NAMES = "abcdef"
SMALL, LARGE, MISSING = list(task_id_source()(3))


def peer(name):
    return name.encode().ljust(16, b".")


class Crowd:
    """A storage with a small and a large object, and what its sessions keep because it is not acknowledged."""

    def __init__(self, limits=LIMITS):
        self.kept = defaultdict(int)
        #: of these bytes, those that are not a part of a stored value
        self.own = defaultdict(int)
        self.core = StorageCore(limits, self.kept.__getitem__, lambda: sum(self.kept.values()))
        for name in (*NAMES, "owner"):
            self.join(name)
        for object_id, size in ((SMALL, 10_000), (LARGE, 100_000)):
            self.send("owner", Put(0, object_id, peer("owner"), size, 0, bytes(size)))
        self.reads("owner")

    def join(self, name):
        self.handle(Opened(peer(name), Hello(1, 1, 1, peer(name)), Welcome(1, peer("storage"), 1, 1)))

    def handle(self, event):
        for one in self.core.handle(event, 0.0):
            if isinstance(one, Send):
                chunk = one.message.payload if isinstance(one.message, Value) else b""
                size = answer_bytes(getattr(one.message, "text", ""))
                self.kept[one.peer_id] += size + len(chunk)
                self.own[one.peer_id] += size + (len(chunk) if len(chunk) < self.core.limits.small_chunk_bytes else 0)
        invariants.check(self.core)

    def send(self, name, message):
        """Whether it was taken."""
        gate = self.core.work.pressure
        if gate.is_strained and not gate.admits(peer(name), 100):
            return False
        self.handle(Received(peer(name), 1, message))
        return True

    def reads(self, name):
        self.kept[peer(name)] = self.own[peer(name)] = 0
        self.handle(Tick())


def kinds(number):
    """Whatever is answered."""
    return {
        "small chunks": Get(number, SMALL, 0, 0, 0.0),
        "large chunks": Get(number, LARGE, 0, 0, 0.0),
        "ends of objects": Get(number, SMALL, 10_000, 0, 0.0),
        "missing objects": Get(number, MISSING, 0, 0, 0.0),
        "objects to come": Get(number, MISSING, 0, 0, 60.0),
        "copies to come": Duplicate(number, MISSING, SMALL[::-1], peer("owner"), 60.0),
        "releases": Release(number, peer("owner"), MISSING),
        "puts": Put(number, SMALL, peer("owner"), 10_000, 0, bytes(10_000)),
        "bad chunks": Put(number, MISSING, peer("owner"), 10, 5, b"xxxxx"),
        "owners": ReleaseOwner(number, MISSING),
        "figures": StorageStatusRequest(number),
    }


SENT = sorted(set(kinds(1)) - {"owners"})
"""Only schedulers let owners go."""


@pytest.mark.parametrize("kind", [*SENT, "all kinds"])
def test_a_crowd_that_reads_nothing_is_held_back(kind):
    story, taken = Crowd(), 0
    for number in range(1, 400):
        for name in NAMES:
            taken += story.send(name, kinds(number)[SENT[number % len(SENT)] if kind == "all kinds" else kind])
    assert taken
    limits, most = story.core.limits, len(NAMES)
    waiting = len(story.core.waiters) + story.core.pacing.count
    assert waiting <= limits.all_waiters + most * limits.least_waiters
    answers = limits.all_answers_bytes + limits.answers_bytes + most * limits.least_answers_bytes
    chunks = limits.all_copied_unread_bytes + limits.copied_unread_bytes + most * limits.least_unread_bytes
    assert sum(story.own.values()) <= answers + chunks
    assert sum(story.kept.values()) <= limits.all_unread_bytes + limits.unread_bytes + most * 100_000 + answers
    story.join("z")
    assert story.send("z", kinds(1)["small chunks"]) and story.send("z", kinds(2)["releases"]), (
        "others are not held back"
    )
    for name in NAMES:
        for _ in range(60):
            story.reads(name)
    for name in NAMES:
        assert story.send(name, kinds(1)["releases"]), "a peer that has read goes on"
        story.reads(name)
    for name in (*NAMES, "z", "owner"):
        story.handle(Lost(peer(name), 0, "", True))
        story.kept[peer(name)] = 0
    pressure = story.core.work.pressure
    assert not pressure.is_strained and not pressure.answers.total


@pytest.mark.parametrize("kind", SENT)
def test_a_peer_that_reads_is_never_held_back(kind):
    """However much it asks for at once: as much as a reader may leave unread by SES-4."""
    story = Crowd(replace(LIMITS, session_waiters=10_000, all_waiters=10_000))
    for number in range(1, 1_000):
        assert story.send("a", kinds(number)[kind])
        if number % 64 == 0:
            story.reads("a")


def test_chunks_that_are_no_copies_wait_by_the_larger_bound_only():
    story = Crowd()
    for number in range(10):
        story.send("a", kinds(number)["large chunks"])
    assert story.kept[peer("a")] >= LIMITS.unread_bytes > LIMITS.copied_unread_bytes
    for number in range(100):
        story.send("b", kinds(number)["small chunks"])
    assert story.kept[peer("b")] <= LIMITS.copied_unread_bytes + 10_000 + answer_bytes("")


def test_the_socket_copies_what_counts_as_small():
    assert CoreLimits().small_chunk_bytes == ZERO_COPY_BYTES
