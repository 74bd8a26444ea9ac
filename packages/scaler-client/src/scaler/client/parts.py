"""The parts that a call is made of. (BAT-6)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scaler_protocol import codes
from scaler_protocol.messages import Buffer


class Part(NamedTuple):
    """A part of a call: the pieces of its bytes, or the 16 bytes of an id."""

    pieces: Sequence[Buffer]
    size: int
    kind: int = codes.KIND_INLINE

    @classmethod
    def of_id(cls, number: bytes, kind: int) -> Part:
        return cls((number,), len(number), kind)
