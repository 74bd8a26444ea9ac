"""What a server holds, and what a dialer shows.

Neither shows secrets in its `repr`. Neither can be pickled, because pickled values are stored in the object storage.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import field
from typing import NoReturn

from scaler_protocol.codes import ROLE_WORKER
from scaler_protocol.ids import GRANT_BYTES, ID_BYTES, USER_BYTES
from scaler_protocol.keys.account import account_name
from scaler_protocol.keys.derivation import (
    CURVE_LABEL,
    GRANT_LABEL,
    MARK_LABEL,
    TICKET_LABEL,
    derived,
    families_of,
    is_mac,
    mac,
    new_secret,
    public_key,
)
from scaler_protocol.keys.roles import role_names
from scaler_protocol.keys.texts import KEYS_MAX, TicketText
from scaler_protocol.keys.tickets import ALL_ROLES, Identity, Refusal, TicketError, read, signed, split, ticket_id
from scaler_protocol.records import dataclass

_REMEMBERED_GRANTS = 1024
_OF_WORKERS = frozenset({ROLE_WORKER})


ANY_USER = bytes(USER_BYTES)
"""Of a worker on the local lane: at the storage it may have another name, by its ticket. (OWN-24)"""
LENT_DAYS = 7
"""So many days a lent grant is good at least. It ends with a day, so that all of one day are equal: the processors of a
worker know a task's client by the header, of which the grant is a part."""
_DAY = 86_400
_RELEASES = 1
#: rights, user, end: what a lent grant has between its family and its MAC (SEC-21)
_TERMS = struct.Struct(f"<B{USER_BYTES}sQ")


@dataclass(frozen=True, slots=True)
class Granted:
    """What a grant says. A client's own grant is for the user in the name of its family, and has no end. (SEC-11)"""

    family: bytes
    user: bytes  #: for whose sessions it is: as the names of that user's families begin
    is_lent: bool = False
    may_release: bool = True  #: all that the owner has
    ends: int = 0  #: seconds since 1970; 0 is never

    def has_ended(self, at: float) -> bool:
        return 0 < self.ends <= at


