"""Owners that are gone (OWN-4).

A Put that was under way when its owner left would otherwise store an object that no peer will ever release.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from scaler_protocol.ids import PeerId


class GoneOwners:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        #: in the order they went; at most `limit`
        self._gone: OrderedDict[PeerId, None] = OrderedDict()

    def __contains__(self, owner: PeerId) -> bool:
        return owner in self._gone

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self._gone)

    def __len__(self) -> int:
        return len(self._gone)

    def add(self, owner: PeerId) -> None:
        self._gone[owner] = None
        if len(self._gone) > self._limit:
            self._gone.popitem(last=False)
