"""Functions in the storage: each as long as something refers to it. (OWN-2)

Theory of operation. Whatever may still need a function holds its `StoredFunction`: the memory of functions, the
submissions of unfinished tasks, calls that wait for futures, graphs, and a short list of those used last, so that a
program that calls the same function again and again does not send it each time. Python counts these references. When
the last one goes, the storage's copy becomes garbage like that of a result that was dropped.

Functions are named by their content, so one may be wanted again while its release is on the way. What is wanted is
never released: the same lock is held to enter a function here and to send what releases it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from weakref import WeakValueDictionary

from scaler.client.objects.garbage import Garbage
from scaler_protocol import values, waits
from scaler_protocol.ids import ObjectId, content_id
from scaler_protocol.messages import Buffer

RECENT_FUNCTIONS = 64
RECENT_BYTES = 4 * 1024 * 1024
"""Of those used last, so many stay although nothing needs them; the very last one whatever its size."""


class StoredFunction:
    """A function that tasks can name. It stays stored at least as long as this object lives."""

    __slots__ = ("__weakref__", "_kept", "code_set", "has_code", "is_stored", "object_id", "putting", "size")

    def __init__(
        self, object_id: ObjectId, size: int, *, has_code: bool, code_set: StoredFunction | None = None
    ) -> None:
        self.object_id = object_id
        self.size = size
        #: only processors that run our version of Python can read it (CLI-15)
        self.has_code = has_code
        self.is_stored = False
        #: held by the thread that stores it
        self.putting = waits.RLock()
        #: what its calls import from (CLI-24); it stays stored as long as this object lives, too
        self.code_set = code_set
        self._kept: StoredFunction | None = None

    def importing(self, code_set: StoredFunction | None) -> StoredFunction:
        """The same function, for calls that import from this code set."""
        if code_set is None:
            return self
        bound = StoredFunction(self.object_id, self.size, has_code=self.has_code, code_set=code_set)
        bound.is_stored = True
        bound._kept = self
        return bound


class StoredFunctions:
    """All of one connection. Safe in any thread."""

    def __init__(self, put: Callable[[ObjectId, Sequence[Buffer]], None], garbage: Garbage) -> None:
        self._put = put
        self._garbage = garbage
        self.lock = waits.RLock()
        #: all and only those that something refers to
        self._wanted: WeakValueDictionary[ObjectId, StoredFunction] = WeakValueDictionary()
        #: the one used last comes last
        self._recent: OrderedDict[ObjectId, StoredFunction] = OrderedDict()
        self._recent_bytes = 0

    def put(self, pieces: Sequence[Buffer], *, has_code: bool) -> tuple[StoredFunction, bool]:
        """The function of this content; and whether it had to be stored for that."""
        content = bytes(values.join(pieces))
        object_id = content_id(content)
        with self.lock:
            function = self._wanted.get(object_id)
            if function is None:
                function = StoredFunction(object_id, len(content), has_code=has_code)
                # First what frees it: an interrupt may come between any two lines.
                self._garbage.add_after(function, (object_id,))
                self._wanted[object_id] = function
            self._remember(function)
        return function, not function.is_stored and self._store(function, content)

    def _store(self, function: StoredFunction, content: bytes) -> bool:
        """False: another thread has stored it meanwhile.

        Of two threads that stored it side by side, one could be interrupted, or fail. It would give the object up, and
        a later session would not take over what the other thread has stored."""
        with function.putting:
            if function.is_stored:
                return False
            self._put(function.object_id, [content])
            function.is_stored = True
            return True

    def unwanted(self, ids: Iterable[ObjectId]) -> list[ObjectId]:
        """Those of these objects that nothing here refers to. With the lock."""
        return [object_id for object_id in ids if object_id not in self._wanted]

    def _remember(self, function: StoredFunction) -> None:
        # A destructor may come here between any two lines, so what is counted along the way is counted again.
        recent = self._recent
        if recent.pop(function.object_id, None) is None:
            self._recent_bytes += function.size
        recent[function.object_id] = function
        if len(recent) > RECENT_FUNCTIONS or self._recent_bytes > RECENT_BYTES:
            self._recent_bytes = sum([one.size for one in tuple(recent.values())])
        while len(recent) > 1 and (len(recent) > RECENT_FUNCTIONS or self._recent_bytes > RECENT_BYTES):
            _, forgotten = recent.popitem(last=False)
            self._recent_bytes -= forgotten.size
