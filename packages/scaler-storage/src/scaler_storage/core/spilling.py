"""Which values leave memory for the disk, and when (STO-37, STO-38).

From a share of the memory limit on, the values that were used least recently are moved until less is held. A value
that is being read is not moved. Values of some size get a file of their own; small ones are moved together, because a
file for each would cost more than its bytes. The bytes stay in memory until the shell reports that all of them are on
the disk, so a disk that fails costs room and no object.

A Put that finds no room waits as long as moves are under way or possible, and not longer than `WAIT_SECONDS`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import field
from typing import Protocol

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.records import dataclass
from scaler_storage.core.copies import Copies
from scaler_storage.core.limits import CoreLimits
from scaler_storage.core.values import AnyValue, Extent, SpillFile

#: Shares of the memory limit: above the first values are moved, until no more than the second is held. The difference
#: keeps a storage at its limit from moving each small object alone.
START_SHARE = 0.8
STOP_SHARE = 0.7

#: Small values in one file.
EXTENT_VALUES = 4_096

#: Moves under way.
MOVES = 8

#: How far into the order of use is looked for values that are not being read and that fit.
LOOKED_AT = 1_000

#: A value of which a reader has had a part and not the end is being read, for so long after each part.
READING_SECONDS = 1.0

#: After an error of the disk nothing is moved for so long: else a full disk would be written to again and again.
REST_SECONDS = 5.0

#: A Put waits for room so long at most while the disk finishes nothing.
WAIT_SECONDS = 20.0


class Keeper(Protocol):
    """What the tables tell of objects that are to outlive the process (`keeping`)."""

    def note(self, object_id: ObjectId, owner: PeerId) -> None: ...

    def deleted(self, value: AnyValue) -> SpillFile | None: ...

    def drop(self, file: SpillFile) -> None: ...

    def may_make_room(self, now: float) -> bool: ...

    @property
    def room_bytes(self) -> int: ...

    @property
    def index_bytes(self) -> int: ...


@dataclass(slots=True)
class Moving:
    """Values on their way into one file, in this order, each behind the one before."""

    values: list[AnyValue]
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Planned:
    number: int
    values: tuple[AnyValue, ...]


@dataclass(slots=True)
class Spilling:
    limits: CoreLimits
    #: in place of moves: values outlive the process
    keeping: Keeper | None = None
    #: values with bytes that are in memory and in no move, or, of those that are kept, in the directory as well: least
    #: recently used first
    in_memory: OrderedDict[AnyValue, None] = field(default_factory=OrderedDict)
    #: values of which a part was read lately, and until when they count as being read; none that is deleted
    read_until: dict[AnyValue, float] = field(default_factory=dict)
    moves: dict[int, Moving] = field(default_factory=dict)
    moving_bytes: int = 0
    #: how many values that exist lie in each file, and how many reads of it are under way; no zeros
    files: dict[SpillFile, int] = field(default_factory=dict)
    #: these reads
    reads: Counter[SpillFile] = field(default_factory=Counter)
    copies: Copies = field(init=False)
    #: bytes of these files: what is deleted stays in a shared file until its last value goes
    disk_bytes: int = 0
    #: bytes of the values in them that exist
    spilled_bytes: int = 0
    #: the last error of the disk, until a move succeeds
    trouble: str = ""
    #: what the file system takes, as of the last move
    file_system_bytes: int = 0
    rests_until: float = 0.0
    #: when a move was last begun or finished
    progress_at: float = 0.0
    #: else nothing is kept here: a storage in memory is to cost what it did
    is_enabled: bool = field(init=False)
    _last_number: int = 0

    def __post_init__(self) -> None:
        has_bound = self.limits.memory_bytes is not None or self.limits.keeps_objects
        self.is_enabled = has_bound and self.limits.disk_bytes is not None
        self.copies = Copies(self.limits)

    @property
    def away_bytes(self) -> int:
        """Of values that exist, without those of which a copy is in memory."""
        return self.spilled_bytes - self.copies.bytes

    # ------------------------------------------------------------ values come, are used, and go

    def added(self, value: AnyValue) -> None:
        if self.is_enabled and value.total_bytes and self.keeping is None:
            self.in_memory[value] = None

    def used(self, value: AnyValue, now: float, *, is_to_be_continued: bool) -> None:
        """A part was read, and there is more of it, or not."""
        if not self.is_enabled:
            return
        if value in self.in_memory:
            self.in_memory.move_to_end(value)
        self.copies.used(value)
        if is_to_be_continued:
            self.read_until[value] = now + READING_SECONDS
        else:
            self.read_until.pop(value, None)

    def deleted(self, value: AnyValue) -> None:
        """What is in a move is left out at its end."""
        if not self.is_enabled:
            return
        self.in_memory.pop(value, None)
        self.read_until.pop(value, None)
        file = None if self.keeping is None else self.keeping.deleted(value)
        if value.extent is not None:
            self.copies.deleted(value)
            self.spilled_bytes -= value.total_bytes
            file = file or value.extent.file
            value.extent = None
        if file is not None:
            self.let_go(file)

    def hold(self, file: SpillFile) -> None:
        """One value more, or one read, has this file."""
        self.files[file] = self.files.get(file, 0) + 1
        self.disk_bytes += file.size if self.files[file] == 1 else 0

    def let_go(self, file: SpillFile) -> None:
        self.files[file] -= 1
        if not self.files[file]:
            del self.files[file]
            self.disk_bytes -= file.size
            if self.keeping is not None:
                self.keeping.drop(file)

    def begin_read(self, file: SpillFile) -> None:
        """The file takes its room until the read has ended, whatever becomes of its values."""
        self.hold(file)
        self.reads[file] += 1

    def end_read(self, file: SpillFile) -> None:
        self.reads[file] -= 1
        if not self.reads[file]:
            del self.reads[file]
        self.let_go(file)

    # ------------------------------------------------------------ moves

    @property
    def taken_bytes(self) -> int:
        """On the disk, without what is on its way there."""
        return self.disk_bytes + (0 if self.keeping is None else self.keeping.index_bytes)

    @property
    def room_bytes(self) -> int:
        """How much more may be moved. (MON-28)"""
        if self.keeping is not None:
            return self.keeping.room_bytes
        left = (self.limits.disk_bytes or 0) - self.disk_bytes
        return max(0, min(left, self.file_system_bytes) - self.moving_bytes)

    def is_due(self, memory_bytes: int) -> bool:
        """Something may have to be moved, or a copy dropped, though no Put waits."""
        limit = self.limits.memory_bytes
        return self.is_enabled and limit is not None and memory_bytes > START_SHARE * limit

    def drop_copies(self, memory_bytes: int, wanted_bytes: int, now: float) -> Iterator[ObjectId]:
        """What can go without a move. Yields the names of their files."""
        if self.copies.kept_until and self.limits.memory_bytes is not None:
            yield from self.copies.drop(memory_bytes + wanted_bytes - self.limits.memory_bytes, now)

    def plan(self, memory_bytes: int, wanted_bytes: int, now: float) -> Iterator[Planned]:
        """Moves to begin now. `wanted_bytes`: what a Put asks for that waits for room."""
        limit = self.limits.memory_bytes
        if not self.is_enabled or limit is None or now < self.rests_until:
            return
        held_bytes = memory_bytes - self.moving_bytes - self.copies.bytes
        excess = held_bytes - STOP_SHARE * limit if held_bytes > START_SHARE * limit else 0.0
        excess = max(excess, held_bytes + wanted_bytes - limit)
        while excess > 0 and len(self.moves) < MOVES and self.moving_bytes < self.limits.moving_bytes:
            values = self._next_values(now)
            if not values:
                return
            moving = Moving(values, sum(value.total_bytes for value in values))
            for value in values:
                del self.in_memory[value]
            self._last_number += 1
            self.moves[self._last_number] = moving
            self.moving_bytes += moving.total_bytes
            self.progress_at = now
            excess -= moving.total_bytes
            yield Planned(self._last_number, tuple(values))

    def _next_values(self, now: float) -> list[AnyValue]:
        """One large value, or small ones for one file: the least recently used of those that may be moved and fit."""
        room = (self.limits.disk_bytes or 0) - self.disk_bytes - self.moving_bytes
        if len(self.files) + len(self.moves) >= self.limits.spill_files:
            return []
        small: list[AnyValue] = []
        extent_bytes = 0
        for seen, value in enumerate(self.in_memory):
            if seen >= LOOKED_AT and not small:
                break
            size = value.total_bytes
            if size > room or self.read_until.get(value, 0.0) > now:
                continue
            if size >= self.limits.small_bytes:
                if not small:
                    return [value]
                continue
            small.append(value)
            room -= size
            extent_bytes += size
            if (
                len(small) >= EXTENT_VALUES
                or extent_bytes >= self.limits.extent_bytes
                or seen >= LOOKED_AT + EXTENT_VALUES
            ):
                break
        return small

    def moved(self, number: int, file: SpillFile, now: float) -> list[AnyValue]:
        """All bytes are in this file. Returns the values that have left memory: those that still exist."""
        moving = self.moves.pop(number)
        self.moving_bytes -= moving.total_bytes
        self.progress_at = now
        if now >= self.rests_until:  # else it was begun before another one failed
            self.trouble = ""
        offset = 0
        left: list[AnyValue] = []
        for value in moving.values:
            if value.names:
                value.leave_memory(Extent(file, offset))
                self.spilled_bytes += value.total_bytes
                left.append(value)
            offset += value.total_bytes
        if left:
            self.files[file] = len(left)
            self.disk_bytes += file.size
        return left

    def not_moved(self, number: int, reason: str, now: float) -> None:
        """The values are in memory as before, and the first to be moved when the disk is tried again."""
        moving = self.moves.pop(number)
        self.moving_bytes -= moving.total_bytes
        self.trouble = reason
        self.rests_until = now + REST_SECONDS
        for value in reversed(moving.values):
            if value.names:
                self.in_memory[value] = None
                self.in_memory.move_to_end(value, last=False)

    # ------------------------------------------------------------ Puts that wait

    def may_make_room(self, began_at: float, now: float) -> bool:
        """Whether it is worth while for a Put that found no room to wait on: something is being moved, or could be as
        soon as it has been read."""
        if not self.is_enabled or now >= max(began_at, self.progress_at) + WAIT_SECONDS:
            return False
        if self.moves or self.copies.bytes or (self.keeping is not None and self.keeping.may_make_room(now)):
            return True
        return now >= self.rests_until and self._is_any_read(now)

    def _is_any_read(self, now: float) -> bool:
        room = (self.limits.disk_bytes or 0) - self.disk_bytes
        return any(
            until > now and value in self.in_memory and value.total_bytes <= room
            for value, until in self.read_until.items()
        )
