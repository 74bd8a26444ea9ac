"""The values of a generator task, one by one: their ids in the storage, and how many may wait there. (WRK-58 to WRK-60)

Theory of operation. A generator task is a task like any other to the scheduler. What it yields it stores as objects of
its client, each under an id that both sides can compute, and the client waits for the next of them at the storage. For
every half window that the client has taken, it stores an empty object, a *credit*, for which the task waits. The end of
the generator is the end of the task.

Both ends of the counting are here, and pure. So a law over any order of events needs no socket.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NewType

from scaler_protocol.ids import ID_BYTES, ObjectId

StreamId = NewType("StreamId", bytes)
"""Sixteen random bytes of the client, which only it and the task know."""

BEGUN = 0
VALUE = 1
CREDIT = 2

MOST_WINDOW = 65_536
"""Values of one stream that may wait to be taken. (LIM-28)"""


def stream_object_id(stream: StreamId, kind: int, number: int) -> ObjectId:
    """Where a value or a credit lies. (WRK-58)"""
    name = stream + bytes((kind,)) + number.to_bytes(8, "little")
    return ObjectId(blake2b(name, digest_size=ID_BYTES).digest())


def step_of(window: int) -> int:
    """So many values are taken for each credit."""
    return max(1, window // 2)


class Writing:
    """The generator's side: values are numbered from 0, credits from 1."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._step = step_of(window)
        #: values that are stored
        self.count = 0
        #: the credits that have come
        self.credits = 0

    @property
    def has_room(self) -> bool:
        return self.count < self._window + self.credits * self._step

    def unread(self) -> range:
        """The numbers of the values that may not have been taken, as far as the credits tell."""
        return range(self.credits * self._step, self.count)


class Taking:
    """The client's side."""

    def __init__(self, window: int) -> None:
        self.window = window
        self._step = step_of(window)
        #: values that were handed to the program
        self.count = 0
        #: the credits that are stored
        self.credits = 0
        self._released_values = 0
        self._released_credits = 0

    @property
    def owes_credit(self) -> bool:
        return self.credits < self.count // self._step

    @property
    def most(self) -> int:
        """The number of values that may be stored by now."""
        return self.window + self.credits * self._step

    def releasable(self) -> list[tuple[int, int]]:
        """Kind and number of what neither side needs any more. `released` says that it was released."""
        values = [(VALUE, number) for number in range(self._released_values, self.count)]
        used = range(self._released_credits + 1, self._used_credits + 1)
        return values + [(CREDIT, number) for number in used]

    def released(self) -> None:
        self._released_values, self._released_credits = self.count, self._used_credits

    @property
    def _used_credits(self) -> int:
        """Without its credit the last value could not have been stored."""
        beyond = self.count - self.window
        return -(-beyond // self._step) if beyond > 0 else 0

    def leftovers(self) -> list[tuple[int, int]]:
        """Kind and number of all that may be stored of this stream."""
        values = [(VALUE, number) for number in range(self._released_values, self.most)]
        unused = [(CREDIT, number) for number in range(self._released_credits + 1, self.credits + 2)]
        return [(BEGUN, 0), *values, *unused]


class Streamed:
    """A function whose values are streamed, as the task that runs it names it: called with the id of the stream and its
    window before its own arguments."""

    __slots__ = ("func",)

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func  #: called so in partials too: its name is shown

    def __call__(self, stream: StreamId, window: int, /, *arguments: Any, **keywords: Any) -> Any:
        from scaler_protocol.running.streaming import run  # clients import this module, and nothing that runs tasks

        return run(self.func, stream, window, arguments, keywords)

    def __reduce__(self) -> tuple[Any, ...]:
        return Streamed, (self.func,)
