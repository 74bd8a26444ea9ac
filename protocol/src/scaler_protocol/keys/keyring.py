"""What a server holds, and what a dialer shows.

Neither shows secrets in its `repr`. Neither can be pickled, because pickled values are stored in the object storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NoReturn

from scaler_protocol.codes import ROLE_WORKER
from scaler_protocol.ids import GRANT_BYTES
from scaler_protocol.keys.account import account_name
from scaler_protocol.keys.derivation import (
    CURVE_LABEL,
    GRANT_LABEL,
    MARK_LABEL,
    TICKET_LABEL,
    derived,
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
        #: families by owner and grant, of grants that were found right: each Put and Release shows one
        self._granted: dict[tuple[bytes, bytes], bytes] = {}
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

    def family_of(self, owner: bytes, grant: bytes) -> bytes | None:
        """Whose family the owner belongs to; None if this is not its grant."""
        known = self._granted.get((owner, grant))
        if known is not None:
            return known
        family, found = grant[:-GRANT_BYTES], grant[-GRANT_BYTES:]
        if len(family) not in (0, len(owner)) or not any(
            is_mac(found, key, owner + family, GRANT_BYTES) for key in self._grant_keys
        ):
            return None
        if len(self._granted) >= _REMEMBERED_GRANTS:
            self._granted.clear()
        self._granted[bytes(owner), bytes(grant)] = family or owner
        return family or owner

    @property
    def marks(self) -> frozenset[bytes]:
        """By which a server knows again what it has written under one of these keys. They tell nothing of the keys."""
        return frozenset(mac(key, MARK_LABEL, GRANT_BYTES) for key in self.keys)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.keys)} from {self.origin or 'memory'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a keyring holds secrets and is not pickled")


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
