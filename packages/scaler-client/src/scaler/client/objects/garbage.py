"""Objects that the program cannot reach any more, until the thread that leads comes by and releases them."""

from __future__ import annotations

import weakref
from collections import deque
from itertools import chain

from scaler_protocol.ids import ObjectId


class _Owner(weakref.ref[object]):
    """Calls the `append` of a deque when its owner dies, so no line of Python runs there.

    In a destructor written in Python, Ctrl-C would be lost: whatever is raised there is printed and ignored.
    """

    __slots__ = ("objects",)
    objects: tuple[ObjectId, ...]


class Garbage:
    """All but `collect` and `released` is safe in any thread, and in a destructor."""

    def __init__(self) -> None:
        self._objects: deque[tuple[ObjectId, ...]] = deque()
        self._dead: deque[weakref.ref[object]] = deque()
        self._owners: dict[tuple[ObjectId, ...], _Owner] = {}
        #: what is being released: it is collected again if an interrupt comes before `released`
        self._collected: list[tuple[ObjectId, ...]] = []

    def __bool__(self) -> bool:
        return bool(self._objects or self._dead or self._collected)

    def add(self, objects: tuple[ObjectId, ...]) -> None:
        """Only remembers them: they are released when the next leader is done."""
        self._objects.append(objects)

    def add_after(self, owner: object, objects: tuple[ObjectId, ...]) -> None:
        """They are of use while the owner lives, and not after that."""
        if not objects:
            return
        reference = _Owner(owner, self._dead.append)
        reference.objects = objects
        self._owners[objects] = reference

    def forget(self, objects: tuple[ObjectId, ...]) -> None:
        """They were released otherwise; their owner may live on."""
        self._owners.pop(objects, None)

    def collect(self) -> tuple[ObjectId, ...]:
        """What is to be released now. An interrupt at any place here may list an object twice, which does no harm."""
        while self._dead:
            reference = self._dead[0]
            assert isinstance(reference, _Owner)
            self._collected.append(reference.objects)
            # A function of the same content may have come meanwhile: that one has an owner of its own.
            if self._owners.get(reference.objects) is reference:
                del self._owners[reference.objects]
            self._dead.popleft()
        while self._objects:
            self._collected.append(self._objects[0])
            self._objects.popleft()
        return tuple(chain.from_iterable(self._collected))

    def released(self) -> None:
        """What was collected."""
        self._collected.clear()
