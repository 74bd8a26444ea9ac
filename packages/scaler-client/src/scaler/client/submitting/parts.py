"""The parts that a call is made of. (BAT-6)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from scaler.utility.exceptions import DeserializeObjectError
from scaler_protocol import codes, values
from scaler_protocol.messages import Buffer
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


def deserialized(serializer: Any, data: Any) -> Any:
    """The default reads from any memory, and builds arrays over it; a program's own is given real bytes."""
    try:
        return values.loads(data) if serializer is None else serializer.deserialize(bytes(data))
    except MemoryError:
        raise
    except Exception as error:
        raise unreadable(error) from error


def unreadable(error: Exception) -> DeserializeObjectError:
    return DeserializeObjectError(f"the task has succeeded, and its result cannot be read here: {reason_of(error)}")
