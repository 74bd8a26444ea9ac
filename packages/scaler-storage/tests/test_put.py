"""Put: chunks become objects, and what is wrong with a chunk harms nobody but its writer."""

from __future__ import annotations

import pytest

from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Put
from scaler_protocol.session import Received
from scaler_storage.core import CoreLimits
from scaler_storage.core.values import COPIED_BYTES, kept

MIB = 1024 * 1024


def test_one_chunk_makes_an_object(story):
    assert story.put("c1", "o", b"hello") == [("c1", ("reply", 1, codes.OK))]
    assert story.get("w1", "o") == [("w1", ("value", 2, 5, 0, b"hello"))]


def test_an_empty_object_is_an_object(story):
    assert story.put("c1", "o", b"") == [("c1", ("reply", 1, codes.OK))]
    assert story.get("w1", "o", wait=5.0) == [("w1", ("value", 2, 0, 0, b""))]
    assert story.status("c1").object_count == 1


def test_every_chunk_is_confirmed_and_the_last_one_makes_the_object(story):
    assert story.put("c1", "o", b"abc", total=7) == [("c1", ("reply", 1, codes.OK))]
    assert story.put("c1", "o", b"def", total=7, offset=3) == [("c1", ("reply", 2, codes.OK))]
    assert story.get("w1", "o") == [("w1", ("reply", 3, codes.NO_SUCH_OBJECT))]
    assert story.put("c1", "o", b"g", total=7, offset=6) == [("c1", ("reply", 4, codes.OK))]
    assert story.get("w1", "o") == [("w1", ("value", 5, 7, 0, b"abc"))]
    assert story.core.uploads.uploads == {}


def test_putting_what_exists_adds_the_owner(story):
    story.put("c1", "o", b"hello", owner="c1")
    assert story.put("w1", "o", b"hello", owner="c2") == [("w1", ("reply", 2, codes.OK))]
    story.release("c1", "o", owner="c1")
    assert story.get("c1", "o") == [("c1", ("value", 4, 5, 0, b"hello"))]
    story.release("c1", "o", owner="c2")
    assert story.get("c1", "o") == [("c1", ("reply", 6, codes.NO_SUCH_OBJECT))]


def test_two_writers_of_one_object_are_kept_apart_and_the_first_to_finish_makes_it(story):
    story.put("c1", "o", b"ab", total=4)
    story.put("w1", "o", b"abc", total=4, owner="c2")
    assert story.put("c1", "o", b"cd", total=4, offset=2) == [("c1", ("reply", 3, codes.OK))]
    # What the other has sent before was compared with nothing, so it begins again. (STO-30)
    assert story.put("w1", "o", b"d", total=4, offset=3, owner="c2") == [("w1", ("reply", 4, codes.BAD_CHUNK))]
    assert story.put("w1", "o", b"abc", total=4, owner="c2") == [("w1", ("reply", 5, codes.OK))]
    assert story.put("w1", "o", b"d", total=4, offset=3, owner="c2") == [("w1", ("reply", 6, codes.OK))]
    assert story.core.uploads.uploads == {}
    story.release("c1", "o", owner="c1")
    assert story.get("w1", "o") == [("w1", ("value", 8, 4, 0, b"ab"))]


def test_two_writers_of_one_owner_may_store_different_bytes(story):
    """Attempts of a task, both of which are right."""
    story.put("c1", "o", b"ab", total=4)
    story.put("w1", "o", b"ABC", total=4)
    story.put("c1", "o", b"cd", total=4, offset=2)
    assert story.put("w1", "o", b"D", total=4, offset=3) == [("w1", ("reply", 4, codes.OK))]
    assert story.core.uploads.uploads == {}
    assert story.get("w1", "o") == [("w1", ("value", 5, 4, 0, b"ab"))]


@pytest.mark.parametrize(
    ("chunks", "code"),
    [
        ([b"hello world"], codes.OK),
        ([b"hel", b"lo wo", b"rld"], codes.OK),
        ([b"hello w0rld"], codes.EXISTS),
        ([b"hel", b"LO wo", b"rld"], codes.EXISTS),
        ([b"hello", b" ", b"w", b"0rld"], codes.EXISTS),
        ([b"j", b"ello", b" world"], codes.EXISTS),
        ([b"h", b"3", b"llo world"], codes.EXISTS),
    ],
)
def test_another_owner_has_to_show_the_same_bytes(story, chunks, code):
    story.put("c1", "o", b"hello", total=11)
    story.put("c1", "o", b" world", total=11, offset=5)
    before = story.core.memory_bytes
    offset = 0
    for chunk in chunks:
        assert offset == 0 or "c2" not in str(story.core.objects.owned), "an owner with the last byte, not the first"
        ((_, (_, _, told)),) = story.put("w1", "o", chunk, total=11, offset=offset, owner="c2")
        offset += len(chunk)
        assert offset == 11 or told == codes.OK, "what the first bytes are is not told (SEC-17)"
        assert story.core.memory_bytes == before, "what is compared is not kept"
    assert told == code and story.core.uploads.uploads == {}
    story.release("c1", "o", owner="c1")
    assert len(story.core.objects.objects) == (code == codes.OK)


