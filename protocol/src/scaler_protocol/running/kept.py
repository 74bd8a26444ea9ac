"""Values that several tasks share, such as one large `bytes` sent once for all of them: read once, not by each.

Only what cannot be changed is kept, because a task must never see what another one has done to its arguments. And only
for as long as tasks use it: an idle process frees the memory, and a process that comes near its limit gives it back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from scaler_protocol.ids import ObjectId

KEPT_BYTES = 512 * 1024 * 1024
KEPT_SHARE = 1 / 8
"""The share of the memory that a process may have, if that is limited. What is kept counts as memory of the task that
runs."""
_UNCHANGEABLE = frozenset((bytes, str))


def most_kept_bytes(memory_bytes: int) -> int:
    """Returns how much a process may keep that may have so much memory; zero: any."""
    return min(KEPT_BYTES, int(KEPT_SHARE * memory_bytes)) if memory_bytes else KEPT_BYTES


KEPT_CELL, WANTED_CELL = 0, 1


class KeptValues:
    def __init__(
        self,
        limit_bytes: int = KEPT_BYTES,
        cells: memoryview | list[int] | None = None,
        trim: Callable[[], None] = lambda: None,
    ) -> None:
        """Keeps nothing yet. `cells`, which another process may read and write: how many bytes are kept, and whether
        they are wanted back. `trim`: gives memory that was freed back to the system."""
        self._limit_bytes = limit_bytes
        self._cells = [0, 0] if cells is None else cells
        self._trim = trim
        self._is_changing = False  #: a signal handler that runs now leaves the tables alone
        #: with their sizes; the one that was not used for longest is first
        self._values: OrderedDict[ObjectId, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        #: those that a task has used since the last `age`
        self._used: set[ObjectId] = set()

    def get(self, object_id: ObjectId) -> Any:
        """None when it is not kept: no value that is kept is None."""
        self._is_changing = True
        try:
            kept = self._values.get(object_id)
            if kept is None:
                return None
            self._values.move_to_end(object_id)
            self._used.add(object_id)
            return kept[0]
        finally:
            self._end_change()

    def offer(self, object_id: ObjectId, value: Any, size: int) -> None:
        if type(value) not in _UNCHANGEABLE or size > self._limit_bytes or object_id in self._values:
            return
        self._is_changing = True
        try:
            self._bytes += size
            self._values[object_id] = (value, size)
            self._used.add(object_id)
            while self._bytes > self._limit_bytes and self._values:
                self._forget(next(iter(self._values)))
        finally:
            self._end_change()

    def age(self) -> None:
        """Forget what was not used since the last time."""
        self._is_changing = True
        try:
            for object_id in [object_id for object_id in self._values if object_id not in self._used]:
                self._forget(object_id)
            self._used.clear()
        finally:
            self._end_change()

    def clear(self) -> None:
        self._values.clear()
        self._used.clear()
        self._bytes = self._cells[KEPT_CELL] = 0

    def give_back(self) -> None:
        """Forgets everything if that is wanted, also from a signal handler: in the middle of a change, when that is
        done."""
        if self._cells[WANTED_CELL] and not self._is_changing:
            self._cells[WANTED_CELL] = 0
            self.clear()
            self._trim()

    def _end_change(self) -> None:
        self._is_changing = False
        self._cells[KEPT_CELL] = max(self._bytes, 0)
        self.give_back()

    def _forget(self, object_id: ObjectId) -> None:
        self._bytes -= self._values.pop(object_id)[1]
        self._used.discard(object_id)
