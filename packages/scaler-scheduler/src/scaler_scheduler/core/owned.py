"""What clients own in the storage, for monitors (MON-26, MON-27).

The storage knows owners by their peer ids and no users; the scheduler knows whose session each peer id has. So the
scheduler names some of its clients in each StorageStatusRequest, in turns if they are many, and keeps what it is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scaler_protocol.codec.checks import OWNERS_MAX
from scaler_protocol.columns import join_ids, split_u64
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import StorageStatus, StorageStatusRequest
from scaler_scheduler.core.tables import Client


class OwnedObjects:
    def __init__(self, clients: Mapping[PeerId, Client]) -> None:
        self._clients = clients
        #: those of this round of which the storage was not asked yet
        self._left: list[PeerId] = []
        self._asked: list[PeerId] = []
        self._request_id = 0

    def request(self) -> StorageStatusRequest:
        self._left = self._left or list(self._clients)
        self._asked, self._left = self._left[:OWNERS_MAX], self._left[OWNERS_MAX:]
        self._request_id += 1
        return StorageStatusRequest(self._request_id, join_ids(self._asked))

    def told(self, status: StorageStatus) -> StorageStatus:
        """The status without what it says of owners. An older storage says nothing of them."""
        counts, sizes = split_u64(status.owner_objects), split_u64(status.owner_bytes)
        if status.request_id == self._request_id and len(counts) == len(self._asked):
            for owner, count, size in zip(self._asked, counts, sizes, strict=True):
                client = self._clients.get(owner)
                if client is not None:
                    client.object_count, client.object_bytes = count, size
        return replace(status, owner_objects=b"", owner_bytes=b"")
