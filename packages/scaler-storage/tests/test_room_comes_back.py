"""Bounds of the environment: the storage meets the bound, refuses, is given room again, and works, by time alone.

A figure of the environment that only an action refreshes must not be what prevents this action. So after the room is
back nothing happens here but the ticks that the core itself requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.keeping import Shelf
from tests.support.spilling import Disk

from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Get, Hello, Put, Value, Welcome
from scaler_protocol.session import Opened, Received
from scaler_storage.core import CoreLimits, Keep, Send, StorageCore, Tick, invariants

PEER = PeerId(b"A" * 16)
SOON_SECONDS = 11.0
"""Two rests of a disk that has failed, and a moment."""


class World:
    """A storage, and disks with what room they have at present."""

    def __init__(self, limits: CoreLimits, room_bytes: int) -> None:
        self.core = StorageCore(limits)
        self.shelf, self.disk = Shelf(room_bytes=room_bytes), Disk()
        self.core.disk.spilling.file_system_bytes = room_bytes
        self.has_memory = True
        self.now = 0.0
        self.count = 0
        self.replies: list[Any] = []
        self.handle(Opened(PEER, Hello(1, 1, codes.ROLE_CLIENT, PEER), Welcome(1, PEER, 1, 1)))

    def handle(self, event: Any) -> None:
        for action in self.core.handle(event, self.now):
            if isinstance(action, Keep):
                self.shelf.keeps.append(action)
            elif not self.disk.takes(action) and isinstance(action, Send):
                self.replies.append(action.message)
        invariants.check(self.core)

    def pass_time(self, seconds: float = SOON_SECONDS) -> None:
        """The disks answer at once, and the core has its ticks when it asks for them."""
        end = self.now + seconds
        while True:
            while self.shelf.keeps or self.disk.moves or self.disk.reads or self.disk.copies:
                self.handle(self._answer())
                self.handle(Tick())
            due_at = self.core.next_deadline()
            if due_at is None or due_at > end:
                self.now = end
                return
            self.now = max(self.now + 0.001, due_at)
            self.handle(Tick())

    def _answer(self) -> Any:
        if self.shelf.keeps:
            return self.shelf.keep()
        if self.disk.moves:
            size = sum(value.total_bytes for value in self.disk.moves[0].values)
            return self.disk.move(0) if size <= self.shelf.room_bytes else self.disk.fail(0, "full to 95%")
        if self.disk.copies:
            return self.disk.copy(0, is_error=not self.has_memory)
        return self.disk.read(0, is_error=False)

    def asks(self, request: Any) -> Any:
        self.replies.clear()
        self.handle(Received(PEER, 1, request))
        self.pass_time()
        return self.replies[-1]

    def puts(self, size: int) -> int:
        self.count += 1
        one = ObjectId(self.count.to_bytes(16, "little"))
        return int(self.asks(Put(self.count, one, PEER, size, 0, bytes(size))).code)

    def gets(self, number: int) -> Any:
        return self.asks(Get(1, ObjectId(number.to_bytes(16, "little")), accepts_shared=True))


def of_a_data_directory(size: int) -> tuple[World, Callable[[bool], None], Callable[[], bool]]:
    """Values of this size are kept in files, or in the index."""
    world = World(CoreLimits(entry_bytes=0, disk_bytes=1 << 30, keeps_objects=True), 1 << 30)

    def give(has_room: bool) -> None:
        world.shelf.room_bytes = 1 << 30 if has_room else 0

    def is_well() -> bool:
        assert world.puts(size) == codes.OK, "it is in memory at least"
        return len(world.shelf.objects) == world.count

    return world, give, is_well


def of_a_spill_directory() -> tuple[World, Callable[[bool], None], Callable[[], bool]]:
    world = World(CoreLimits(entry_bytes=0, memory_bytes=100, disk_bytes=1 << 30, small_bytes=1), 1 << 30)

    def give(has_room: bool) -> None:
        world.shelf.room_bytes = 1 << 30 if has_room else 0

    return world, give, lambda: [world.puts(30) for _ in range(5)] == [codes.OK] * 5


def of_memory_for_copies() -> tuple[World, Callable[[bool], None], Callable[[], bool]]:
    """A value on the disk is given to a reader of this host as a file in memory."""
    limits = CoreLimits(entry_bytes=0, memory_bytes=1_000, disk_bytes=1 << 30, small_bytes=1, copied_bytes=9)
    world = World(limits, 1 << 30)
    for _ in range(5):
        assert world.puts(300) == codes.OK

    def give(has_room: bool) -> None:
        world.has_memory = has_room

    return world, give, lambda: not isinstance(world.gets(1), Value)


BOUNDS = {
    "data directory, large values": lambda: of_a_data_directory(200_000),
    "data directory, values in the index": lambda: of_a_data_directory(30),
    "spill directory": of_a_spill_directory,
    "memory for copies": of_memory_for_copies,
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_what_was_refused_for_want_of_room_works_when_there_is_room_again(bound: str) -> None:
    world, give, is_well = BOUNDS[bound]()
    give(False)
    assert not is_well(), "the environment has no room"
    give(True)
    world.pass_time()
    assert is_well()
    assert world.core.disk.spilling.trouble == ""


def test_what_found_no_room_is_kept_without_another_request() -> None:
    world, give, is_well = of_a_data_directory(30)
    give(False)
    assert not is_well()
    assert "error" in world.core.disk.spilling.trouble
    give(True)
    world.pass_time()
    assert len(world.shelf.objects) == world.count and world.core.disk.spilling.trouble == ""
