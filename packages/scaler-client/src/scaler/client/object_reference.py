"""A handle on an object that was sent to the cluster once and is used by many tasks. (OWN-2)

Theory of operation. An `ObjectReference` and its copies share one `Handle`, which holds the `StoredObject`. So does
every unfinished task that takes the object. When the last of them has gone, the object is garbage, and is released
with the next objects that are. `release` only makes the handle let go.

A reference that is pickled keeps nothing by itself: bytes have no owner that could die. What unpickles one in the
process that sent the object finds the handle again while something else holds it. Bytes that are the arguments of a
task hold the object until that task has ended.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from scaler_protocol import values
from scaler_protocol.ids import ObjectId

T_co = TypeVar("T_co", covariant=True)

RELEASED = "it was released"
CLEARED = "it was cleared: clear() and disconnect() invalidate the references of their client"
DROPPED = "it was pickled, and the last reference in the program that sent the object is gone"
FOREIGN = "another client has sent it"


class StoredObject:
    """The object itself. It stays stored as long as this lives: its death makes it garbage."""

    __slots__ = ("__weakref__", "has_code", "object_id")

    def __init__(self, object_id: ObjectId, *, has_code: bool) -> None:
        self.object_id = object_id
        #: only processors that run our version of Python can read it (CLI-15)
        self.has_code = has_code


class Handle:
    """What a reference and its copies have in common."""

    __slots__ = ("__weakref__", "fate", "owner", "stored")

    def __init__(self, owner: object, stored: StoredObject | None, fate: str = "") -> None:
        #: the client that has sent the object
        self.owner = owner
        self.stored = stored
        #: why there is nothing stored any more
        self.fate = fate

    def let_go(self, fate: str) -> None:
        """The first time counts."""
        if self.stored is not None:
            self.stored, self.fate = None, fate


#: of this process
_handles: WeakValueDictionary[ObjectId, Handle] = WeakValueDictionary()


class ObjectReference(Generic[T_co]):
    """An object in the storage. Pass it to `submit` in place of the object, by position or keyword; inside a container
    it stays a reference.

    The object is freed when the program has dropped the reference and all its copies, and the tasks that take it have
    ended; `release` says that the program needs it no longer.
    """

    __slots__ = ("_handle", "name", "object_id", "size")

    def __init__(self, name: bytes, size: int, object_id: ObjectId, handle: Handle | None = None) -> None:
        #: as given to `send_object`, or after its type; only for people
        self.name = name
        #: bytes of the object when serialized
        self.size = size
        #: names the object in the storage
        self.object_id = object_id
        if handle is None:
            handle = _handles.get(object_id) or Handle(None, None, DROPPED)
        self._handle = handle

    @property
    def handle(self) -> Handle:
        return self._handle

    def release(self) -> None:
        """Free the object as soon as no unfinished task takes it. No call can take it from now on. A second time this
        does nothing."""
        self._handle.let_go(RELEASED)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectReference) and other.object_id == self.object_id

    def __hash__(self) -> int:
        return hash(self.object_id)

    def __copy__(self) -> ObjectReference[T_co]:
        return ObjectReference(self.name, self.size, self.object_id, self._handle)

    def __deepcopy__(self, memo: dict[int, Any]) -> ObjectReference[T_co]:
        return self.__copy__()

    def __reduce__(self) -> tuple[type[ObjectReference[Any]], tuple[bytes, int, ObjectId]]:
        if self._handle.stored is not None:
            values.keep(self._handle)
        return ObjectReference, (self.name, self.size, self.object_id)

    def __repr__(self) -> str:
        return f"ObjectReference({self.name.decode(errors='replace')!r}, {self.size} bytes)"


def new_reference(name: bytes, size: int, stored: StoredObject, owner: object) -> ObjectReference[Any]:
    handle = _handles[stored.object_id] = Handle(owner, stored)
    return ObjectReference(name, size, stored.object_id, handle)
