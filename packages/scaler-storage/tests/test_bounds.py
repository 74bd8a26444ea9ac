"""What peers can make grow is bounded, and no message stops the storage for long (LIM-12, STO-36)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler_protocol import codes
from scaler_protocol.codec import Envelope, decode
from scaler_protocol.ids import RoutingId, task_id_source
from scaler_protocol.messages import (
    Acknowledge,
    Duplicate,
    Get,
    Hello,
    ObjectReply,
    Ping,
    Put,
    Release,
    Value,
    Welcome,
)
from scaler_protocol.session import Lost, Opened, Received, SessionServer
from scaler_storage.core import CoreLimits, Send, StorageCore, Strike, Tick, invariants


def peer(name):
    return name.encode().ljust(16, b".")


class Bare:
    """A core without the invariants after each event: to derive them for many objects takes long."""

    def __init__(self, limits: CoreLimits | None = None) -> None:
        self.core = StorageCore(limits)
        for name in ("c1", "c2"):
            self.core.handle(Opened(peer(name), Hello(1, 1, 1, peer(name)), Welcome(1, peer("storage"), 1, 1)), 0.0)

    def send(self, name, message):
        return self.core.handle(Received(peer(name), 1, message), 0.0)

    def put(self, name, object_ids, payload=b""):
        for object_id in object_ids:
            self.send(name, Put(1, object_id, peer(name), len(payload), 0, payload))

    def turn(self):
        return self.core.handle(Tick(), 0.0)


def test_no_turn_is_long_however_much_a_message_releases():
    story, ids = Bare(), list(task_id_source()(50_000))
    story.put("c1", ids)
    actions = story.send("c1", Release(7, peer("c1"), b"".join(ids)))
    turns, told = [], []
    while story.core.work.jobs:
        assert story.core.next_deadline() == 0.0 and story.core.is_busy_with(peer("c1"))
        turns.append(sum(isinstance(action, Strike) for action in actions))
        actions = story.turn()
        told += [action.message for action in actions if isinstance(action, Send)]
    assert told == [ObjectReply(7)] and not story.core.objects.objects
    assert max(turns) <= 1.2 * story.core.limits.turn_releases


def test_no_message_overtakes_a_release():
    """Else what is put again under an id that is being released would be lost."""
    story, ids = Bare(), list(task_id_source()(10_000))
    story.put("c1", ids)
    story.send("c1", Release(7, peer("c1"), b"".join(ids)))
    assert story.core.work.jobs
    assert story.send("c1", Put(8, ids[-1], peer("c1"), 1, 0, b"x")) == []
    assert [one.message.request_id for one in story.send("c2", Put(3, ids[0][::-1], peer("c2"), 1, 0, b"x"))] == [3]
    story.core.handle(Lost(peer("c1"), 0, "", True), 0.0)
    story.core.handle(Opened(peer("c1"), Hello(1, 1, 1, peer("c1")), Welcome(1, peer("storage"), 1, 1)), 0.0)
    told = []
    while story.core.work.jobs:
        told += [one.message.request_id for one in story.turn() if isinstance(one, Send)]
        invariants.check(story.core)
    assert told == [7, 8]
    assert set(story.core.objects.objects) == {ids[-1], ids[0][::-1]} and peer("c1") in story.core.roles


def test_a_peer_that_sends_faster_than_its_work_is_done_is_held_back():
    """(SES-33)"""
    story, ids = Bare(), list(task_id_source()(30_000))
    pressure = story.core.work.pressure
    pressure.peer_bytes = 1_000_000
    story.send("c1", Release(7, peer("c1"), b"".join(ids)))
    assert pressure.admits(peer("c1"), 1) and not pressure.is_strained
    for number in (8, 9):
        assert story.send("c1", Put(number, ids[number], peer("c1"), 500_000, 0, bytes(500_000))) == []
        invariants.check(story.core)
    assert pressure.is_strained and not pressure.admits(peer("c1"), 1) and pressure.admits(peer("c2"), 1)
    told = []
    while story.core.work.jobs:
        told += [one.message.request_id for one in story.turn() if isinstance(one, Send)]
        invariants.check(story.core)
    assert told == [7, 8, 9] and not pressure.is_strained


# ---------------------------------------------------------------- what is sent and not read


class Reader:
    """A storage with one object of 64 chunks, and what its session has not acknowledged, as the shell would tell it."""

    def __init__(self, **limits):
        self.unread = defaultdict(int)
        #: request ids of what each was sent, in order
        self.answered = defaultdict(list)
        self.limits = CoreLimits(chunk_bytes=1_000, unread_bytes=4_000, all_unread_bytes=9_000, least_unread_bytes=1)
        self.limits = replace(self.limits, **limits)
        self.core = StorageCore(self.limits, self.unread.__getitem__, lambda: sum(self.unread.values()))
        for name in ("c1", "c2", "c3"):
            self.handle(Opened(peer(name), Hello(1, 1, 1, peer(name)), Welcome(1, peer("storage"), 1, 1)))
        self.object_id = task_id_source()(1)[0]
        for offset in range(0, 64_000, 1_000):
            self.send("c1", Put(0, self.object_id, peer("c1"), 64_000, offset, bytes(1_000)))
        self.unread.clear()

    def handle(self, event):
        told = []
        for one in self.core.handle(event, 0.0):
            if not isinstance(one, Send):
                continue
            self.unread[one.peer_id] += len(getattr(one.message, "payload", b"")) + 256
            self.answered[one.peer_id].append(getattr(one.message, "request_id", 0))
            told.append(one.message)
        invariants.check(self.core)
        return told

    def send(self, name, message):
        return self.handle(Received(peer(name), 1, message))

    def get(self, name, number):
        return self.send(name, Get(number, self.object_id, 1_000 * number, 0, 0.0))

    def reads(self, name, size):
        self.unread[peer(name)] -= min(size, self.unread[peer(name)])
        return [message.request_id for message in self.handle(Tick())]


def test_gets_wait_until_what_was_sent_before_is_read():  # LIM-14
    story = Reader()
    answered = [one.request_id for number in range(10) for one in story.get("c1", number)]
    assert answered == [0, 1, 2, 3] and story.core.is_busy_with(peer("c1"))
    assert [one.request_id for one in story.get("c2", 20)] == [20], "others are served"
    assert [type(one) for one in story.send("c1", Release(7, peer("c3"), story.object_id))] == [ObjectReply]
    assert story.reads("c1", 2_800) == [4, 5]
    assert story.reads("c1", 0) == []
    assert story.reads("c1", 99_999) == [6, 7, 8, 9]
    assert not story.core.is_busy_with(peer("c1"))


def test_a_get_that_waits_finds_what_is_there_by_then():
    story = Reader()
    for number in range(5):
        story.get("c1", number)
    story.send("c2", Release(7, peer("c1"), story.object_id))
    story.unread.clear()
    (told,) = story.handle(Tick())
    assert told.request_id == 4 and told.code == codes.NO_SUCH_OBJECT


def test_what_waits_ends_with_its_session():
    story = Reader()
    for number in range(9):
        story.get("c1", number)
    story.handle(Lost(peer("c1"), 0, "", True))
    assert story.reads("c1", 99_999) == [] and not story.core.pacing.waiting


def test_gets_that_wait_are_counted():
    story = Reader(session_waiters=3)
    told = [one for number in range(10) for one in story.get("c1", number)]
    assert [one.request_id for one in told] == [0, 1, 2, 3, 7, 8, 9]
    assert {one.code for one in told[4:]} == {codes.TOO_MANY}


def test_when_very_many_wait_a_session_that_has_few_may_still_wait():  # LIM-19
    story = Reader(session_waiters=9, all_waiters=10, least_waiters=2)
    missing = task_id_source()(2)[1]

    def told(name, count):
        found = [story.send(name, Get(number, missing, 0, 0, 60.0)) for number in range(count)]
        return [one.code for (one,) in filter(None, found)]

    assert told("c1", 9) == []
    assert told("c2", 4) == [codes.TOO_MANY] * 2, "two of its own, and no more when there are ten"
    assert told("c1", 1) == [codes.TOO_MANY]
    story.handle(Lost(peer("c1"), 0, "", True))
    assert told("c2", 7) == []


def test_waits_for_one_object_are_not_answered_all_at_once():
    story = Reader()
    other = task_id_source()(2)[1]
    for number in range(10):
        assert story.send("c2", Get(number, other, 0, 0, 60.0)) == []
    told = story.send("c1", Put(77, other, peer("c1"), 1_000, 0, bytes(1_000)))
    assert [one.request_id for one in told] == [77, 0, 1, 2, 3]


def test_a_reader_that_acknowledges_as_late_as_it_may_waits_for_nothing_else():
    """20 Gets of 8 MiB at once. Now and then it has to acknowledge with a Ping, while the window of its socket is small
    (SES-25, SES-29): not more often than without the bound of LIM-14."""
    assert pings_of_a_late_reader(CoreLimits().unread_bytes) == pings_of_a_late_reader(1 << 40) <= 5


def pings_of_a_late_reader(unread_bytes):
    mib = 1 << 20
    hello, routing_id = Hello(1, 1, 1, peer("c1")), RoutingId(b"r" * 16)
    server = SessionServer(server_id=peer("s"), role_name="storage", allowed_roles={1}, backlog_bytes=1 << 40)
    core = StorageCore(CoreLimits(unread_bytes=unread_bytes), server.backlog_bytes, lambda: server.total_backlog_bytes)
    seq = pings = unacknowledged = messages = came = received = 0
    object_id = task_id_source()(1)[0]

    def turn():
        server.begin(0.0)
        for event in (*server.take_events(), Tick()):
            for one in core.handle(event, 0.0):
                if isinstance(one, Send):
                    server.send(one.peer_id, one.message)
        server.settle(0.0)

    def say(message):
        nonlocal seq
        seq += not isinstance(message, (Hello, Acknowledge))
        number = 0 if isinstance(message, (Hello, Acknowledge)) else seq
        server.receive(routing_id, Envelope(number, received, message), 100, 0.0)
        turn()

    say(hello)
    say(Put(1, object_id, peer("c1"), 8 * mib, 0, bytes(8 * mib)))
    for number in range(20):
        say(Get(10 + number, object_id, 0, 0, 0.0))
    while came < 20:
        sent = server.take_transmissions()
        for _, frames in sent:
            said = decode(bytes(frames[0]), frames[1:])
            if said.seq:
                received, messages = said.seq, messages + 1
                unacknowledged += sum(map(len, frames))
                came += isinstance(said.message, Value)
        if unacknowledged >= 32 * mib or messages >= 64:
            say(Acknowledge())
            unacknowledged = messages = 0
        elif not sent:
            pings += 1
            assert pings <= 20, "it goes on"
            say(Ping(pings))
            unacknowledged = messages = 0
    return pings


def test_no_turn_is_long_however_many_gets_wait():
    story = Reader(turn_releases=10)
    for number in range(40):
        story.send("c1", Get(number, story.object_id, 0, 1, 0.0))
    count = len(story.answered[peer("c1")])
    story.unread.clear()
    turns = [len(story.handle(Tick()))]
    while story.core.next_deadline() == 0.0:
        turns.append(len(story.handle(Tick())))
    assert max(turns) <= 10 and len(turns) > 1 and count + sum(turns) < 164
    assert story.core.pacing.waiting and not story.core.pacing.is_behind, "the rest waits for the reader"


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(("c1", "c2", "c3")), st.integers(1, 8), st.booleans()), min_size=1, max_size=60
    )
)
def test_whatever_peers_read_no_crowd_makes_it_send_more(steps):  # LIM-14
    story, asked = Reader(), defaultdict(list)
    story.answered.clear()
    for name, count, is_reading in steps:
        for _ in range(count):
            asked[peer(name)].append(sum(map(len, asked.values())) + 1)
            story.send(name, Get(asked[peer(name)][-1], story.object_id, 0, 0, 0.0))
            assert max(story.unread.values()) < 4_000 + 1_256
            assert sum(story.unread.values()) < 9_000 + 3 * 1_256
        if is_reading:
            story.reads(name, 99_999)
    while story.core.pacing.waiting:
        for name in ("c1", "c2", "c3"):
            story.reads(name, 99_999)
    assert dict(story.answered) == dict(asked), "each Get is answered, in order"


def test_waits_of_a_lost_session_end_in_slices():
    story, ids = Bare(), list(task_id_source()(5_000))
    for number, object_id in enumerate(ids):
        story.send("c1", Get(number, object_id, 0, 0, 60.0))
    story.core.handle(Lost(peer("c1"), 0, "", True), 0.0)
    assert 0 < len(story.core.waiters) < 5_000
    while story.core.work.jobs:
        story.turn()
        invariants.check(story.core)
    assert not story.core.waiters.waiters and peer("c1") not in story.core.roles


def test_empty_objects_and_their_owners_weigh_something():
    """Else `--memory-limit` would not bound what they take."""
    story, ids = Bare(CoreLimits(memory_bytes=10 * 512)), list(task_id_source()(20))
    story.put("c1", ids)
    assert len(story.core.objects.objects) == 10 and story.core.memory_bytes == 10 * 512
    (told,) = story.send("c2", Duplicate(1, ids[0], ids[15], peer("c2")))
    assert told.message.code == codes.STORAGE_FULL
    story.send("c1", Release(0, peer("c1"), ids[0]))
    assert story.core.memory_bytes == 9 * 512
    (told,) = story.send("c2", Duplicate(1, ids[1], ids[15], peer("c2")))
    assert told.message.code == codes.OK and story.core.memory_bytes == 10 * 512


@pytest.mark.parametrize(
    "limits", [CoreLimits(objects=3), CoreLimits(owner_objects=3), CoreLimits(owners=1, owner_objects=3)]
)
def test_objects_and_owners_are_counted(limits):
    story, ids = Bare(limits), list(task_id_source()(5))
    story.put("c1", ids)
    assert len(story.core.objects.objects) == 3
    (told,) = story.send("c1", Put(1, ids[4], peer("c1"), 0, 0, b""))
    assert told.message.code == codes.TOO_MANY and "release" in told.message.text
    (told,) = story.send("c2", Put(1, ids[4], peer("c2"), 0, 0, b""))
    assert (told.message.code == codes.OK) == (limits.owner_objects == 3 and limits.owners > 1)


def test_waits_for_one_object_are_counted():
    story, ids = Bare(CoreLimits(object_waiters=2)), list(task_id_source()(2))
    assert [story.send("c1", Get(number, ids[0], 0, 0, 60.0)) for number in (1, 2)] == [[], []]
    (told,) = story.send("c2", Get(3, ids[0], 0, 0, 60.0))
    assert told.message.code == codes.TOO_MANY
    assert story.send("c2", Get(4, ids[1], 0, 0, 60.0)) == []
