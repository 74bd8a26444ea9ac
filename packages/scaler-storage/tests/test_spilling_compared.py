"""A Put that has to be compared with an object whose bytes are on the disk: read by a thread, and never by the core."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.spilling import Disk

from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Hello, ObjectReply, Put, Release, Welcome
from scaler_protocol.session import Opened, Received
from scaler_storage.core import CoreLimits, Send, StorageCore, Tick, invariants

LIMITS = CoreLimits(entry_bytes=0, memory_bytes=100, disk_bytes=1_000, small_bytes=1, chunk_bytes=30)
FIRST, SECOND = PeerId(b"A" * 16), PeerId(b"B" * 16)
ONE, OTHER = ObjectId(b"1" * 16), ObjectId(b"2" * 16)
DATA = bytes(range(60))


class Stage:
    """ONE is on the disk, and SECOND puts it."""

    def __init__(self) -> None:
        self.core = StorageCore(LIMITS)
        self.disk = Disk()
        self.replies: dict[int, ObjectReply] = {}
        for peer_id in (FIRST, SECOND):
            self.handle(Opened(peer_id, Hello(1, 1, codes.ROLE_CLIENT, peer_id), Welcome(1, peer_id, 1, 1)))
        self.put(FIRST, 1, DATA)
        self.put(FIRST, 3, bytes(30), OTHER)
        self.handle(self.disk.move(0))
        assert self.core.objects.objects[ONE].value.extent is not None

    def handle(self, event: Any) -> None:
        for action in self.core.handle(event, 0.0):
            if not self.disk.takes(action) and isinstance(action, Send):
                assert isinstance(action.message, ObjectReply)
                self.replies[action.message.request_id] = action.message
        invariants.check(self.core)

    def put(self, peer_id: PeerId, request_id: int, data: bytes, one: ObjectId = ONE) -> None:
        """One chunk has the number `request_id`, the next one the next."""
        for number, offset in enumerate(range(0, len(data), LIMITS.chunk_bytes), request_id):
            chunk = data[offset : offset + LIMITS.chunk_bytes]
            self.handle(Received(peer_id, 1, Put(number, one, peer_id, len(data), offset, chunk)))

    def read(self, *, is_error: bool = False) -> None:
        self.handle(self.disk.read(0, is_error))
        self.handle(Tick())

    @property
    def owners(self) -> set[PeerId]:
        return self.core.objects.objects[ONE].owners


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_equal_bytes_make_an_owner_with_the_last_of_them(stage: Stage) -> None:
    stage.put(SECOND, 11, DATA)
    assert not stage.replies.keys() & {11, 12} and len(stage.disk.reads) == 1, "one read of each peer"
    stage.read()
    assert stage.replies[11].code == codes.OK and stage.owners == {FIRST}
    stage.read()
    assert stage.replies[12].code == codes.OK and stage.owners == {FIRST, SECOND}
    assert stage.core.objects.objects[ONE].value.extent is not None


def test_other_bytes_are_refused(stage: Stage) -> None:
    stage.put(SECOND, 11, DATA[:-1] + b"x")
    stage.read()
    stage.read()
    assert (stage.replies[11].code, stage.replies[12].code) == (codes.OK, codes.EXISTS)
    assert stage.owners == {FIRST}


def test_bytes_that_cannot_be_read_make_no_owner(stage: Stage) -> None:
    stage.put(SECOND, 11, DATA)
    stage.read(is_error=True)
    assert stage.replies[11].code == codes.OK, "only the last answer says what came of it (SEC-17)"
    stage.read()
    assert stage.replies[12].code == codes.NO_SUCH_OBJECT and "cannot be read back" in stage.replies[12].text
    assert stage.owners == {FIRST}


def test_an_object_that_is_released_meanwhile_is_put_anew(stage: Stage) -> None:
    stage.put(SECOND, 11, DATA)
    stage.handle(Received(FIRST, 1, Release(20, FIRST, ONE)))
    stage.read()
    assert (stage.replies[11].code, stage.replies[12].code) == (codes.OK, codes.OK)
    stored = stage.core.objects.objects[ONE]
    assert stored.owners == {SECOND} and stored.value.extent is None


def test_an_object_that_is_another_meanwhile_is_compared_again(stage: Stage) -> None:
    stage.put(SECOND, 11, DATA)
    stage.handle(Received(FIRST, 1, Release(20, FIRST, ONE)))
    stage.handle(Received(FIRST, 1, Release(20, FIRST, OTHER)))
    stage.put(FIRST, 21, bytes(60))
    stage.read()
    assert (stage.replies[11].code, stage.replies[12].code) == (codes.OK, codes.EXISTS)
    assert stage.owners == {FIRST}