@pytest.mark.parametrize("owner", ["c1", "c2"])
def test_an_object_of_another_size_exists(story, owner):
    story.put("c1", "o", b"hello")
    assert story.put("w1", "o", b"hell", owner=owner) == [("w1", ("reply", 2, codes.EXISTS))]
    assert story.put("w1", "o", b"hello!", owner=owner) == [("w1", ("reply", 3, codes.EXISTS))]
    assert story.get("c1", "o") == [("c1", ("value", 4, 5, 0, b"hello"))]
    assert story.put("w1", "o", b"he", total=9, owner=owner) == [("w1", ("reply", 5, codes.OK))], "(SEC-17)"
    assert story.put("w1", "o", b"llo, he", total=9, offset=2, owner=owner) == [("w1", ("reply", 6, codes.EXISTS))]
    story.release("c1", "o")
    assert not story.core.objects.objects, "no owner was added"


def test_what_was_compared_with_an_object_that_is_gone_begins_again(story):
    story.put("c1", "o", b"hello")
    story.put("w1", "o", b"hel", total=5, owner="c2")
    story.release("c1", "o")
    assert story.put("w1", "o", b"lo", total=5, offset=3, owner="c2") == [("w1", ("reply", 4, codes.BAD_CHUNK))]
    story.put("w1", "o", b"hel", total=5, owner="c2")
    story.release("c1", "o")
    story.put("c1", "o", b"HELLO")
    assert story.put("w1", "o", b"lo", total=5, offset=3, owner="c2") == [("w1", ("reply", 8, codes.BAD_CHUNK))]


@pytest.mark.parametrize(
    ("data", "total", "offset", "owner", "code"),
    [
        (b"x", 9, 2, "c1", codes.BAD_CHUNK),  # overlaps
        (b"x", 9, 4, "c1", codes.BAD_CHUNK),  # leaves a hole
        (b"x", 8, 3, "c1", codes.BAD_CHUNK),  # another total
        (b"x", 9, 3, "c2", codes.BAD_CHUNK),  # another owner
        (b"", 9, 3, "c1", codes.BAD_CHUNK),  # nothing in it
        (b"1234567", 9, 3, "c1", codes.BAD_CHUNK),  # beyond the end
        (b"x", 1 << 62, 3, "c1", codes.STORAGE_FULL),
    ],
)
def test_a_wrong_chunk_ends_the_upload(story, data, total, offset, owner, code):
    story.put("c1", "o", b"abc", total=9)
    assert story.put("c1", "o", data, total=total, offset=offset, owner=owner) == [("c1", ("reply", 2, code))]
    assert story.core.memory_bytes == 0
    # What was sent behind it is refused too, until the writer begins anew.
    assert story.put("c1", "o", b"def", total=9, offset=3) == [("c1", ("reply", 3, codes.BAD_CHUNK))]
    assert story.put("c1", "o", b"abcdefghi") == [("c1", ("reply", 4, codes.OK))]


def test_offset_zero_begins_anew(story):
    story.put("c1", "o", b"ab", total=4)
    story.put("c1", "o", b"cc", total=3)
    assert story.core.memory_bytes == 2
    assert story.put("c1", "o", b"d", total=3, offset=2) == [("c1", ("reply", 3, codes.OK))]
    assert story.get("c1", "o", offset=2) == [("c1", ("value", 4, 3, 2, b"d"))]


def test_an_upload_ends_with_its_session(story):
    story.put("w1", "o", b"ab", total=4)
    story.lose("w1")
    assert story.core.memory_bytes == 0
    story.open("w1", 2)
    assert story.put("w1", "o", b"cd", total=4, offset=2) == [("w1", ("reply", 2, codes.BAD_CHUNK))]


