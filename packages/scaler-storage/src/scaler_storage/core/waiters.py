"""Gets and Duplicates whose object does not exist yet, or not for their reader (STO-7, STO-33).

Each ends with the object, its deadline, its session, or the owner it would have served. Readers are kept apart by
family: those of one family neither take the places of another's, nor are they looked at when its object comes. (SEC-18)
"""

from __future__ import annotations

from collections.abc import Iterable

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Duplicate, Get
from scaler_protocol.records import dataclass
from scaler_storage.core.deadlines import Deadlines

WaitingRequest = Get | Duplicate


@dataclass(frozen=True, slots=True)
class Waiter:
    number: int
    peer_id: PeerId
    request: WaitingRequest
    family: bytes  #: of its reader; empty: it may read any object

    @property
    def object_id(self) -> ObjectId:
        return self.request.source if isinstance(self.request, Duplicate) else self.request.object_id


class WaiterTable:
    def __init__(self) -> None:
        self.waiters: dict[int, Waiter] = {}
        #: for each awaited object and each family, its waiters by number in the order they came; no empty dicts
        self.by_object: dict[ObjectId, dict[bytes, dict[int, Waiter]]] = {}
        #: for each session that waits, the numbers of its waiters; no empty sets
        self.by_peer: dict[PeerId, set[int]] = {}
        #: for each owner that Duplicates wait to give an object, their numbers; no empty sets
        self.by_owner: dict[PeerId, set[int]] = {}
        #: exactly one deadline for each waiter
        self.deadlines: Deadlines[int] = Deadlines()
        self._last_number = 0

    def __len__(self) -> int:
        return len(self.waiters)

    def count_of(self, peer_id: PeerId) -> int:
        return len(self.by_peer.get(peer_id, ()))

    def count_for(self, object_id: ObjectId, family: bytes) -> int:
        return len(self.by_object.get(object_id, {}).get(family, ()))

    def is_last(self, waiter: Waiter) -> bool:
        """Whether no other waits for the same object."""
        families = self.by_object[waiter.object_id]
        return len(families) == len(families[waiter.family]) == 1

    def add(self, peer_id: PeerId, request: WaitingRequest, family: bytes, due_at: float) -> None:
        self._last_number += 1
        waiter = Waiter(self._last_number, peer_id, request, family)
        self.waiters[waiter.number] = waiter
        self.by_object.setdefault(waiter.object_id, {}).setdefault(family, {})[waiter.number] = waiter
        self.by_peer.setdefault(peer_id, set()).add(waiter.number)
        if isinstance(request, Duplicate):
            self.by_owner.setdefault(request.owner, set()).add(waiter.number)
        self.deadlines.set(waiter.number, due_at)

    def take(self, object_id: ObjectId, families: Iterable[bytes]) -> list[Waiter]:
        """Those of this object that are of one of these families, or may read any, in the order in which they came;
        they wait no longer."""
        waiting = self.by_object.get(object_id)
        if waiting is None:
            return []
        served = [waiter for family in {b"", *families} for waiter in waiting.get(family, {}).values()]
        served.sort(key=lambda waiter: waiter.number)
        for waiter in served:
            self.remove(waiter)
        return served

    def of_peer(self, peer_id: PeerId) -> list[Waiter]:
        return [self.waiters[number] for number in sorted(self.by_peer.get(peer_id, ()))]

    def for_owner(self, owner: PeerId) -> list[Waiter]:
        """Duplicates that wait to give this owner an object."""
        return [self.waiters[number] for number in sorted(self.by_owner.get(owner, ()))]

    def first_due(self, now: float) -> Waiter | None:
        number = self.deadlines.first_due(now)
        return None if number is None else self.waiters[number]

    def remove(self, waiter: Waiter) -> None:
        del self.waiters[waiter.number]
        self.deadlines.remove(waiter.number)
        families = self.by_object[waiter.object_id]
        del families[waiter.family][waiter.number]
        if not families[waiter.family]:
            del families[waiter.family]
        if not families:
            del self.by_object[waiter.object_id]
        of_peer = self.by_peer[waiter.peer_id]
        of_peer.remove(waiter.number)
        if not of_peer:
            del self.by_peer[waiter.peer_id]
        if isinstance(waiter.request, Duplicate):
            of_owner = self.by_owner[waiter.request.owner]
            of_owner.remove(waiter.number)
            if not of_owner:
                del self.by_owner[waiter.request.owner]
