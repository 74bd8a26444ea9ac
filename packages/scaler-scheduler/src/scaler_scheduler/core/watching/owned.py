"""What clients and their users have in the storage, for monitors (MON-26, MON-27, MON-69), and which objects are the
largest (MON-53, MON-54).

The storage knows owners by their peer ids and no users; the scheduler knows whose session each peer id has. So the
scheduler names some of its clients in each StorageStatusRequest, in turns if they are many, and keeps what it is told.
"""

from __future__ import annotations

from dataclasses import replace

from scaler_protocol.codec.checks import OWNERS_MAX
from scaler_protocol.columns import join_ids, split_u64
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.messages import ObjectEntry, StorageStatus, StorageStatusRequest
from scaler_scheduler.core.tables.tables import Tables

LARGEST_SHOWN = 32
"""In each ClusterStatus: some 100 bytes for each."""
HOSTS_SHOWN = 65
NAME_CHARACTERS = 100


class OwnedObjects:
    def __init__(self, tables: Tables) -> None:
        self._clients = tables.clients
        self._display = tables.display
        self._known_objects = tables.known_objects
        self._combinations = tables.combinations
        #: those of this round of which the storage was not asked yet
        self._left: list[PeerId] = []
        self._asked: list[PeerId] = []
        self._request_id = 0

    def request(self) -> StorageStatusRequest:
        self._left = self._left or list(self._clients)
        self._asked, self._left = self._left[:OWNERS_MAX], self._left[OWNERS_MAX:]
        self._request_id += 1
        return StorageStatusRequest(self._request_id, join_ids(self._asked), LARGEST_SHOWN)

    def told(self, status: StorageStatus) -> StorageStatus:
        """The status as monitors see it, without what it says of owners. An older storage says nothing of them."""
        counts, sizes = split_u64(status.owner_objects), split_u64(status.owner_bytes)
        of_users = split_u64(status.owner_user_bytes) or (0,) * len(counts)
        self._combinations.object_bytes_limit = status.user_limit_bytes
        if status.request_id == self._request_id and len(counts) == len(self._asked):
            for owner, count, size, of_user in zip(self._asked, counts, sizes, of_users, strict=True):
                client = self._clients.get(owner)
                if client is not None:
                    client.object_count, client.object_bytes, client.user_object_bytes = count, size, of_user
        largest = tuple(map(self._shown, status.largest[:LARGEST_SHOWN]))
        traffic = tuple(replace(one, host=one.host[:NAME_CHARACTERS]) for one in status.traffic[:HOSTS_SHOWN])
        return replace(
            status, owner_objects=b"", owner_bytes=b"", owner_user_bytes=b"", largest=largest, traffic=traffic
        )

    def _shown(self, entry: ObjectEntry) -> ObjectEntry:
        of, (kind, name) = self._display.of, self._known_objects.told(ObjectId(entry.object_id))
        object_id, owner = of(PeerId(entry.object_id)), of(PeerId(entry.owner))
        return replace(entry, object_id=object_id, owner=owner, name=name, kind=kind)
