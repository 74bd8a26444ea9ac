"""The parts that a call is made of. (BAT-6)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from scaler.client.core.batching import PART_BYTES, TASK_BYTES, TEXT_BYTES, bounds_of
from scaler.client.futures.interrupts import pass_on
from scaler.client.submitting.options import checked_text
from scaler.utility.exceptions import DeserializeObjectError
from scaler_protocol import codes, plain_values, values
from scaler_protocol.messages import Buffer, Limits
from scaler_protocol.unreadable import reason_of
from scaler_protocol.values import Pieces, size_of


class Part(NamedTuple):
    """A part of a call: the pieces of its bytes, or the 16 bytes of an id."""

    pieces: Sequence[Buffer]
    size: int
    kind: int = codes.KIND_INLINE
    #: only processors that run our version of Python can read it (CLI-15)
    has_code: bool = False
    #: what must live as long as a task may use it
    kept: tuple[object, ...] = ()

    @classmethod
    def of_id(cls, number: bytes, kind: int) -> Part:
        return cls((number,), len(number), kind)

    @classmethod
    def of_pieces(cls, pieces: Sequence[Buffer]) -> Part:
        if type(pieces) is Pieces:
            return cls(pieces, size_of(pieces), has_code=pieces.notes.has_code, kept=tuple(pieces.notes.kept))
        return cls(pieces, size_of(pieces))


MOST_PARTS = 65_535
"""Of one task: what a column can say. (BAT-1)"""


def check_parts(count: int, keywords: Sequence[str], limits: Limits) -> None:
    """Judged in the line that makes the call: later it would be the mistake of the thread that sends, which has the
    calls of others in hand."""
    if count > MOST_PARTS:
        raise ValueError(f"a call has at most {MOST_PARTS:,} arguments and this one has {count:,}: pass them in a list")
    most_bytes = bounds_of(limits).column_bytes
    keyword_bytes = sum(TEXT_BYTES + len(checked_text("the name of an argument", one)) for one in keywords)
    if TASK_BYTES + PART_BYTES * count > most_bytes or keyword_bytes > most_bytes // 2:
        raise ValueError(f"this call has more arguments, {count:,}, than the scheduler's messages carry: use a list")


def deserialized(serializer: Any, data: Any, *, is_trusted: bool) -> Any:
    """The default reads from any memory, and builds arrays over it; a program's own is given real bytes."""
    try:
        if serializer is not None:
            return serializer.deserialize(bytes(data))
        return values.loads(data) if is_trusted else plain_values.loads(data)
    except BaseException as error:
        pass_on(error)
        raise unreadable(error) from error


def unreadable(error: BaseException) -> DeserializeObjectError:
    return DeserializeObjectError(f"the task has succeeded, and its result cannot be read here: {reason_of(error)}")


class Picklers:
    """The picklers of one client handle."""

    def __init__(self) -> None:
        #: that no call uses now
        self._free: list[values.CallPickler] = []

    @contextmanager
    def one(self) -> Iterator[values.CallPickler]:
        """Lends a pickler that no other call uses. An object may call this client while the object is pickled."""
        try:
            pickler = self._free.pop()
        except IndexError:
            pickler = values.CallPickler()
        try:
            yield pickler
        finally:
            self._free.append(pickler)
