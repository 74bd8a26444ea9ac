"""Clients that have gone, until the storage has confirmed that it released all they owned (OWN-9)."""

from __future__ import annotations

from collections import OrderedDict
from itertools import count

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import ReleaseOwner

#: While no storage answers. One that comes back without its memory has nothing to release.
GONE_OWNERS_LIMIT = 100_000


class GoneOwners:
    def __init__(self, request_ids: count[int]) -> None:
        #: requests without an answer, oldest first
        self._unconfirmed: OrderedDict[int, ReleaseOwner] = OrderedDict()
        self._request_ids = request_ids

    def __len__(self) -> int:
        return len(self._unconfirmed)

    def add(self, owner: PeerId, grant: bytes) -> ReleaseOwner:
        request = ReleaseOwner(next(self._request_ids), owner, grant)
        self._unconfirmed[request.request_id] = request
        if len(self._unconfirmed) > GONE_OWNERS_LIMIT:
            self._unconfirmed.popitem(last=False)
        return request

    def confirmed(self, request_id: int) -> None:
        self._unconfirmed.pop(request_id, None)

    def unconfirmed(self) -> list[ReleaseOwner]:
        """What has to be said again in a new session: the answer, or the request, may be lost with the old one."""
        return list(self._unconfirmed.values())
