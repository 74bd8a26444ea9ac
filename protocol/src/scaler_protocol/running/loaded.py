"""Functions and serializers that a process has loaded, family by family, in bounds and for a while. (WRK-22, WRK-43)

The id of a function is computed from its bytes, and monitors see it. So the id is no right to run the function: what
was loaded for the tasks of one family is not there for those of another, which fetches it itself, if it may.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from scaler_protocol.ids import ObjectId

REMEMBERED_OBJECTS = 1024
REMEMBERED_BYTES = 64 * 1024 * 1024
"""Of functions and serializers, as they are stored; the last one is kept whatever its size."""
REMEMBERED_FAMILIES = 16


class Anew:
    """Stands for a function that each call reads for itself: see `can_be_shared`."""

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        self.content = content


class Shelf:
    """What was loaded for one family."""

    __slots__ = ("bytes_count", "loaded", "older", "sizes")

    def __init__(self) -> None:
        self.loaded: OrderedDict[ObjectId, Any] = OrderedDict()
        self.older: dict[ObjectId, Any] = {}  #: what was not used since the last `forget_unused`
        #: bytes of what is in `loaded` and in `older`, and of all that is in `loaded`
        self.sizes: dict[ObjectId, int] = {}
        self.bytes_count = 0

    def take_older(self, object_id: ObjectId) -> Any:
        """None: it is not there."""
        loaded = self.older.pop(object_id, None)
        if loaded is not None:
            self.put(object_id, loaded, self.sizes[object_id])
        return loaded

    def put(self, object_id: ObjectId, loaded: Any, size: int) -> None:
        self.loaded[object_id] = loaded
        self.sizes[object_id] = size
        self.bytes_count += size
        # The oldest goes, not the one used least recently: the loop that looks them up has no time to note their use.
        while len(self.loaded) > 1 and (len(self.loaded) > REMEMBERED_OBJECTS or self.bytes_count > REMEMBERED_BYTES):
            forgotten, _ = self.loaded.popitem(last=False)
            self.bytes_count -= self.sizes.pop(forgotten)

    def forget_unused(self) -> None:
        for object_id in self.older:
            del self.sizes[object_id]
        self.older = dict(self.loaded)
        self.loaded.clear()
        self.bytes_count = 0


class Shelves:
    """One for each family whose tasks ran here last. Where there are no keys there is one family."""

    def __init__(self) -> None:
        #: the one in use is the last
        self._shelves: OrderedDict[bytes, Shelf] = OrderedDict({b"": Shelf()})

    def __bool__(self) -> bool:
        """Something is kept."""
        return any(shelf.loaded or shelf.older for shelf in self._shelves.values())

    def use(self, family: bytes) -> Shelf:
        shelf = self._shelves.setdefault(family, Shelf())
        self._shelves.move_to_end(family)
        while len(self._shelves) > REMEMBERED_FAMILIES or (len(self._shelves) > 1 and self._are_full):
            self._shelves.popitem(last=False)
        return shelf

    @property
    def _are_full(self) -> bool:
        shelves = self._shelves.values()
        return (
            sum(len(shelf.sizes) for shelf in shelves) > REMEMBERED_OBJECTS
            or sum(shelf.bytes_count for shelf in shelves) > REMEMBERED_BYTES
        )

    def forget_unused(self) -> None:
        for shelf in self._shelves.values():
            shelf.forget_unused()
