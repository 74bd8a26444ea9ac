"""Unfinished uploads give way: no user fills a storage with what may never become an object (LIM-22, STO-18)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler_protocol import codes
from scaler_protocol.ids import task_id_source
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Hello, Put, Welcome
from scaler_protocol.session import Lost, Opened, Received
from scaler_storage.core import CoreLimits, Send, StorageCore, invariants

LIMITS = CoreLimits(memory_bytes=100_000, chunk_bytes=10_000, entry_bytes=100)
NEVER = 60_000
"""The size of an object that does not become whole."""


def peer(name):
    return name.encode().ljust(16, b".")


class Story:
    def __init__(self, limits=LIMITS):
        self.core = StorageCore(limits)
        self.now = 0.0
        self.new_ids = task_id_source()

    def join(self, name, user=""):
        identity = Identity(user, frozenset({1}), False, b"") if user else None
        self.handle(Opened(peer(name), Hello(1, 1, 1, peer(name)), Welcome(1, peer("storage"), 1, 1), identity))

    def handle(self, event):
        sent = [one.message for one in self.core.handle(event, self.now) if isinstance(one, Send)]
        invariants.check(self.core)
        return sent

    def put(self, name, size, total=None, offset=0, object_id=None):
        """The code of the answer, and the id."""
        object_id = object_id or next(iter(self.new_ids(1)))
        put = Put(1, object_id, peer(name), total or size, offset, bytes(size))
        (reply,) = self.handle(Received(peer(name), 1, put))
        return reply.code, object_id

    def fill(self, names, size=5_000):
        """Until no upload more is begun."""
        count = 0
        while all(self.put(name, size, NEVER)[0] == codes.OK for name in names):
            count += 1
            if count > 100:
                break


@pytest.mark.parametrize("has_keys", [True, False])
@pytest.mark.parametrize("size", [1, 300, 5_000, 9_000])
def test_a_crowd_of_uploads_gives_way_to_an_object_of_another(has_keys, size):
    story = Story()
    names = [f"m{number}" for number in range(4)]
    for name in names:
        story.join(name, "mallory" if has_keys else "")
    story.join("ana", "ana" if has_keys else "")
    story.fill(names)
    assert story.core.memory_bytes > LIMITS.memory_bytes // 3
    for _ in range(5):
        assert story.put("ana", size)[0] == codes.OK
        for name in names:
            story.put(name, 5_000, NEVER)
    if not has_keys:  # each peer is a user, and none of them holds much more than that
        story.now += LIMITS.upload_still_seconds + 0.1
    begun, object_id = story.put("ana", 5_000, 15_000)
    assert begun == codes.OK
    assert story.put("ana", 5_000, 15_000, 5_000, object_id)[0] == codes.OK
    assert story.put("ana", 5_000, 15_000, 10_000, object_id)[0] == codes.OK


def test_two_users_who_want_as_much_do_not_take_each_others_room():
    """Else each would begin again for ever."""
    story = Story()
    story.join("ana", "ana")
    story.join("ben", "ben")
    ids = {}
    for name in ("ana", "ben"):
        code, ids[name] = story.put(name, 10_000, 80_000)
        assert code == codes.OK
    codes_told = []
    for offset in range(10_000, 80_000, 10_000):
        for name in ("ana", "ben"):
            if name in ids:
                code, _ = story.put(name, 10_000, 80_000, offset, ids[name])
                if code != codes.OK:
                    codes_told.append(code)
                    del ids[name]
    assert codes_told == [codes.STORAGE_FULL] and len(story.core.objects.objects) == 1, "one of them is stored"


def test_what_stands_still_gives_way_to_the_same_user_too():
    story = Story()
    story.join("ana", "ana")
    story.fill(["ana"])
    while story.put("ana", 9_000)[0] == codes.OK:
        assert len(story.core.objects.objects) < 12
    story.now += LIMITS.upload_still_seconds + 0.1
    for _ in range(4):
        assert story.put("ana", 9_000)[0] == codes.OK


def test_an_upload_does_not_give_way_to_its_own_next_chunk():
    story = Story()
    story.join("ana", "ana")
    _, object_id = story.put("ana", 10_000, 90_000)
    story.put("ana", 9_000)
    story.now += LIMITS.upload_still_seconds + 0.1
    told = [story.put("ana", 10_000, 90_000, offset, object_id)[0] for offset in range(10_000, 90_000, 10_000)]
    assert set(told) <= {codes.OK, codes.STORAGE_FULL, codes.BAD_CHUNK}


def test_no_upload_gives_way_for_what_has_no_room_anyhow():
    story = Story()
    story.join("ana", "ana")
    story.join("mallory", "mallory")
    for _ in range(9):
        assert story.put("ana", 10_000)[0] == codes.OK
    assert story.put("mallory", 1_000, 1_001)[0] == codes.OK
    assert story.put("ana", 10_000)[0] == codes.STORAGE_FULL
    assert len(story.core.uploads.uploads) == 1


def test_when_very_many_are_unfinished_a_session_with_few_may_still_begin():
    story = Story(replace(LIMITS, session_uploads=9, all_uploads=10, least_uploads=2))
    for name in ("m", "n"):
        story.join(name)
    assert [story.put("m", 1, 2)[0] for _ in range(10)] == [codes.OK] * 9 + [codes.TOO_MANY]
    assert [story.put("n", 1, 2)[0] for _ in range(3)] == [codes.OK] * 2 + [codes.TOO_MANY]
    story.handle(Lost(peer("m"), 0, "", True))
    assert story.put("n", 1, 2)[0] == codes.OK


_step = st.tuples(st.sampled_from("abcde"), st.integers(1, 9_000), st.integers(0, 50_000), st.floats(0, 20))


@settings(max_examples=100, deadline=None)
@given(st.lists(_step, max_size=60))
def test_whatever_is_uploaded_the_limit_holds(steps):
    story, known = Story(), []
    for name in "abcde":
        story.join(name, {"a": "ana", "b": "ana", "c": "ben"}.get(name, ""))
    for name, size, rest, seconds in steps:
        story.now += seconds
        code, object_id = story.put(name, size, size + rest)
        if code == codes.OK and rest:
            known.append((name, object_id, size, size + rest))
        if known and size % 2:
            who, object_id, offset, total = known[size % len(known)]
            story.put(who, min(10_000, total - offset), total, offset, object_id)
