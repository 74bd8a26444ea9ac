"""Who may talk to a storage, and about what (HSK-13). The session layer refuses the rest, before the core sees it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from scaler_protocol import codes
from scaler_protocol.messages import (
    Duplicate,
    Get,
    LiveOwners,
    Put,
    PutShared,
    Release,
    ReleaseOwner,
    StorageStatusRequest,
)

_WATCH: frozenset[type] = frozenset({StorageStatusRequest})
_USE: frozenset[type] = _WATCH | {Put, PutShared, Get, Duplicate, Release}

ALLOWED_MESSAGES: Mapping[int, frozenset[type]] = MappingProxyType(
    {
        codes.ROLE_CLIENT: _USE,
        codes.ROLE_WORKER: _USE,
        # Only the scheduler knows when a client is gone for good, and which clients live. (STO-15)
        codes.ROLE_SCHEDULER: _USE | {ReleaseOwner, LiveOwners},
        codes.ROLE_MONITOR: _WATCH,
    }
)
ALLOWED_ROLES: frozenset[int] = frozenset(ALLOWED_MESSAGES)