@dataclass(frozen=True, slots=True)
class Pass:
    """What a dialer shows: to which servers it talks, with which CURVE pair, and the ticket of its Hello."""

    server_keys: tuple[bytes, ...]
    """The public keys that the servers may have, in the order in which they are tried."""
    public_key: bytes
    secret_key: bytes = field(repr=False)
    ticket: bytes = field(repr=False)
    origin: str = ""
    """Where it was found, for messages: a path, or "the variable SCALER_KEY"."""
    searched_for: str = ""
    """The address that it was searched for, when none was named: another search may find another."""
    is_of_key: bool = False
    """There was the cluster's key, of which the ticket was made."""
    is_for_worker: bool = False
    """What a key gives here is a ticket for a worker, and no more: its tasks can read it."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pass holds a secret and is not pickled: find it again where it is needed")


class Keyring:
    """What a server holds: the keys of a key file, newest first, all that is derived from them, and the ids of the
    tickets that were revoked.

    While there are several, servers listen with the CURVE pair of the oldest, and accept what any of them has signed.
    (SEC-12)
    """

    __slots__ = (
        "_grant_keys",
        "_granted",
        "_ticket_keys",
        "curve_public",
        "curve_secret",
        "keys",
        "origin",
        "revoked",
        "server_keys",
    )

    def __init__(self, keys: Sequence[bytes], origin: str = "", revoked: frozenset[str] = frozenset()) -> None:
        assert 1 <= len(keys) <= KEYS_MAX
        self.keys = tuple(keys)
        self.origin = origin
        #: ids of tickets that admit no dialer any more, whichever key has signed them (SEC-20)
        self.revoked = revoked
        self._ticket_keys = [derived(key, TICKET_LABEL) for key in keys]
        self._grant_keys = [derived(key, GRANT_LABEL) for key in keys]
        #: what grants say, by owner and grant, that were found right: each Put and Release shows one
        self._granted: dict[tuple[bytes, bytes], Granted] = {}
        self.curve_secret = derived(self.keys[-1], CURVE_LABEL)
        #: of all keys, the oldest first: the order in which dialers try them
        self.server_keys = tuple(public_key(derived(key, CURVE_LABEL)) for key in reversed(self.keys))
        self.curve_public = self.server_keys[0]

    def admit(self, ticket: bytes, holder: bytes, role: int, now: float) -> Identity | Refusal:
        """The identity of a dialer that shows this ticket in a Hello with that role, over a connection of that public
        key (`holder`); or the reason to refuse it. `now` is in seconds since 1970."""
        if not ticket:
            return Refusal("this cluster asks for a key and the Hello has no ticket")
        try:
            said = read(ticket)
        except TicketError as error:
            return Refusal(str(error))
        content, found = split(ticket)
        if not any(is_mac(found, key, content) for key in self._ticket_keys):
            return Refusal("the ticket is not this cluster's: it was signed with another key, or one taken out since")
        if said.holder != holder:
            return Refusal("the ticket belongs to another holder than this connection's")
        if (named := ticket_id(holder)) in self.revoked:
            return Refusal(f"the ticket {named} was revoked: ask the operator for a new one")
        if said.is_expired(now):
            return Refusal(f"the ticket of {said.user} has expired: ask the operator for a new one (scaler_key derive)")
        if role not in said.roles:
            allowed = role_names(said.roles) or "nothing"
            return Refusal(f"the ticket of {said.user} is for {allowed}, and not for {role_names([role])}")
        return said

    def ticket(self, identity: Identity) -> bytes:
        """Signed with the newest key, so that its sessions stay when the older ones are taken out."""
        return signed(identity, self._ticket_keys[0])

    def derive(
        self,
        user: str,
        roles: frozenset[int],
        *,
        is_operator: bool = False,
        expires: float = 0.0,
        secret_key: bytes = b"",
    ) -> TicketText:
        """A ticket for a CURVE pair, a new one unless its secret key is given, and all else that its holder needs.
        TicketError for a name that cannot be."""
        secret_key = secret_key or new_secret()
        identity = Identity(user, roles, is_operator, public_key(secret_key), expires)
        return TicketText(self.server_keys, secret_key, self.ticket(identity))

    def own_pass(self, secret_key: bytes = b"") -> Pass:
        """The pass of a program that holds the key: all roles, in the name of this process's account. Each call makes
        a new CURVE pair, unless the secret key of one is given."""
        ticket = self.derive(account_name(), ALL_ROLES, is_operator=True, secret_key=secret_key)
        return pass_of(ticket, self.origin, is_of_key=True)

    def worker_ticket(self, secret_key: bytes = b"") -> TicketText:
        """Returns all that a worker needs, in the name of this process's account: tasks can read it. (SEC-15)"""
        return self.derive(account_name(), _OF_WORKERS, secret_key=secret_key)

    def grant(self, owner: bytes, family: bytes = b"") -> bytes:
        """What allows to name this owner towards the storage, and to read what its family owns: that of another owner,
        or its own. (SEC-11)"""
        return family + mac(self._grant_keys[0], owner + family, GRANT_BYTES)

    def lend(self, owner: bytes, family: bytes, user: bytes, ends: int, *, may_release: bool = False) -> bytes:
        """Returns a grant of this owner for sessions of one user, to read and put, until an end. (SEC-21)"""
        return self.grant(owner, family + _TERMS.pack(_RELEASES if may_release else 0, user, ends))

    def family_of(self, owner: bytes, grant: bytes) -> bytes | None:
        """Whose family the owner belongs to; None if this is not its grant."""
        granted = self.granted(owner, grant)
        return None if granted is None else granted.family

    def granted(self, owner: bytes, grant: bytes) -> Granted | None:
        """Returns what this grant says, also if it has ended; None if it is not one of that owner."""
        known = self._granted.get((owner, grant))
        if known is not None:
            return known
        said, found = grant[:-GRANT_BYTES], grant[-GRANT_BYTES:]
        read = _read(said, owner)
        if read is None or not any(is_mac(found, key, owner + said, GRANT_BYTES) for key in self._grant_keys):
            return None
        if len(self._granted) >= _REMEMBERED_GRANTS:
            self._granted.clear()
        self._granted[bytes(owner), bytes(grant)] = read
        return read

    @property
    def marks(self) -> frozenset[bytes]:
        """By which a server knows again what it has written under one of these keys. They tell nothing of the keys."""
        return frozenset(mac(key, MARK_LABEL, GRANT_BYTES) for key in self.keys)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.keys)} from {self.origin or 'memory'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a keyring holds secrets and is not pickled")


def _read(said: bytes, owner: bytes) -> Granted | None:
    """Returns what stands before the MAC of a grant of this owner; None if that has no such form."""
    family, terms = said[:ID_BYTES], said[ID_BYTES:]
    if len(owner) != ID_BYTES or len(family) not in (0, ID_BYTES):
        return None
    if not terms:
        return Granted(family or owner, (family or owner)[:USER_BYTES])
    if len(terms) != _TERMS.size:
        return None
    rights, user, ends = _TERMS.unpack(terms)
    return Granted(family, user, is_lent=True, may_release=bool(rights & _RELEASES), ends=ends)


def lent_to(identity: Identity | None) -> bytes:
    """Returns the user that a grant names which is lent to a peer with this identity; empty: there are no keys."""
    if identity is None:
        return b""
    return families_of(identity.user) if identity.holder else ANY_USER


def lent_end(now: float) -> int:
    """Returns the end of what is lent now: the end of the day a week ahead. `now` is in seconds since 1970."""
    return (int(now) // _DAY + 1 + LENT_DAYS) * _DAY


def pass_of(ticket: TicketText, origin: str = "", *, is_of_key: bool = False, is_for_worker: bool = False) -> Pass:
    return Pass(
        ticket.server_keys,
        public_key(ticket.secret_key),
        ticket.secret_key,
        ticket.ticket,
        origin,
        is_of_key=is_of_key,
        is_for_worker=is_for_worker,
    )


def local_identity() -> Identity:
    """Of peers on the local lane: the kernel has proven that they are of this process's user. (SEC-14)"""
    return Identity(account_name(), ALL_ROLES, is_operator=True, holder=b"")