def test_an_upload_without_progress_is_forgotten(story):
    story.put("c1", "o", b"ab", total=6)
    assert story.core.next_deadline() == story.now + 60.0
    assert story.later(59.0) == []
    assert story.put("c1", "o", b"cd", total=6, offset=2) == [("c1", ("reply", 2, codes.OK))]
    assert story.later(59.0) == [] and story.core.memory_bytes == 4
    assert story.later(1.0) == [] and story.core.memory_bytes == 0
    assert story.core.next_deadline() is None


@pytest.mark.parametrize("limits", [CoreLimits(entry_bytes=0, chunk_bytes=4)])
def test_a_chunk_that_is_too_large_is_refused(story):
    assert story.put("c1", "o", b"12345") == [("c1", ("reply", 1, codes.BAD_CHUNK))]
    assert story.put("c1", "o", b"1234") == [("c1", ("reply", 2, codes.OK))]


@pytest.mark.parametrize("limits", [CoreLimits(entry_bytes=0, session_uploads=2)])
def test_unfinished_uploads_of_a_session_are_bounded(story):
    story.put("c1", "a", b"1", total=2)
    story.put("c1", "b", b"1", total=2)
    assert story.put("c1", "c", b"1", total=2) == [("c1", ("reply", 3, codes.TOO_MANY))]
    assert story.put("w1", "c", b"1", total=2) == [("w1", ("reply", 4, codes.OK))]


@pytest.mark.parametrize("limits", [CoreLimits(entry_bytes=0, memory_bytes=10)])
class TestMemoryLimit:
    def test_an_object_that_cannot_fit_is_refused_at_its_first_chunk(self, story):
        story.put("c1", "a", b"123456")
        assert story.put("c1", "b", b"12", total=5) == [("c1", ("reply", 2, codes.STORAGE_FULL))]
        assert story.put("c1", "c", b"1234") == [("c1", ("reply", 3, codes.OK))]
        assert story.core.memory_bytes == 10

    def test_of_two_uploads_that_both_began_the_later_one_fails(self, story):
        story.put("c1", "a", b"12", total=8)
        story.put("w1", "b", b"12", total=8)
        assert story.put("c1", "a", b"34", total=8, offset=2) == [("c1", ("reply", 3, codes.OK))]
        assert story.put("w1", "b", b"34", total=8, offset=2) == [("w1", ("reply", 4, codes.STORAGE_FULL))]
        assert story.put("c1", "a", b"5678", total=8, offset=4) == [("c1", ("reply", 5, codes.OK))]

    def test_room_comes_back_with_release(self, story):
        story.put("c1", "a", b"1234567890")
        assert story.put("c1", "b", b"1") == [("c1", ("reply", 2, codes.STORAGE_FULL))]
        story.release("c1", "a")
        assert story.put("c1", "b", b"1") == [("c1", ("reply", 4, codes.OK))]

    def test_beginning_anew_does_not_count_what_it_replaces(self, story):
        story.put("c1", "a", b"12345678", total=10)
        assert story.put("c1", "a", b"12345678", total=10) == [("c1", ("reply", 2, codes.OK))]

    def test_another_name_takes_no_room(self, story):
        story.put("c1", "a", b"1234567890")
        assert story.duplicate("c1", "a", "b") == [("c1", ("reply", 2, codes.OK))]
        story.release("c1", "a")
        assert story.core.memory_bytes == 10
        story.release("c1", "b")
        assert story.core.memory_bytes == 0

    def test_the_text_says_what_to_do(self, story):
        story.put("c1", "a", b"1234567890")
        asker = PeerId(b"c1".ljust(16, b"."))
        put = Put(9, ObjectId(b"b" * 16), asker, 5 * MIB, 0, b"1")
        (action,) = story.core.handle(Received(asker, 1, put), story.now)
        assert "--memory-limit" in action.message.text and "5.0 MiB" in action.message.text


def test_large_payloads_are_kept_as_they_came_and_small_ones_are_copied():
    large, small = bytearray(COPIED_BYTES), bytearray(COPIED_BYTES - 1)
    assert kept(large).obj is large
    assert kept(small).obj is not small


def test_a_duplicate_that_waited_is_confirmed_if_its_owner_has_the_target_by_then(story):
    """Its owner has stored the target itself meanwhile: as if it had been asked for then."""
    assert story.duplicate("c1", "source", "target", wait=9.0) == []
    story.put("c1", "target", b"own value")
    assert ("c1", ("reply", 1, codes.OK)) in story.put("w1", "source", b"value", owner="c2")
    assert story.get("c1", "target") == [("c1", ("value", 4, 9, 0, b"own value"))]
