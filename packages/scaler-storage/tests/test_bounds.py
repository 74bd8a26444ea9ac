"""What peers can make grow is bounded, and no message stops the storage for long (LIM-12, STO-36)."""

from __future__ import annotations

import pytest

from scaler_protocol import codes
from scaler_protocol.ids import task_id_source
from scaler_protocol.messages import Duplicate, Get, Hello, ObjectReply, Put, Release, Welcome
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core import CoreLimits, Disconnect, Send, StorageCore, Strike, Tick, invariants


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


def test_a_peer_that_sends_faster_than_its_work_is_done_loses_its_session():
    story, ids = Bare(CoreLimits(deferred_bytes=10_000)), list(task_id_source()(30_000))
    story.send("c1", Release(7, peer("c1"), b"".join(ids)))
    assert story.send("c1", Put(8, ids[0], peer("c1"), 8_000, 0, bytes(8_000))) == []
    (action,) = story.send("c1", Put(9, ids[1], peer("c1"), 8_000, 0, bytes(8_000)))
    assert isinstance(action, Disconnect) and action.code == codes.OVERLOADED


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
