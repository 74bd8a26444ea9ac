"""The objects that exist: which value each id stands for, who owns it, and how much memory all of them hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import Put, PutShared
from scaler_protocol.records import dataclass
from scaler_storage.core.limits import CoreLimits
from scaler_storage.core.owners import UserBytes
from scaler_storage.core.spilling import Spilling
from scaler_storage.core.values import AnyValue


@dataclass(slots=True)
class StoredObject:
    value: AnyValue
    #: no other object has it, also none of the same id before or after
    number: int
    #: never empty: an object without owners is deleted (OWN-1)
    owners: set[PeerId] = field(default_factory=set)
    #: how many of its owners each family has (STO-33)
    families: dict[bytes, int] = field(default_factory=dict)

    def is_again(self, put: Put | PutShared) -> bool:
        """One of its owners stores it once more, as after a lost session. (STO-4)"""
        return put.owner in self.owners and put.total_bytes == self.value.total_bytes


class ObjectTable:
    def __init__(self, spilling: Spilling | None = None, by_user: UserBytes | None = None) -> None:
        #: is told of values that come and go
        self._spilling = spilling or Spilling(CoreLimits())
        #: is told of objects and owners that come and go; most storages have none
        self.keeping = self._spilling.keeping
        #: is told of the bytes of each family, if users have a quota; most storages have none (LIM-36)
        self.by_user = by_user
        self.objects: dict[ObjectId, StoredObject] = {}
        #: for each owner, all and only the objects that have it among their owners, oldest first; no empty ones. And of
        #: each by which user's workers it was put; empty: by the owner itself (STO-47)
        self.owned: dict[PeerId, dict[ObjectId, bytes]] = {}
        #: for each of these owners, the bytes of their values; a value that has two names of one owner counts twice
        self.owned_bytes: dict[PeerId, int] = {}
        #: the family of each of these owners, unless it has the owner's own name, as where there are no keys
        self.families: dict[PeerId, bytes] = {}
        #: bytes of the values of all objects; a value with several names counts once
        self.value_bytes = 0
        #: pairs of an object and an owner of it
        self.entries = 0
        self._last_number = 0

    def get(self, object_id: ObjectId) -> StoredObject | None:
        return self.objects.get(object_id)

    def family_of(self, owner: PeerId) -> bytes | None:
        """In which its objects are; None if it owns nothing."""
        return self.families.get(owner, owner) if owner in self.owned else None

    def add(self, object_id: ObjectId, value: AnyValue, owner: PeerId, family: bytes, lent_to: bytes = b"") -> None:
        assert object_id not in self.objects, "an object that exists only gains owners (STO-4)"
        assert value.is_complete, "an object exists once all its bytes are there (STO-3)"
        if value.names == 0:
            self.value_bytes += value.total_bytes
            self._spilling.added(value)
        value.names += 1
        self._last_number += 1
        self.objects[object_id] = StoredObject(value, self._last_number)
        self.add_owner(object_id, owner, family, lent_to)

    def restore(self, object_id: ObjectId, value: AnyValue, owners: Sequence[tuple[PeerId, bytes]]) -> StoredObject:
        """As `add` and `add_owner`, of what is kept already. There may be millions at a start."""
        total_bytes = value.total_bytes
        if value.names == 0:
            self.value_bytes += total_bytes
        value.names += 1
        self._last_number += 1
        families: dict[bytes, int] = {}
        stored = self.objects[object_id] = StoredObject(value, self._last_number, {one for one, _ in owners}, families)
        for owner, family in owners:
            owned = self.owned.get(owner)
            if owned is None:
                owned = self.owned[owner] = {}
                self.owned_bytes[owner] = 0
                if family != owner:
                    self.families[owner] = family
            family = self.families.get(owner, owner)
            families[family] = families.get(family, 0) + 1
            if self.by_user is not None and families[family] == 1:
                self.by_user.add(family, total_bytes)
            owned[object_id] = b""
            self.owned_bytes[owner] += total_bytes
        self.entries += len(owners)
        return stored

    def add_owner(self, object_id: ObjectId, owner: PeerId, family: bytes, lent_to: bytes = b"") -> None:
        stored = self.objects[object_id]
        if owner in stored.owners:
            return
        if owner not in self.owned and family != owner:
            self.families[owner] = family
        if self.keeping is not None:
            self.keeping.note(object_id, owner)
        stored.owners.add(owner)
        family = self.families.get(owner, owner)
        stored.families[family] = stored.families.get(family, 0) + 1
        if self.by_user is not None and stored.families[family] == 1:
            self.by_user.add(family, stored.value.total_bytes)
        self.owned.setdefault(owner, {})[object_id] = lent_to
        self.owned_bytes[owner] = self.owned_bytes.get(owner, 0) + stored.value.total_bytes
        self.entries += 1

    def own_again(self, object_id: ObjectId, owner: PeerId) -> None:
        """An owner has put by itself what a worker had put in its name: only the owner releases it now. (STO-47)"""
        self.owned[owner][object_id] = b""

    def release(self, object_id: ObjectId, owner: PeerId) -> None:
        """The owner lets go; the last one takes the object with it, and the last name takes the value."""
        if self.keeping is not None:
            self.keeping.note(object_id, owner)
        stored = self.objects[object_id]
        stored.owners.remove(owner)
        family = self.families.get(owner, owner)
        stored.families[family] -= 1
        if not stored.families[family]:
            del stored.families[family]
            if self.by_user is not None:
                self.by_user.add(family, -stored.value.total_bytes)
        owned = self.owned[owner]
        del owned[object_id]
        self.entries -= 1
        self.owned_bytes[owner] -= stored.value.total_bytes
        if not owned:
            del self.owned[owner], self.owned_bytes[owner]
            self.families.pop(owner, None)
        if not stored.owners:
            self._delete(object_id, stored.value)

    def _delete(self, object_id: ObjectId, value: AnyValue) -> None:
        del self.objects[object_id]
        value.names -= 1
        if value.names == 0:
            self.value_bytes -= value.total_bytes
            self._spilling.deleted(value)
