"""Who may talk to a storage, and about what (HSK-13). The session layer refuses the rest, before the core sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from scaler_protocol import codes
from scaler_protocol.ids import PeerId
from scaler_protocol.keys import ANY_USER, Granted, Identity, families_of
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
from scaler_protocol.records import dataclass
from scaler_storage.core.objects import ObjectTable, StoredObject
from scaler_storage.core.refusals import Refusal, ended, not_allowed, of_another_family, of_another_user

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
ReadGrant = Callable[[bytes, bytes], Granted | None]
"""Of an owner and its grant: what the grant says; None if it is not one of that owner. (SEC-11, SEC-21)"""


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


@dataclass(frozen=True, slots=True)
class _Bearer:
    """Of a session: for whom it shows grants."""

    since: float  #: seconds since 1970
    user: bytes = b""  #: how the names of its user's families begin; empty: an operator, which shows those of any
    is_worker: bool = False  #: its ticket is for workers: also of a client in a task

    def may_show(self, granted: Granted) -> bool:
        if not self.user:
            return True
        if granted.is_lent:
            return self.is_worker and granted.user in (self.user, ANY_USER)
        return granted.user == self.user


class Rights:
    """Which owners a peer may name, and which objects it may read. Without keys any."""

    def __init__(
        self,
        read_grant: ReadGrant | None,
        roles: Mapping[PeerId, int],
        objects: ObjectTable,
        date: Callable[[], float],
    ) -> None:
        """`date`: in seconds since 1970."""
        self._read_grant = read_grant
        self._roles = roles
        self._objects = objects
        self._date = date
        self._bearers: dict[PeerId, _Bearer] = {}

    def opened(self, peer_id: PeerId, identity: Identity | None) -> None:
        user, is_worker = b"", True
        if identity is not None and not identity.is_operator:
            user, is_worker = families_of(identity.user), codes.ROLE_WORKER in identity.roles
        self._bearers[peer_id] = _Bearer(self._date(), user, is_worker)

    def lost(self, peer_id: PeerId) -> None:
        del self._bearers[peer_id]

    def refusal(self, peer_id: PeerId, message: Message) -> Refusal | None:
        """Why this peer may not name the owners that it names. The scheduler may name each. (STO-32, STO-48)"""
        if self._read_grant is None or self._roles[peer_id] == codes.ROLE_SCHEDULER:
            return None
        bearer = self._bearers[peer_id]
        for owner, grant in named_owners(message):
            granted = self._read_grant(owner, grant)
            if granted is None:
                return not_allowed(owner)
            if not bearer.may_show(granted):
                return of_another_user(owner)
            if granted.has_ended(bearer.since):
                return ended(owner)
            if type(message) is not Get and self._is_of_another(owner, granted.family):
                return of_another_family(owner)
        return None

    def may_release_all(self, release: ReleaseOwner) -> bool:
        """Whether what this owner has is of the client that has left. (OWN-22)"""
        if self._read_grant is None or not release.grant:
            return True
        return not self._is_of_another(release.owner, self.family(release.owner, release.grant))

    def _is_of_another(self, owner: PeerId, family: bytes) -> bool:
        """A client of another user had the same name, before the scheduler was restarted. (OWN-21)"""
        return self._objects.family_of(owner) not in (None, family)

    def family(self, owner: PeerId, grant: bytes) -> bytes:
        """Of an owner that may be named."""
        return self.owning(owner, grant)[0]

    def owning(self, owner: PeerId, grant: bytes) -> tuple[bytes, bytes]:
        """Returns the family of an owner that may be named, and the user whose workers put for it with this grant;
        empty: the owner puts by itself."""
        granted = None if self._read_grant is None else self._read_grant(owner, grant)
        if granted is None:
            return owner, b""
        return granted.family, b"" if granted.may_release else granted.user

    def borrower(self, peer_id: PeerId, release: Release) -> bytes:
        """Returns the user to whose workers' objects this Release is limited; empty: to none. (STO-47)"""
        if self._read_grant is None or self._roles[peer_id] == codes.ROLE_SCHEDULER:
            return b""
        return self.owning(release.owner, release.grant)[1]

    def reader_family(self, peer_id: PeerId, request: Get | Duplicate) -> bytes:
        """Empty: it may read any object."""
        if self._read_grant is None or self._roles[peer_id] == codes.ROLE_SCHEDULER:
            return b""
        return self.family(*reader_of(request))

    def may_read(self, peer_id: PeerId, request: Get | Duplicate, stored: StoredObject) -> bool:
        """Objects are read by the family of their owners: a client and the clients in its tasks. (STO-33)"""
        family = self.reader_family(peer_id, request)
        return not family or family in stored.families
