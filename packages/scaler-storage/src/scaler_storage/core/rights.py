"""Who may talk to a storage, and about what (HSK-5). ReleaseOwner is refused by the core, with a reply. (OWN-4)"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from scaler_protocol import codes
from scaler_protocol.messages import Duplicate, Get, Put, Release, ReleaseOwner, StorageStatusRequest

_EVERYTHING: frozenset[type] = frozenset({Put, Get, Release, ReleaseOwner, Duplicate, StorageStatusRequest})

ALLOWED_MESSAGES: Mapping[int, frozenset[type]] = MappingProxyType(
    {
        codes.ROLE_CLIENT: _EVERYTHING,
        codes.ROLE_WORKER: _EVERYTHING,
        codes.ROLE_SCHEDULER: _EVERYTHING,
        codes.ROLE_MONITOR: frozenset({StorageStatusRequest}),
    }
)
ALLOWED_ROLES: frozenset[int] = frozenset(ALLOWED_MESSAGES)

MAY_RELEASE_OWNER: frozenset[int] = frozenset({codes.ROLE_SCHEDULER})
