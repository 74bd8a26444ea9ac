"""What a storage holds, in numbers, and what is largest (STO-16, MON-26, MON-53).

Objects of 64 KiB and more are kept in classes, of which each has sizes within a factor of two. The largest are in the
highest classes. Of a class with very many objects the oldest are looked at, so that an answer has a bounded cost: those
that are shown may then be smaller than others, by less than a factor of two.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice

from scaler_protocol import codes
from scaler_protocol.columns import join_u64, split_ids
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import HostTraffic, ObjectEntry, StorageStatus, StorageStatusRequest
from scaler_storage.core.limits import UNLIMITED
from scaler_storage.core.objects import ObjectTable
from scaler_storage.core.spilling import Spilling

LARGE_BYTES = 64 * 1024
LOOKED_AT = 1_000
MOST_TOLD = 100
HOSTS = 64
"""Others are counted together: a peer says itself on which host it is."""
HOST_CHARACTERS = 100


def status_of(
    request: StorageStatusRequest,
    role: int,
    objects: ObjectTable,
    memory_bytes: int,
    waiter_count: int,
    spilling: Spilling,
) -> StorageStatus:
    # A peer id names the owner of objects, so only the scheduler, which has given it, is told of one. (MON-26)
    owners = split_ids(request.owners) if role == codes.ROLE_SCHEDULER else ()
    disk_limit = spilling.limits.disk_bytes
    return StorageStatus(
        request.request_id,
        object_count=len(objects.objects),
        owner_count=len(objects.owned),
        memory_bytes=memory_bytes,
        waiter_count=waiter_count,
        owner_objects=join_u64([len(objects.owned.get(PeerId(owner), ())) for owner in owners]),
        owner_bytes=join_u64([objects.owned_bytes.get(PeerId(owner), 0) for owner in owners]),
        disk_bytes=spilling.taken_bytes,
        moving_bytes=spilling.moving_bytes,
        memory_limit_bytes=spilling.limits.memory_bytes or 0,
        disk_limit_bytes=0 if disk_limit is None or disk_limit >= UNLIMITED else disk_limit,
        disk_room_bytes=spilling.room_bytes,
        disk_trouble=spilling.trouble,
        user_limit_bytes=spilling.limits.user_bytes or 0,
        owner_user_bytes=_of_users(objects, owners),
    )


def _of_users(objects: ObjectTable, owners: Sequence[bytes]) -> bytes:
    """Returns what the user of each owner has; nothing if users have no quota. (MON-69)"""
    if objects.by_user is None:
        return b""
    # The user of an owner without objects is not known.
    families = (objects.family_of(PeerId(owner)) for owner in owners)
    return join_u64([0 if family is None else objects.by_user.has(family) for family in families])


class Largest:
    def __init__(self) -> None:
        #: by the bits of its size, when each object was stored; no empty classes
        self.classes: dict[int, dict[ObjectId, float]] = {}

    def add(self, object_id: ObjectId, total_bytes: int, now: float) -> None:
        if total_bytes >= LARGE_BYTES:
            self.classes.setdefault(total_bytes.bit_length(), {})[object_id] = now

    def remove(self, object_id: ObjectId, total_bytes: int) -> None:
        if total_bytes >= LARGE_BYTES:
            stored = self.classes[total_bytes.bit_length()]
            del stored[object_id]
            if not stored:
                del self.classes[total_bytes.bit_length()]

    def told(self, objects: ObjectTable, count: int, now: float) -> tuple[ObjectEntry, ...]:
        """At most so many, the largest first."""
        count = min(count, MOST_TOLD)
        found: list[tuple[int, ObjectId, float]] = []
        for bits in sorted(self.classes, reverse=True):
            if len(found) >= count:
                break
            looked_at = islice(self.classes[bits].items(), LOOKED_AT)
            sizes = ((objects.objects[one].value.total_bytes, one, stored_at) for one, stored_at in looked_at)
            found += heapq.nlargest(count - len(found), sizes)
        return tuple(_entry(objects, object_id, now - stored_at) for _, object_id, stored_at in found)


def _entry(objects: ObjectTable, object_id: ObjectId, age_seconds: float) -> ObjectEntry:
    stored = objects.objects[object_id]
    owner: PeerId = next(iter(stored.owners))
    size, is_on_disk = stored.value.total_bytes, stored.value.extent is not None
    return ObjectEntry(object_id, owner, len(stored.owners), size, age_seconds, is_on_disk)


class Traffic:
    """Bytes of values that travelled to and from the peers of each host."""

    def __init__(self) -> None:
        #: put and got, for each host; those of one peer are the same list as those of its host
        self._hosts: dict[str, list[int]] = {}
        self._peers: dict[PeerId, list[int]] = {}

    def opened(self, peer_id: PeerId, host: str) -> None:
        host = host[:HOST_CHARACTERS]
        if host not in self._hosts and len(self._hosts) >= HOSTS:
            host = ""
        self._peers[peer_id] = self._hosts.setdefault(host, [0, 0])

    def lost(self, peer_id: PeerId) -> None:
        del self._peers[peer_id]

    def put(self, peer_id: PeerId, size: int) -> None:
        self._peers[peer_id][0] += size

    def got(self, peer_id: PeerId, size: int) -> None:
        if peer_id in self._peers:  # a value that is read from the disk may come after its reader has left
            self._peers[peer_id][1] += size

    def told(self) -> tuple[HostTraffic, ...]:
        return tuple(HostTraffic(host, put, got) for host, (put, got) in self._hosts.items() if put or got)
