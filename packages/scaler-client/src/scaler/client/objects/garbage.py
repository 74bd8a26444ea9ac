"""What is left to do when objects of the program have died, until the thread that leads comes by and does it."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Any

from scaler_protocol.ids import ObjectId


class _Owner(weakref.ref[object]):
    """Calls the `append` of a deque when its owner dies, so no line of Python runs there.

    In a destructor written in Python, Ctrl-C would be lost: whatever is raised there is printed and ignored.
    """

    __slots__ = ("left",)
    #: what is to be dealt with then
    left: Any


class Garbage:
    """Stored objects that are released then. All but `collect` and `released` is safe in any thread, and in a
    destructor."""

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
        reference.left = objects
        self._owners[objects] = reference

    def owners(self) -> list[object]:
        """Returns the owners that are alive. An owner's objects are released when the owner dies."""
        living = [reference() for reference in list(self._owners.values())]
        return [owner for owner in living if owner is not None]

    def forget(self, objects: tuple[ObjectId, ...]) -> None:
        """They were released otherwise; their owner may live on."""
        self._owners.pop(objects, None)

    def collect(self) -> tuple[ObjectId, ...]:
        """What is to be released now. An interrupt at any place here may list an object twice, which does no harm."""
        while self._dead:
            reference = self._dead[0]
            assert isinstance(reference, _Owner)
            self._collected.append(reference.left)
            # A function of the same content may have come meanwhile: that one has an owner of its own.
            if self._owners.get(reference.left) is reference:
                del self._owners[reference.left]
            self._dead.popleft()
        while self._objects:
            self._collected.append(self._objects[0])
            self._objects.popleft()
        return tuple(chain.from_iterable(self._collected))

    def released(self) -> None:
        """What was collected."""
        self._collected.clear()


class Drops:
    """Steps that are done then at the latest. An interrupt that comes in a destructor ends it at that place, and so
    does one that comes in a `close` or in the handling of another interrupt."""

    def __init__(self) -> None:
        self._dead: deque[weakref.ref[object]] = deque()
        #: all and only those that live, or are among the dead
        self._owners: dict[int, _Owner] = {}

    def after(self, owner: object, then: Callable[[], object]) -> None:
        """`then` must not refer to the owner, and is called soon after the owner has died: in the IO thread, where it
        must not wait. If the owner has done the same before, it must do nothing. In any thread; after an interrupt of
        this call the owner may not be watched."""
        reference = _Owner(owner, self._dead.append)
        reference.left = then
        self._owners[id(reference)] = reference

    def run(self) -> None:
        """In the IO thread, which is not interrupted."""
        while self._dead:
            self._owners.pop(id(self._dead.popleft())).left()
