"""How long the tasks of each function ran here, since this was told last (WRK-54).

What ends is only noted. It is counted when it is told, or when there is much of it, by loops that the interpreter has
in C: one Python call for each task would be a noticeable part of what a tiny task costs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Any

from scaler_protocol.columns import (
    BUCKET_BOUNDS_SECONDS,
    BUCKET_ROW,
    FUNCTION_ROW,
    FUNCTIONS_MAX,
    PROFILE_BYTES,
)
from scaler_protocol.ids import ID_BYTES, ObjectId

NOTES_MAX = 4_096
"""So many are noted before they are counted."""
FIRST_BOUND = BUCKET_BOUNDS_SECONDS[0]
OTHERS = ObjectId(bytes(ID_BYTES))
_MOST = 2**64 - 1


@lru_cache(maxsize=256)
def _cpu_column(count: int) -> Struct:
    """Of so many profiles the second number, and nothing else."""
    return Struct("<" + "8xQ8x" * count)


class _Row:
    __slots__ = ("buckets", "cpu_nanoseconds", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_nanoseconds = 0
        self.buckets: Counter[int] = Counter()


class RunTimes:
    def __init__(self) -> None:
        #: by function: of each run its seconds and its profile, in turn. `AgentCore` adds to them
        self.notes: defaultdict[ObjectId, list[Any]] = defaultdict(list)
        self._noted_count = 0
        self._rows: dict[ObjectId, _Row] = {}

    def note(self, function: ObjectId, seconds: float, profile: bytes = b"") -> None:
        self.notes[function].extend((seconds, profile))
        self.noted(1)

    def noted(self, count: int) -> None:
        """So many were added to the notes."""
        self._noted_count += count
        if self._noted_count >= NOTES_MAX:
            self.count()

    def count(self) -> None:
        """What is noted, into the rows; of too many functions into one for all others. (WRK-55)"""
        for function, notes in self.notes.items():
            row = self._rows.get(function)
            if row is None:
                key = function if len(self._rows) < FUNCTIONS_MAX else OTHERS
                row = self._rows.setdefault(key, _Row())
            seconds, measured = notes[::2], b"".join(notes[1::2])
            row.seconds += sum(seconds)
            # Most tasks of those that are many are in the first bucket: where a step for each counts, there is none.
            longer = [one for one in seconds if one > FIRST_BOUND]
            row.buckets[0] += len(seconds) - len(longer)
            row.buckets.update(map(bisect_left, repeat(BUCKET_BOUNDS_SECONDS), longer))
            row.cpu_nanoseconds += sum(_cpu_column(len(measured) // PROFILE_BYTES).unpack_from(measured))
        self.notes.clear()
        self._noted_count = 0

    def take(self) -> tuple[bytes, bytes]:
        """The columns `functions` and `functionBuckets` of a WorkerStatus. From now on it counts anew."""
        self.count()
        if not self._rows:
            return b"", b""
        rows, self._rows = self._rows, {}
        functions = [
            FUNCTION_ROW.pack(function, min(_MOST, int(row.seconds * 1e6)), min(_MOST, row.cpu_nanoseconds // 1000))
            for function, row in rows.items()
        ]
        buckets = [
            BUCKET_ROW.pack(number, bucket, tasks)
            for number, row in enumerate(rows.values())
            for bucket, tasks in sorted(row.buckets.items())
            if tasks
        ]
        return b"".join(functions), b"".join(buckets)
