"""Functions and serializers that one processor has fetched, for the next one: nested tasks have many short-lived ones,
and each would begin with a session to the storage and a fetch, several times the work of its first task."""

from __future__ import annotations

from collections import OrderedDict

from scaler_protocol.ids import ID_BYTES, ObjectId, content_id

LARGEST_BYTES = 64 * 1024
"""Of one: what is larger is rare, and worth a fetch."""
MOST_BYTES = 1024 * 1024
"""Of all."""


class Code:
    def __init__(self) -> None:
        #: by family and id (WRK-43); the one used last comes last
        self._kept: OrderedDict[tuple[bytes, ObjectId], bytes] = OrderedDict()
        self._kept_bytes = 0

    def keep(self, family: bytes, report: bytes) -> None:
        """A processor says what it has fetched, and for whom. User code may write anything there: only what has this id
        is kept. A program that names another family here gives away what it has itself."""
        object_id, content = ObjectId(report[:ID_BYTES]), report[ID_BYTES:]
        is_small = len(content) <= LARGEST_BYTES and len(family) <= ID_BYTES
        if (family, object_id) in self._kept or not is_small or content_id(content) != object_id:
            return
        self._kept[family, object_id] = content
        self._kept_bytes += len(content)
        while self._kept_bytes > MOST_BYTES:
            _, forgotten = self._kept.popitem(last=False)
            self._kept_bytes -= len(forgotten)

    def get(self, family: bytes, object_id: ObjectId) -> bytes | None:
        content = self._kept.get((family, object_id))
        if content is not None:
            self._kept.move_to_end((family, object_id))
        return content
