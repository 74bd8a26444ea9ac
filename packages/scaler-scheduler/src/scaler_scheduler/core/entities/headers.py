"""Keeps the grant that workers of one user get with tasks of one client, and the header that it stands in (OWN-24)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import TaskHeader

Lend = Callable[[PeerId, bytes, bytes], bytes]
"""Returns a grant of this client, which is in this family, for workers of that user."""
LEND_AGAIN_SECONDS = 600.0
"""So long a grant goes into Dispatches before it is made again, which gives the same one for the rest of the day."""


@lru_cache(maxsize=256)
def with_generation(header: TaskHeader, generation: int) -> TaskHeader:
    """Returns one object for equal headers: one comes with thousands of batches."""
    return replace(header, generation=generation)


@lru_cache(maxsize=256)
def _with_grant(header: TaskHeader, grant: bytes) -> TaskHeader:
    return replace(header, owner_grant=grant)


class LentHeaders:
    """What workers of one user are told of one client: the grant, and the last header that it stands in. A worker tells
    each of its processors of a header once, by its content: so all tasks of one client that go to workers of one user
    have the same grant for a day, and the same header as long as the client uses one. (OWN-24)"""

    __slots__ = ("_again_at", "_header", "_of", "grant")

    def __init__(self) -> None:
        self.grant = b""
        self._again_at = 0.0
        self._of: TaskHeader | None = None
        self._header = TaskHeader()

    def has_to_be_made(self, now: float) -> bool:
        return now >= self._again_at

    def renew(self, grant: bytes, now: float) -> None:
        self._again_at = now + LEND_AGAIN_SECONDS
        if grant != self.grant:
            self.grant, self._of = grant, None

    def header(self, header: TaskHeader) -> TaskHeader:
        if header is not self._of:
            self._of, self._header = header, _with_grant(header, self.grant)
        return self._header
