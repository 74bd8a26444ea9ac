"""Values that several tasks share, such as one large `bytes` sent once for all of them: read once, not by each.

Only what cannot be changed is kept, because a task must never see what another one has done to its arguments. And only
for as long as tasks use it: an idle process frees the memory.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from scaler_protocol.ids import ObjectId

KEPT_BYTES = 512 * 1024 * 1024
_UNCHANGEABLE = frozenset((bytes, str))


class KeptValues:
    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        #: with their sizes; the one that was not used for longest is first
        self._values: OrderedDict[ObjectId, tuple[Any, int]] = OrderedDict()
        self._bytes = 0
        #: those that a task has used since the last `age`
        self._used: set[ObjectId] = set()

    def get(self, object_id: ObjectId) -> Any:
        """None when it is not kept: no value that is kept is None."""
        kept = self._values.get(object_id)
        if kept is None:
            return None
        self._values.move_to_end(object_id)
        self._used.add(object_id)
        return kept[0]

    def offer(self, object_id: ObjectId, value: Any, size: int) -> None:
        if type(value) not in _UNCHANGEABLE or size > self._limit_bytes or object_id in self._values:
            return
        self._values[object_id] = (value, size)
        self._used.add(object_id)
        self._bytes += size
        while self._bytes > self._limit_bytes:
            self._forget(next(iter(self._values)))

    def age(self) -> None:
        """Forget what was not used since the last time."""
        for object_id in [object_id for object_id in self._values if object_id not in self._used]:
            self._forget(object_id)
        self._used.clear()

    def clear(self) -> None:
        self._values.clear()
        self._used.clear()
        self._bytes = 0

    def _forget(self, object_id: ObjectId) -> None:
        self._bytes -= self._values.pop(object_id)[1]
        self._used.discard(object_id)
