"""Owners that are gone, and what has not been released yet of all that they had (OWN-4): a million objects take many
turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import ReleaseOwner
from scaler_storage.core.work import Work


class Departure(NamedTuple):
    #: the peer that has released the owner
    peer_id: PeerId
    release: ReleaseOwner
    ids: deque[ObjectId]


class Departures:
    def __init__(self) -> None:
        self._waiting: deque[Departure] = deque()

    def __iter__(self) -> Iterator[Departure]:
        return iter(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, peer_id: PeerId, release: ReleaseOwner, ids: Iterable[ObjectId]) -> None:
        """From here on nothing may be added to what this owner has."""
        self._waiting.append(Departure(peer_id, release, deque(ids)))

    def work_off(
        self, work: Work, owned: Mapping[PeerId, Container[ObjectId]], let_go: Callable[[ObjectId, PeerId], None]
    ) -> Iterator[Departure]:
        """As many objects as one turn has time for: a million at once would stop the storage for seconds. Yields each
        departure of which nothing is left."""
        while self._waiting:
            departure = self._waiting[0]
            owner = departure.release.owner
            while departure.ids and work.left > 0:
                work.left -= 1
                object_id = departure.ids.popleft()
                if object_id in owned.get(owner, ()):  # it may have been released by itself since
                    let_go(object_id, owner)
            if departure.ids:
                return
            yield self._waiting.popleft()
