"""Objects in memory files: the same as others, but for the way to their bytes (STO-21, STO-22)."""

from __future__ import annotations

import pytest

from scaler_protocol import codes
from scaler_protocol.messages import MemoryFile, SharedValue
from scaler_storage.core import CoreLimits


class File:
    """An open memory file, which knows when the last reference to it is gone."""

    def __init__(self, content: bytes, closed: list[bytes]) -> None:
        self.content = content
        self.size = len(content)
        self._closed = closed

    def reference(self) -> MemoryFile:
        return MemoryFile(1, 2, self.content[:1] * 16)

    def read(self, offset: int, size: int) -> bytes:
        return self.content[offset : offset + size]

    def __del__(self) -> None:
        self._closed.append(self.content)


@pytest.fixture
def closed() -> list[bytes]:
    return []


def where(content: bytes, request: int) -> SharedValue:
    return SharedValue(request, len(content), MemoryFile(1, 2, content[:1] * 16))


def test_a_file_is_an_object_for_everybody(story, closed):
    assert story.offer("c1", "o", File(b"hello", closed)) == [("c1", ("reply", 1, codes.OK))]
    assert story.get("w1", "o", shared=True) == [("w1", where(b"hello", 2))]
    assert story.get("w1", "o") == [("w1", ("value", 3, 5, 0, b"hello"))]
    assert story.get("w1", "o", offset=1, chunk=3) == [("w1", ("value", 4, 5, 1, b"ell"))]
    assert story.status("c1").memory_bytes == 5 and closed == []
    story.release("c1", "o")
    assert closed == [b"hello"] and story.get("w1", "o") == [("w1", ("reply", 7, codes.NO_SUCH_OBJECT))]


def test_what_came_in_chunks_is_answered_in_chunks(story):
    story.put("c1", "o", b"hello")
    assert story.get("w1", "o", shared=True) == [("w1", ("value", 2, 5, 0, b"hello"))]


def test_who_waits_is_served_as_he_asked(story, closed):
    assert story.get("w1", "o", wait=9.0, shared=True) == []
    assert story.get("s1", "o", wait=9.0) == []
    assert story.offer("c1", "o", File(b"hello", closed)) == [
        ("c1", ("reply", 3, codes.OK)),
        ("w1", where(b"hello", 1)),
        ("s1", ("value", 2, 5, 0, b"hello")),
    ]


def test_two_names_share_one_file(story, closed):
    story.offer("c1", "o", File(b"hello", closed))
    story.duplicate("c1", "o", "p")
    story.release("c1", "o")
    assert closed == [] and story.status("c1").memory_bytes == 5
    assert story.get("w1", "p", shared=True) == [("w1", where(b"hello", 5))]
    story.release("c1", "p")
    assert closed == [b"hello"]


def test_a_file_of_what_exists_is_closed_and_put_in_chunks_by_another_owner(story, closed):
    story.put("c1", "o", b"hello")
    assert story.offer("w1", "o", File(b"hello", closed)) == [("w1", ("reply", 2, codes.OK))]
    assert story.offer("w1", "o", "not opened") == [("w1", ("reply", 3, codes.OK))]
    assert story.offer("w1", "o", File(b"HELLO", closed), owner="c2") == [("w1", ("reply", 4, codes.UNREADABLE_FILE))]
    assert story.offer("w1", "o", File(b"hello!", closed), owner="c2") == [("w1", ("reply", 5, codes.UNREADABLE_FILE))]
    assert closed == [b"hello", b"HELLO", b"hello!"]
    assert story.put("w1", "o", b"hello", owner="c2") == [("w1", ("reply", 6, codes.OK))]
    story.release("c1", "o")
    assert story.get("w1", "o") == [("w1", ("value", 8, 5, 0, b"hello"))]


def test_what_cannot_be_opened_changes_nothing(story):
    story.put("c1", "o", b"hel", total=5)
    assert story.offer("c1", "o", "that descriptor is another file") == [("c1", ("reply", 2, codes.UNREADABLE_FILE))]
    assert story.put("c1", "o", b"lo", total=5, offset=3) == [("c1", ("reply", 3, codes.OK))]
    assert story.get("w1", "o") == [("w1", ("value", 4, 5, 0, b"hel"))]


def test_the_whole_object_ends_the_upload_of_its_chunks(story, closed):
    story.put("c1", "o", b"hel", total=5)
    story.offer("c1", "o", File(b"hello", closed))
    assert story.status("c1").memory_bytes == 5


def test_owners_that_are_gone_get_nothing(story, closed):
    story.release_owner("s1", "c1")
    assert story.offer("w1", "o", File(b"hello", closed)) == [("w1", ("reply", 2, codes.OWNER_GONE))]
    assert closed == [b"hello"]


@pytest.mark.parametrize("limits", [CoreLimits(entry_bytes=0, memory_bytes=9)])
def test_files_count_for_the_limit(story, closed):
    story.offer("c1", "o", File(b"hello", closed))
    assert story.offer("c1", "p", File(b"world", closed)) == [("c1", ("reply", 2, codes.STORAGE_FULL))]
    assert closed == [b"world"]
    story.release("c1", "o")
    assert story.offer("c1", "p", File(b"world", closed)) == [("c1", ("reply", 4, codes.OK))]


def test_the_directory_has_the_files_of_objects_that_exist(story, closed):
    story.put("c1", "plain", b"hello")
    story.offer("c1", "o", File(b"hello", closed))
    story.duplicate("c1", "o", "p")
    assert sorted(story.directory) == ["o", "p"]
    story.offer("w1", "o", File(b"refused", closed))
    story.put("w1", "o", b"hello", owner="c2")
    story.release("c1", "o")
    assert sorted(story.directory) == ["o", "p"]
    story.release("w1", "o", owner="c2")
    assert list(story.directory) == ["p"]
    story.release_owner("s1", "c1")
    assert story.directory == {}
