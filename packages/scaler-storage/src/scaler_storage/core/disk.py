"""The core's dealings with the disk: Puts that wait for room, values that are read back, moves that begin and end.

What to move is decided in `spilling`. A request that has to wait is a parked job of its peer, so that requests of one
peer are still answered as if one after the other.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Duplicate, Get, ObjectReply, Put, Value
from scaler_protocol.session import Received
from scaler_storage.core import refusals
from scaler_storage.core.actions import Copy, Enter, Move, Read, Send, Strike
from scaler_storage.core.events import Copied, FileOffered, Kept, Moved, OfDisk, OfPeer
from scaler_storage.core.refusals import Refusal
from scaler_storage.core.replies import answer_bytes
from scaler_storage.core.spilling import Spilling
from scaler_storage.core.values import AnyValue, Extent, FileValue, SharedFile
from scaler_storage.core.work import PARKED, Job

if TYPE_CHECKING:
    from scaler_storage.core.keeping import Keeping
    from scaler_storage.core.limits import CoreLimits
    from scaler_storage.core.parts import Parts

#: While a Put waits for room, so often is looked whether it still may: a value may have been read to its end, or the
#: disk may stand still.
LOOK_SECONDS = 0.25

#: An object waits for so long at most for the rest of uploads that have begun.
PROMISE_SECONDS = 5.0

#: A refusal names so many owners, as they were at most so long ago: there may be many refusals, and many owners.
LARGEST_OWNERS = 3
RANKED_SECONDS = 1.0

Reading = Generator[int, None, "bytes | str"]
"""A part of a job: returns bytes that were read, or why they cannot be."""


class Disk:
    def __init__(self, spilling: Spilling, keeping: Keeping | None) -> None:
        self.spilling = spilling
        #: in place of moves, if objects are to outlive the process
        self.keeping = keeping
        #: bytes that each Put asks for that waits for room, by peer: one of each peer waits
        self.wanted: dict[PeerId, int] = {}
        self._wanted_bytes = 0
        #: reads under way, and what came of those that have ended
        self._reads: dict[int, bytes | str | None] = {}
        #: the same of copies
        self._copies: dict[int, SharedFile | str | None] = {}
        self._last_read = 0
        self._looks_at = 0.0
        #: the owners of most bytes, as of a moment ago
        self._ranking: list[int] = []
        self._ranked_at = -math.inf

    @property
    def in_flight_bytes(self) -> int:
        return self.spilling.moving_bytes

    # ------------------------------------------------------------ room

    def waits(self, core: Parts, event: OfPeer) -> Job | None:
        """A job that does this when there is room; None: it need not wait."""
        if not self.spilling.is_enabled or core.limits.memory_bytes is None:
            return None
        wanted = _wanted_bytes(core, event)
        if not wanted or not self._is_worth_waiting(core, event, wanted, core.now):
            return None
        return self._wait_and_do(core, event, wanted, core.now)

    def _is_worth_waiting(self, core: Parts, event: OfPeer, wanted: int, began_at: float) -> bool:
        limit, now = core.limits.memory_bytes or 0, core.now
        free = limit - core.memory_bytes
        # Uploads that have begun are to find room for the rest of them. Else several that fit one by one fill the
        # memory together, and none of them is ever whole and can be moved. Not for ever: a peer may never go on.
        promised = core.uploads.missing_bytes if _is_begin(event) and now < began_at + PROMISE_SECONDS else 0
        if wanted > limit or wanted + promised <= free:
            return False
        self._plan(core, now, self._wanted_bytes + (0 if event.peer_id in self.wanted else wanted))
        free = limit - core.memory_bytes
        if wanted + promised <= free:
            return False
        return wanted <= free or self.spilling.may_make_room(began_at, now)

    def _wait_and_do(self, core: Parts, event: OfPeer, wanted: int, began_at: float) -> Job:
        self.wanted[event.peer_id] = wanted
        self._wanted_bytes += wanted
        self._looks_at = core.now + LOOK_SECONDS
        while self._is_worth_waiting(core, event, wanted, began_at):
            yield PARKED
        self._wanted_bytes -= self.wanted.pop(event.peer_id)
        yield 1
        yield from core.perform(event) or ()

    def refusal(self, core: Parts, wanted: int) -> Refusal:
        """Of what finds no room and need not wait: what there is, and what the largest owners have."""
        spilling = self.spilling
        if core.now >= self._ranked_at + RANKED_SECONDS:
            self._ranked_at = core.now
            self._ranking = heapq.nlargest(LARGEST_OWNERS, core.objects.owned_bytes.values())
        return refusals.disk_full(
            wanted, core.memory_bytes, spilling.taken_bytes + spilling.moving_bytes, core.limits, spilling.trouble,
            self._ranking,
        )  # fmt: skip

    # ------------------------------------------------------------ reading back

    def read(self, core: Parts, extent: Extent, offset: int, size: int) -> Reading:
        """Reads bytes of a value, also when the value is deleted before the turn of the job has come."""
        self.spilling.begin_read(extent.file)
        return self._read(core, extent, offset, size)

    def _read(self, core: Parts, extent: Extent, offset: int, size: int) -> Reading:
        self._last_read += 1
        number = self._last_read
        self._reads[number] = None
        core.act(Read(number, extent.file, extent.offset + offset, size))
        while (data := self._reads[number]) is None:
            yield PARKED
        del self._reads[number]
        self.spilling.end_read(extent.file)
        yield 1
        return data

    def read_back(self, core: Parts, peer_id: PeerId, get: Get, value: AnyValue, most_bytes: int) -> Job:
        """Answers a Get of a value that is on the disk."""
        assert value.extent is not None
        if get.accepts_shared and self._may_copy(core, value):
            self.spilling.begin_read(value.extent.file)
            return self._share(core, peer_id, get, value, value.extent)
        size = min(most_bytes, value.total_bytes - get.offset)
        reading = self.read(core, value.extent, get.offset, size)
        return self._answer(core, peer_id, get, value.total_bytes, size, reading)

    def _answer(self, core: Parts, peer_id: PeerId, get: Get, total_bytes: int, size: int, reading: Reading) -> Job:
        while not core.pacing.may_answer(peer_id):  # it has not read what it was sent before (LIM-14)
            yield PARKED
        data = yield from reading
        if isinstance(data, str):
            refusal = refusals.unreadable_object(get.object_id, data)
            core.work.pressure.answered(peer_id, answer_bytes(refusal.text))
            core.act(Send(peer_id, ObjectReply(get.request_id, refusal.code, refusal.text)))
        else:
            core.pacing.let_out(peer_id, size, is_copied=True)
            core.traffic.got(peer_id, size)
            core.act(Send(peer_id, Value(get.request_id, total_bytes, get.offset, memoryview(data))))

    def _may_copy(self, core: Parts, value: AnyValue) -> bool:
        self._drop_copies(core, value.total_bytes)
        return not self.wanted and self.spilling.copies.may_begin(value, core.memory_bytes)

    def _share(self, core: Parts, peer_id: PeerId, get: Get, value: AnyValue, extent: Extent) -> Job:
        """Answers with a copy in memory, which readers of the same value wait for together; or else with a chunk."""
        copies = self.spilling.copies
        if value in copies.coming:
            while value in copies.coming:
                yield PARKED
        elif value.copy is None and self._may_copy(core, value):
            copies.begin(value)
            self._last_read += 1
            number = self._last_read
            self._copies[number] = None
            core.act(Copy(number, extent.file, extent.offset, value.total_bytes, get.object_id))
            while (file := self._copies[number]) is None:
                yield PARKED
            del self._copies[number]
            copies.end(value, None if isinstance(file, str) else file, core.now)
            stored = core.objects.get(get.object_id)
            if value.copy is not None and stored is not None and stored.value is value:
                core.act(Enter(get.object_id, value.copy))
        self.spilling.end_read(extent.file)
        yield 1
        # The object may have been released meanwhile: it is looked for again. No copy was made: it is sent in chunks.
        again = get if value.copy is not None else replace(get, accepts_shared=False)
        yield from core.perform(Received(peer_id, 0, again)) or ()

    # ------------------------------------------------------------ moves

    def handle(self, core: Parts, event: OfDisk) -> None:
        """What waits goes on with the next Tick."""
        if isinstance(event, Moved):
            self._end_move(core, event, core.now)
        elif isinstance(event, Kept):
            assert self.keeping is not None, "it was asked to keep something"
            self.keeping.kept(event, core.now)
        elif isinstance(event, Copied):
            self._copies[event.number] = event.file
        else:
            self._reads[event.number] = event.data
        core.work.wake()

    def _end_move(self, core: Parts, event: Moved, now: float) -> None:
        self.spilling.file_system_bytes = event.room_bytes
        if isinstance(event.file, str):
            self.spilling.not_moved(event.number, event.file, now)
            return
        for value in self.spilling.moves[event.number].values:
            self._strike(core, value)
        self.spilling.moved(event.number, event.file, now)

    def _strike(self, core: Parts, value: AnyValue) -> None:
        """It leaves memory, and a directory of memory files has nothing else. (STO-25)"""
        if isinstance(value, FileValue) and value.file is not None:
            core.act(Strike(ObjectId(value.file.reference().name)))

    def settle(self, core: Parts) -> None:
        """At the end of each event."""
        if self.wanted or (self.spilling.is_enabled and self.spilling.is_due(core.memory_bytes)):
            self._plan(core, core.now, self._wanted_bytes)
        if self.keeping is not None and (batch := self.keeping.plan(core.objects, core.now)) is not None:
            core.act(batch)

    def _drop_copies(self, core: Parts, wanted: int) -> None:
        for name in self.spilling.drop_copies(core.memory_bytes, wanted, core.now):
            core.act(Strike(name))

    def _plan(self, core: Parts, now: float, wanted: int) -> None:
        self._drop_copies(core, wanted)
        if self.keeping is not None:
            for value in self.keeping.evict(core.memory_bytes, wanted, now):
                self._strike(core, value)
            return
        for planned in self.spilling.plan(core.memory_bytes, wanted, now):
            core.act(Move(planned.number, planned.values))

    def tick(self, core: Parts) -> None:
        """Once in each turn: room may have come by releases, or a peer may have read."""
        if core.work.parked:
            core.work.wake()
            self._looks_at = core.now + LOOK_SECONDS

    def next_deadline(self) -> float | None:
        looks_at = self._looks_at if self.wanted else None
        due_at = None if self.keeping is None else self.keeping.next_deadline()
        return looks_at if due_at is None else min(due_at, math.inf if looks_at is None else looks_at)


def disk_of(limits: CoreLimits) -> Disk:
    """With a Keeping, if objects are to outlive the process. Its module costs a storage in memory nothing."""
    spilling = Spilling(limits)
    if not limits.keeps_objects:
        return Disk(spilling, None)
    from scaler_storage.core.keeping import Keeping

    keeping = spilling.keeping = Keeping(limits, spilling)
    return Disk(spilling, keeping)


def _is_begin(event: OfPeer) -> bool:
    if isinstance(event, FileOffered):
        return True
    return isinstance(event, Received) and isinstance(event.message, Put) and event.message.offset == 0


def _wanted_bytes(core: Parts, event: OfPeer) -> int:
    """What a request asks for in memory."""
    if isinstance(event, FileOffered):
        return 0 if isinstance(event.file, str) else event.file.size + core.limits.entry_bytes
    if isinstance(event, Received) and type(event.message) is Duplicate:
        return core.limits.entry_bytes
    if isinstance(event, Received) and type(event.message) is Put:
        put = event.message
        rest = put.total_bytes - put.offset
        return rest + core.limits.entry_bytes if rest > 0 else 0
    return 0
