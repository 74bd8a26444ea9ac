"""Get and Duplicate: slices of what is stored, and waiting for what is not."""

from __future__ import annotations

import math

import pytest

from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Duplicate, Get
from scaler_protocol.session import Received
from scaler_storage.core import CoreLimits
from scaler_storage.core.values import COPIED_BYTES


def oid(name):
    return ObjectId(name.encode().ljust(16, b"."))


def peer(name):
    return PeerId(name.encode().ljust(16, b"."))


def test_an_answer_is_a_view_of_one_stored_piece(story):
    piece = bytes(COPIED_BYTES)
    story.put("c1", "o", piece, total=2 * COPIED_BYTES)
    story.put("c1", "o", piece, total=2 * COPIED_BYTES, offset=COPIED_BYTES)
    get = Get(1, oid("o"), COPIED_BYTES - 2, 100)
    (action,) = story.core.handle(Received(peer("w1"), 1, get), story.now)
    assert action.message.payload.obj is piece, "zero copy"
    assert action.message.payload.nbytes == 2, "to the end of its piece and no further"


@pytest.mark.parametrize(
    ("offset", "chunk", "expected"),
    [(0, 0, b"abc"), (0, 2, b"ab"), (1, 1, b"b"), (3, 0, b"de"), (4, 9, b"e"), (5, 0, b"fg"), (7, 0, b"")],
)
def test_where_a_slice_begins_and_ends(story, offset, chunk, expected):
    for start, data in ((0, b"abc"), (3, b"de"), (5, b"fg")):
        story.put("c1", "o", data, total=7, offset=start)
    assert story.get("w1", "o", offset=offset, chunk=chunk) == [("w1", ("value", 4, 7, offset, expected))]


def test_beyond_the_end_is_refused(story):
    story.put("c1", "o", b"abc")
    assert story.get("w1", "o", offset=4) == [("w1", ("reply", 2, codes.BAD_CHUNK))]


@pytest.mark.parametrize("limits", [CoreLimits(entry_bytes=0, chunk_bytes=4)])
def test_no_answer_is_larger_than_a_chunk(story):
    for start in (0, 4):
        story.put("c1", "o", b"1234", total=8, offset=start)
    assert story.get("w1", "o", chunk=100) == [("w1", ("value", 3, 8, 0, b"1234"))]


def test_waiters_are_served_in_the_order_they_came(story):
    assert story.get("w1", "o", wait=5.0) == []
    assert story.get("s1", "o", wait=5.0, chunk=1) == []
    assert story.duplicate("w1", "o", "p", owner="c2", wait=5.0) == []
    assert story.status("c1").waiter_count == 3
    assert story.put("c1", "o", b"ab") == [
        ("c1", ("reply", 5, codes.OK)),
        ("w1", ("value", 1, 2, 0, b"ab")),
        ("s1", ("value", 2, 2, 0, b"a")),
        ("w1", ("reply", 3, codes.OK)),
    ]
    assert story.status("c1").waiter_count == 0
    assert story.get("c1", "p") == [("c1", ("value", 7, 2, 0, b"ab"))]


def test_a_wait_ends_at_its_deadline(story):
    story.get("w1", "o", wait=5.0)
    story.get("w1", "o", wait=3.0)
    assert story.core.next_deadline() == story.now + 3.0
    assert story.later(3.0) == [("w1", ("reply", 2, codes.NO_SUCH_OBJECT))]
    assert story.core.next_deadline() == story.now + 2.0
    assert story.later(2.0) == [("w1", ("reply", 1, codes.NO_SUCH_OBJECT))]
    assert story.core.next_deadline() is None


def test_what_is_due_is_not_served_by_an_object_that_comes_later(story):
    story.get("w1", "o", wait=5.0)
    story.now += 5.0
    assert story.put("c1", "o", b"ab") == [
        ("w1", ("reply", 1, codes.NO_SUCH_OBJECT)),
        ("c1", ("reply", 2, codes.OK)),
    ]


@pytest.mark.parametrize("wait", [0.0, -1.0, math.nan])
def test_no_wait_is_an_answer_at_once(story, wait):
    assert story.get("w1", "o", wait=wait) == [("w1", ("reply", 1, codes.NO_SUCH_OBJECT))]


def test_an_endless_wait_has_an_end(story):
    story.get("w1", "o", wait=math.inf)
    assert story.core.next_deadline() == story.now + 86_400.0


def test_waits_end_with_their_session(story):
    story.get("w1", "o", wait=5.0)
    story.get("c1", "o", wait=5.0)
    assert story.lose("w1") == []
    assert story.put("c1", "o", b"ab") == [("c1", ("reply", 3, codes.OK)), ("c1", ("value", 2, 2, 0, b"ab"))]


@pytest.mark.parametrize("limits", [CoreLimits(entry_bytes=0, session_waiters=2)])
def test_waits_of_a_session_are_bounded(story):
    story.get("w1", "a", wait=5.0)
    story.get("w1", "b", wait=5.0)
    assert story.get("w1", "c", wait=5.0) == [("w1", ("reply", 3, codes.TOO_MANY))]
    assert story.get("c1", "c", wait=5.0) == []


def test_a_duplicate_lives_on_without_its_source(story):
    story.put("c1", "o", b"ab")
    assert story.duplicate("w1", "o", "p", owner="c2") == [("w1", ("reply", 2, codes.OK))]
    story.release("c1", "o")
    assert story.get("w1", "p") == [("w1", ("value", 4, 2, 0, b"ab"))]


def test_a_duplicate_of_what_is_not_there(story):
    assert story.duplicate("w1", "o", "p") == [("w1", ("reply", 1, codes.NO_SUCH_OBJECT))]
    story.duplicate("w1", "o", "p", wait=1.0)
    assert story.later(1.0) == [("w1", ("reply", 2, codes.NO_SUCH_OBJECT))]


def test_a_duplicate_asked_again_after_its_source_went(story):
    story.put("c1", "o", b"ab")
    story.duplicate("w1", "o", "p")
    story.release("c1", "o")
    assert story.duplicate("w1", "o", "p") == [("w1", ("reply", 4, codes.OK))]


def test_duplicates_that_wait_for_each_other(story):
    """A ring of names, a chain behind it, and a name of itself: each is answered once."""
    story.duplicate("w1", "a", "b", wait=5.0)
    story.duplicate("w1", "b", "a", wait=5.0)
    story.duplicate("w1", "b", "c", wait=5.0)
    story.duplicate("w1", "a", "a", wait=5.0)
    story.get("w1", "c", wait=5.0)
    answers = story.put("c1", "a", b"x")
    assert sorted(answer[1][1] for answer in answers) == [1, 2, 3, 4, 5, 6]
    assert ("w1", ("value", 5, 1, 0, b"x")) in answers
    assert story.status("c1").object_count == 3


def test_a_long_chain_of_duplicates_is_no_deep_recursion(story):
    for number in range(3000):
        request = Duplicate(number, oid(str(number)), oid(str(number + 1)), peer("c1"), 5.0)
        assert story.core.handle(Received(peer("w1"), 1, request), story.now) == []
    assert len(story.put("c1", "0", b"x")) == 3001
    assert story.core.memory_bytes == 1
