"""Values on the disk that are in memory too, for readers of this host (STO-37).

A reader on this host maps a memory file, whose seals say that its bytes stay what they are. A file on a disk has no
seals: a process of the same user that can open it can write to it, or cut it short below another reader. And a file
that small values share would show a reader more than the object for which it may ask. So a value is copied back into a
memory file of its own. The bytes on the disk stay: when the room is needed, the copy is dropped without a write.

Copies take only what is free below the memory limit. What wants to be stored goes first.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import field

from scaler_protocol.ids import ObjectId
from scaler_protocol.records import dataclass
from scaler_storage.core.limits import CoreLimits
from scaler_storage.core.values import AnyValue, SharedFile

#: The first reader needs a moment to open what it was told of. A reader that comes too late asks again, for chunks.
KEPT_SECONDS = 0.5

#: Of the memory limit: what is above is for Puts and Duplicates that need no more than a note.
MOST_SHARE = 0.95


@dataclass(slots=True)
class Copies:
    limits: CoreLimits
    #: until when they are not dropped, least recently used first; values that exist
    kept_until: OrderedDict[AnyValue, float] = field(default_factory=OrderedDict)
    #: being made
    coming: dict[AnyValue, None] = field(default_factory=dict)
    #: of both
    bytes: int = 0

    def may_begin(self, value: AnyValue, memory_bytes: int) -> bool:
        """There is room now, or a copy of the same is coming already."""
        limits = self.limits
        if value in self.coming:
            return True
        is_within = len(self.coming) + len(self.kept_until) < limits.copies
        size = value.total_bytes
        most_bytes = math.inf if limits.memory_bytes is None else MOST_SHARE * limits.memory_bytes
        return is_within and size >= limits.copied_bytes and memory_bytes + size <= most_bytes

    def begin(self, value: AnyValue) -> None:
        self.coming[value] = None
        self.bytes += value.total_bytes

    def end(self, value: AnyValue, file: SharedFile | None, now: float) -> None:
        """`file`: none if it could not be made."""
        del self.coming[value]
        if file is None or not value.names:
            self.bytes -= value.total_bytes
            return
        value.copy = file
        self.kept_until[value] = now + KEPT_SECONDS

    def used(self, value: AnyValue) -> None:
        """It is the last to be dropped. It is not kept for longer: else readers could keep a Put from its room."""
        if value in self.kept_until:
            self.kept_until.move_to_end(value)

    def drop(self, excess_bytes: int, now: float) -> Iterator[ObjectId]:
        """So many bytes, as far as they may go. Yields the names of their files."""
        for value in [value for value, until in self.kept_until.items() if until <= now] if excess_bytes > 0 else ():
            assert value.copy is not None
            yield ObjectId(value.copy.reference().name)
            excess_bytes -= value.total_bytes
            self.deleted(value)
            if excess_bytes <= 0:
                return

    def deleted(self, value: AnyValue) -> None:
        if value in self.kept_until:
            del self.kept_until[value]
            value.copy = None
            self.bytes -= value.total_bytes
