"""Which objects are written to the data directory, and when (STO-41, STO-43 to STO-45).

Theory of operation. The directory follows the tables of the core, a moment behind. Each object that comes, goes, or
gets or loses an owner is *changed*. A moment later the changed objects are looked at, oldest first, and what they are
by then is handed to the shell as one batch, which is entered whole or not at all. So an object that was put and
released within a moment is never written, and no request waits for the disk. One batch is under way at a time.

All that is changed of an object goes with one batch. Else a kill between two batches could leave an object with the
bytes of one life of its id and the owners of another, which could then read what is not theirs.

A value that is in the directory need not be moved when memory is needed: it leaves memory without a write. A value for
which the directory has no room stays in memory, and is tried again when there may be some.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scaler_protocol.ids import ObjectId, PeerId
from scaler_storage.core.actions import Keep
from scaler_storage.core.events import FoundObject, Kept
from scaler_storage.core.limits import UNLIMITED, CoreLimits
from scaler_storage.core.spilling import REST_SECONDS, START_SHARE, STOP_SHARE, Spilling
from scaler_storage.core.values import AnyValue, Extent, KeptFile, SpillFile, StoredValue

if TYPE_CHECKING:
    from scaler_storage.core.objects import ObjectTable, StoredObject

#: What changes within so short a time is written together; what comes and goes within it is not written at all.
DELAY_SECONDS = 0.25

#: One batch: objects, and bytes of values, of which the last may be larger.
BATCH_OBJECTS = 1_024
BATCH_BYTES = 32 * 1024 * 1024

#: What an object takes in the index for each of its owners, about. It counts against the disk limit.
ROW_BYTES = 256

#: Owners of before that no peer speaks for are released so long after the start. (STO-45)
UNCLAIMED_SECONDS = 3600.0

Owners = PeerId | set[PeerId]
"""One owner, or several: most objects have one, and a million changed objects shall not need a million sets."""


class _Row(NamedTuple):
    """An object of a batch."""

    object_id: ObjectId
    #: the life of the object that is written (`StoredObject.number`); 0: it is deleted
    life: int
    value: AnyValue | None
    changed: Owners


@dataclass(slots=True)
class _Batch:
    """What is handed to the shell, as it is put together."""

    values: dict[AnyValue, int] = field(default_factory=dict)
    rows: list[_Row] = field(default_factory=list)
    objects: list[tuple[ObjectId, int]] = field(default_factory=list)
    owners: list[tuple[ObjectId, PeerId, bytes]] = field(default_factory=list)
    released: list[tuple[ObjectId, PeerId]] = field(default_factory=list)
    deleted: list[ObjectId] = field(default_factory=list)
    dropped: list[SpillFile] = field(default_factory=list)
    total_bytes: int = 0


@dataclass(slots=True)
class Keeping:
    limits: CoreLimits
    spilling: Spilling
    #: objects of which the directory may say something else, with the owners that came or went; oldest first
    changed: dict[ObjectId, Owners] = field(default_factory=dict)
    #: the same of objects for which the directory had no room
    unfit: dict[ObjectId, Owners] = field(default_factory=dict)
    #: values that exist and are in the directory
    files: dict[AnyValue, KeptFile] = field(default_factory=dict)
    #: objects that are in the directory, and the life of each that is there
    rows: dict[ObjectId, int] = field(default_factory=dict)
    #: files that no value has any more
    dropped: list[SpillFile] = field(default_factory=list)
    batch: _Batch | None = None
    #: when the next batch is due; None: nothing is changed
    due_at: float | None = None
    rests_until: float = 0.0
    #: of `unfit`: when it is tried again, and below how many bytes on the disk it is tried before
    retry_at: float = 0.0
    retry_below: int = 0
    #: owners of before the start, until it is known which of them a peer speaks for
    unclaimed: deque[PeerId] = field(default_factory=deque)
    unclaimed_until: float = 0.0
    #: the storage ends: nothing is put off any more
    is_last: bool = False
    _last_number: int = 0
    _last_value: int = 0

    # ------------------------------------------------------------ what changes

    def note(self, object_id: ObjectId, owner: PeerId) -> None:
        """This owner of the object has come or gone."""
        before = self.changed.get(object_id)
        if before is None:
            self.changed[object_id] = owner
        elif isinstance(before, set):
            before.add(owner)
        elif before != owner:
            self.changed[object_id] = {before, owner}

    def deleted(self, value: AnyValue) -> SpillFile | None:
        return self.files.pop(value, None)

    def drop(self, file: SpillFile) -> None:
        """No value and no read has it any more."""
        self.dropped.append(file)

    @property
    def disk_bytes(self) -> int:
        """Of files, of values that are being written, and of the index."""
        return self.spilling.disk_bytes + self.spilling.moving_bytes + self.index_bytes

    @property
    def index_bytes(self) -> int:
        return ROW_BYTES * len(self.rows)

    @property
    def room_bytes(self) -> int:
        """Returns how many more bytes may be kept, as far as is known: the directory has looked at its file system a
        while ago. `limit_room_bytes` and the directory itself decide what is kept. (MON-28)"""
        return max(0, min(self.limit_room_bytes, self.spilling.file_system_bytes - self.spilling.moving_bytes))

    @property
    def limit_room_bytes(self) -> int:
        return min(self.limits.disk_bytes or 0, UNLIMITED) - self.disk_bytes

    # ------------------------------------------------------------ batches

    def next_deadline(self) -> float | None:
        due_at = None if self.batch is not None else self._next_batch_at()
        if not self.unclaimed:
            return due_at
        return self.unclaimed_until if due_at is None else min(due_at, self.unclaimed_until)

    def _next_batch_at(self) -> float | None:
        times = [] if self.due_at is None else [max(self.due_at, self.rests_until)]
        if self.unfit:
            times.append(max(self.retry_at, self.rests_until))
        return min(times, default=None)

    def hurry(self, now: float) -> None:
        """A Put waits for room in memory, or the storage ends."""
        if self.due_at is not None:
            self.due_at = min(self.due_at, now)

    @property
    def is_idle(self) -> bool:
        """Nothing is being written, or would be."""
        return self.batch is None and not self.changed and not self.dropped

    def plan(self, objects: ObjectTable, now: float) -> Keep | None:
        """At the end of each event: the next batch, if it is due."""
        if self.due_at is None and (self.changed or self.dropped):
            self.due_at = now if self.is_last else now + DELAY_SECONDS
        if self.batch is not None or now < self.rests_until:
            return None
        if self.unfit and (now >= self.retry_at or self.disk_bytes < self.retry_below):
            self._retry(now)
        if self.due_at is None or now < self.due_at:
            return None
        return self._begin(objects, now)

    def _retry(self, now: float) -> None:
        """Not all at once: there may be very many."""
        for object_id in list(self.unfit)[:BATCH_OBJECTS]:
            self._put_back(object_id, self.unfit.pop(object_id))
        self.retry_at, self.retry_below = now + REST_SECONDS, self.disk_bytes
        self.due_at = now

    def _put_back(self, object_id: ObjectId, owners: Owners) -> None:
        before = self.changed.get(object_id)
        self.changed[object_id] = owners if before is None else _joined(before, owners)

    def _begin(self, objects: ObjectTable, now: float) -> Keep | None:
        batch = _Batch(dropped=self.dropped)
        self.dropped = []
        while self.changed and len(batch.rows) < BATCH_OBJECTS and batch.total_bytes < BATCH_BYTES:
            object_id = next(iter(self.changed))
            owners = self.changed.pop(object_id)
            if object_id in self.unfit:
                owners = _joined(self.unfit.pop(object_id), owners)
            self._take(batch, objects, object_id, owners, now)
        self.due_at = now if self.changed else None
        if not batch.rows and not batch.dropped:
            return None
        self._last_number += 1
        self.batch = batch
        self.spilling.moving_bytes += batch.total_bytes
        self.spilling.progress_at = now
        return Keep(
            self._last_number,
            tuple((number, value) for value, number in batch.values.items()),
            tuple(batch.objects),
            tuple(batch.owners),
            tuple(batch.released),
            tuple(batch.deleted),
            tuple(batch.dropped),
        )

    def _take(self, batch: _Batch, objects: ObjectTable, object_id: ObjectId, changed: Owners, now: float) -> None:
        stored, life = objects.get(object_id), self.rows.get(object_id)
        if stored is None:
            if life is not None:
                batch.deleted.append(object_id)
                batch.rows.append(_Row(object_id, 0, None, changed))
            return
        number = self._number_of(batch, stored.value)
        if life is not None and life != stored.number:
            batch.deleted.append(object_id)  # of another life: none of its owners is to be seen with this one
        if number is None:
            self.unfit[object_id] = changed
            self.retry_at, self.retry_below = now + REST_SECONDS, self.disk_bytes
            self.spilling.trouble = "objects are not kept: the data directory has no room (--disk-limit)"
            if life is not None and life != stored.number:
                batch.rows.append(_Row(object_id, 0, None, set()))
            return
        self._enter(batch, objects, _Row(object_id, stored.number, stored.value, changed), stored, number)

    def _enter(self, batch: _Batch, objects: ObjectTable, row: _Row, stored: StoredObject, number: int) -> None:
        batch.rows.append(row)
        batch.objects.append((row.object_id, number))
        for owner in sorted(_each(row.changed)):
            if owner in stored.owners:
                batch.owners.append((row.object_id, owner, objects.families.get(owner, owner)))
            else:
                batch.released.append((row.object_id, owner))

    def _number_of(self, batch: _Batch, value: AnyValue) -> int | None:
        """Returns the number of a value that is in the directory, or is to be written there. Returns None if
        `--disk-limit` has no room for the value.

        The room that the file system had when it was last looked at must not refuse a value here: no batch would be
        begun, so that the file system would never be looked at again. The directory refuses what does not fit at
        present."""
        if (file := self.files.get(value)) is not None:
            return file.number
        if (known := batch.values.get(value)) is not None:
            return known
        if value.total_bytes + ROW_BYTES > self.limit_room_bytes - batch.total_bytes:
            return None
        self._last_value += 1
        batch.values[value] = self._last_value
        batch.total_bytes += value.total_bytes
        return self._last_value

    def kept(self, event: Kept, now: float) -> None:
        """A batch has ended: all of it is entered but for values that could not be written, or nothing is."""
        assert self.batch is not None, "the shell answers each batch once"
        batch, self.batch = self.batch, None
        self.spilling.moving_bytes -= batch.total_bytes
        self.spilling.file_system_bytes = event.room_bytes
        self.spilling.progress_at = now
        if isinstance(event.files, str):
            self._not_entered(batch, event.files, now)
            return
        for value, number in batch.values.items():
            if (file := event.files.get(number)) is not None:
                self._hold(value, file)
        for row in batch.rows:
            self._entered(row, batch, event.files)
        if event.trouble:
            self.spilling.trouble = event.trouble
            self.retry_at, self.retry_below = now + REST_SECONDS, 0
        elif not self.unfit:
            self.spilling.trouble = ""

    def _hold(self, value: AnyValue, file: KeptFile) -> None:
        self.spilling.hold(file)
        if not value.names:  # it was deleted meanwhile
            self.spilling.let_go(file)
            return
        self.files[value] = file
        if value.total_bytes:
            self.spilling.in_memory[value] = None

    def _entered(self, row: _Row, batch: _Batch, files: dict[int, KeptFile]) -> None:
        if row.value is None:
            self.rows.pop(row.object_id, None)
        elif row.value in batch.values and batch.values[row.value] not in files:
            if self.rows.get(row.object_id, row.life) != row.life:
                del self.rows[row.object_id]
            self.unfit[row.object_id] = _joined(self.unfit.get(row.object_id, set()), row.changed)
        else:
            self.rows[row.object_id] = row.life

    def _not_entered(self, batch: _Batch, reason: str, now: float) -> None:
        """All is as if it had never been begun. What is changed since comes behind it."""
        self.spilling.trouble = reason
        self.rests_until = now + REST_SECONDS
        later, self.changed = self.changed, {}
        for row in batch.rows:
            self._put_back(row.object_id, row.changed)
        for object_id, owners in later.items():
            self._put_back(object_id, owners)
        self.dropped = batch.dropped + self.dropped
        self.due_at = now

    # ------------------------------------------------------------ memory

    def evict(self, memory_bytes: int, wanted_bytes: int, now: float) -> Iterator[AnyValue]:
        """Values that leave memory now, because they are in the directory: those used least recently, and none that is
        being read. Yields each."""
        spilling, limit = self.spilling, self.limits.memory_bytes
        if limit is None:
            return
        held_bytes = memory_bytes - spilling.copies.bytes
        excess = held_bytes - STOP_SHARE * limit if held_bytes > START_SHARE * limit else 0.0
        excess = max(excess, held_bytes + wanted_bytes - limit)
        if excess <= 0:
            return
        being_read = []
        while excess > 0 and spilling.in_memory:
            value, _ = spilling.in_memory.popitem(last=False)
            if spilling.read_until.get(value, 0.0) > now:
                being_read.append(value)
                continue
            excess -= value.total_bytes
            yield value
            value.leave_memory(Extent(self.files[value], 0))
            spilling.spilled_bytes += value.total_bytes
        for value in reversed(being_read):
            spilling.in_memory[value] = None
            spilling.in_memory.move_to_end(value, last=False)
        if excess > 0:
            self.hurry(now)

    def may_make_room(self, now: float) -> bool:
        """Values are being written, or will be at once: then they can leave memory."""
        return self.batch is not None or (bool(self.changed) and now >= self.rests_until)

    # ------------------------------------------------------------ after a restart

    def restore(self, objects: ObjectTable, found: Iterable[FoundObject], now: float) -> tuple[int, int]:
        """Returns how many objects there are again, and how many are dropped."""
        values: dict[int, AnyValue] = {}
        dropped: dict[int, KeptFile] = {}
        dropped_count = 0
        for object_id, file, owners in found:
            if not self._has_room_for(objects, owners):
                dropped_count += 1
                dropped[file.number] = file
                self.rows[object_id] = 0
                self.changed[object_id] = owners[0][0]
                continue
            value = values.get(file.number)
            if value is None:
                value = values[file.number] = self._restored(file)
            self.rows[object_id] = objects.restore(object_id, value, owners).number
        self._last_value = max((self._last_value, *(max(numbers) for numbers in (values, dropped) if numbers)))
        self.dropped += [file for number, file in dropped.items() if number not in values]
        self.unclaimed = deque(objects.owned)
        self.unclaimed_until = now + UNCLAIMED_SECONDS
        return len(objects.objects), dropped_count

    def _has_room_for(self, objects: ObjectTable, owners: tuple[tuple[PeerId, bytes], ...]) -> bool:
        limits = self.limits
        entries = objects.entries + len(owners)
        if limits.memory_bytes is not None and limits.entry_bytes * entries > STOP_SHARE * limits.memory_bytes:
            return False
        owned = objects.owned
        if entries > limits.objects or len(owned) + len(owners) > limits.owners:
            return False
        for owner, _ in owners:
            of_owner = owned.get(owner)
            if of_owner is not None and len(of_owner) >= limits.owner_objects:
                return False
        return True

    def _restored(self, file: KeptFile) -> AnyValue:
        size = file.size
        value = StoredValue.on_disk(size, Extent(file, 0)) if size else StoredValue(0)
        self.spilling.hold(file)
        self.files[value] = file
        self.spilling.spilled_bytes += size
        return value

    def take_unclaimed(self, most: int, now: float) -> Iterator[PeerId]:
        """Yields some of them when their time is up. The others stay for the next turn, which is due at once."""
        if now >= self.unclaimed_until:
            for _ in range(min(most, len(self.unclaimed))):
                yield self.unclaimed.popleft()


def _each(owners: Owners) -> Iterable[PeerId]:
    return owners if isinstance(owners, set) else (owners,)


def _joined(first: Owners, second: Owners) -> Owners:
    return {*_each(first), *_each(second)}
