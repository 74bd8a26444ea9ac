"""Who may talk to a storage, and about what (HSK-13). The session layer refuses the rest, before the core sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from scaler_protocol import codes
from scaler_protocol.ids import PeerId
from scaler_protocol.keys import Identity, families_of
from scaler_protocol.messages import (
    Duplicate,
    Get,
    LiveOwners,
    Message,
    Put,
    PutShared,
    Release,
    ReleaseOwner,
    StorageStatusRequest,
)
from scaler_storage.core.objects import ObjectTable, StoredObject
from scaler_storage.core.refusals import Refusal, not_allowed, of_another_family, of_another_user

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
FamilyOf = Callable[[bytes, bytes], bytes | None]
"""Of an owner and its grant: whose family it belongs to; None if this is not its grant. (SEC-11)"""


def named_owners(message: Message) -> tuple[tuple[PeerId, bytes], ...]:
    """In whose name this is asked, with the grant of each. (STO-32)"""
    if isinstance(message, Duplicate):
        return (message.owner, message.grant), reader_of(message)
    if isinstance(message, (Put, PutShared, Get, Release)):
        return ((message.owner, message.grant),)
    return ()


def reader_of(request: Get | Duplicate) -> tuple[PeerId, bytes]:
    """For whom the object is read."""
    if isinstance(request, Duplicate) and request.source_owner:
        return request.source_owner, request.source_grant
    return request.owner, request.grant


ALLOWED_ROLES: frozenset[int] = frozenset(ALLOWED_MESSAGES)


class Rights:
    """Which owners a peer may name, and which objects it may read. Without keys any."""

    def __init__(self, family_of: FamilyOf | None, roles: Mapping[PeerId, int], objects: ObjectTable) -> None:
        self._family_of = family_of
        self._roles = roles
        self._objects = objects
        #: how the names of the families begin that a peer may name: those of its user. Workers and the clients in their
        #: tasks are not here: they may name any
        self._heads: dict[PeerId, bytes] = {}

    def opened(self, peer_id: PeerId, identity: Identity | None) -> None:
        if identity is not None and codes.ROLE_WORKER not in identity.roles:
            self._heads[peer_id] = families_of(identity.user)

    def lost(self, peer_id: PeerId) -> None:
        self._heads.pop(peer_id, None)

    def refusal(self, peer_id: PeerId, message: Message) -> Refusal | None:
        """Why this peer may not name the owners that it names. The scheduler may name each. (STO-32)"""
        if self._family_of is None or self._roles[peer_id] == codes.ROLE_SCHEDULER:
            return None
        head = self._heads.get(peer_id, b"")
        for owner, grant in named_owners(message):
            family = self._family_of(owner, grant)
            if family is None:
                return not_allowed(owner)
            if not family.startswith(head):
                return of_another_user(owner)
            if type(message) is not Get and self._is_of_another(owner, family):
                return of_another_family(owner)
        return None

    def may_release_all(self, release: ReleaseOwner) -> bool:
        """Whether what this owner has is of the client that has left. (OWN-22)"""
        if self._family_of is None or not release.grant:
            return True
        return not self._is_of_another(release.owner, self.family(release.owner, release.grant))

    def _is_of_another(self, owner: PeerId, family: bytes) -> bool:
        """A client of another user had the same name, before the scheduler was restarted. (OWN-21)"""
        return self._objects.family_of(owner) not in (None, family)

    def family(self, owner: PeerId, grant: bytes) -> bytes:
        """Of an owner that may be named."""
        found = None if self._family_of is None else self._family_of(owner, grant)
        return owner if found is None else found

    def reader_family(self, peer_id: PeerId, request: Get | Duplicate) -> bytes:
        """Empty: it may read any object."""
        if self._family_of is None or self._roles[peer_id] == codes.ROLE_SCHEDULER:
            return b""
        return self.family(*reader_of(request))

    def may_read(self, peer_id: PeerId, request: Get | Duplicate, stored: StoredObject) -> bool:
        """Objects are read by the family of their owners: a client and the clients in its tasks. (STO-33)"""
        family = self.reader_family(peer_id, request)
        return not family or family in stored.families
