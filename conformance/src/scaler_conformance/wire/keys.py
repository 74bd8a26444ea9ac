"""The suite's own keys, tickets and grants, by the specification alone (chapter 17)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import zmq
from zmq.utils import z85

from .codes import ROLES

KEY_BYTES = 32
GRANT_BYTES = 16
OPERATOR_BIT = 15
ALL_ROLES = tuple(ROLES.values())
USER = "conformance"

_TICKET_HEAD = struct.Struct("<BHQ32sB")
_TERMS = struct.Struct("<B8sQ")
RELEASES = 1
ANY_USER = bytes(8)


@dataclass(frozen=True, slots=True)
class Pass:
    """What a dialer shows."""

    server_key: bytes
    secret_key: bytes
    ticket: bytes

    @property
    def public_key(self) -> bytes:
        return public_key(self.secret_key)


class ClusterKey:
    """One key, and what is derived from it."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.curve_secret = self._derived(b"scaler curve 1")
        self.curve_public = public_key(self.curve_secret)
        self._ticket_key = self._derived(b"scaler ticket 1")
        self._grant_key = self._derived(b"scaler grant 1")

    def _derived(self, label: bytes) -> bytes:
        return blake2b(label, key=self.key, digest_size=KEY_BYTES).digest()

    def text(self) -> str:
        """As a key file has it."""
        return f"scaler-key-1:{self.key.hex()}\n"

    def pass_for(
        self,
        secret_key: bytes,
        roles: Iterable[int] = ALL_ROLES,
        *,
        user: str = USER,
        expires: int = 0,
        is_operator: bool = True,
    ) -> Pass:
        ticket = self.ticket(public_key(secret_key), roles, user=user, expires=expires, is_operator=is_operator)
        return Pass(self.curve_public, secret_key, ticket)

    def ticket(
        self, holder: bytes, roles: Iterable[int], *, user: str = USER, expires: int = 0, is_operator: bool = False
    ) -> bytes:
        bits = sum(1 << role for role in set(roles)) | is_operator << OPERATOR_BIT
        name = user.encode()
        content = _TICKET_HEAD.pack(1, bits, expires, holder, len(name)) + name
        return content + self._signature(content)

    def is_ticket(self, ticket: bytes, holder: bytes) -> bool:
        """Whether it is signed with this key, for that holder."""
        content, signature = ticket[:-KEY_BYTES], ticket[-KEY_BYTES:]
        if len(content) < _TICKET_HEAD.size or signature != self._signature(content):
            return False
        return bool(_TICKET_HEAD.unpack_from(content)[3] == holder)

    def grant(self, owner: bytes, family: bytes = b"") -> bytes:
        """Of an owner, which may be in another's family."""
        return family + blake2b(owner + family, key=self._grant_key, digest_size=GRANT_BYTES).digest()

    def lent(
        self, owner: bytes, family: bytes, user: bytes = ANY_USER, *, ends: int = 0, may_release: bool = False
    ) -> bytes:
        """`user`: how the names of that user's families begin."""
        return self.grant(owner, family + _TERMS.pack(RELEASES if may_release else 0, user, ends))

    def is_grant(self, grant: bytes, owner: bytes) -> bool:
        sizes = (GRANT_BYTES, 2 * GRANT_BYTES, 2 * GRANT_BYTES + _TERMS.size)
        return len(grant) in sizes and grant == self.grant(owner, grant[:-GRANT_BYTES])

    def _signature(self, content: bytes) -> bytes:
        return blake2b(content, key=self._ticket_key, digest_size=KEY_BYTES).digest()


def own_family(owner: bytes, user: str = USER) -> bytes:
    """The name of the family of a client that is in no other. (HSK-43)"""
    name, half = user.encode(), GRANT_BYTES // 2
    return blake2b(name, digest_size=half).digest() + blake2b(owner + name, digest_size=half).digest()


def ticket_id(holder: bytes) -> str:
    """By which a ticket of this holder is revoked. (SEC-20)"""
    return blake2b(holder, digest_size=8, person=b"scaler ticket 1").hexdigest()


def families_of(user: str = USER) -> bytes:
    """How the names of this user's families begin."""
    return own_family(b"", user)[: len(ANY_USER)]


@dataclass(frozen=True, slots=True)
class Lent:
    """What a lent grant says."""

    family: bytes
    user: bytes
    ends: int
    may_release: bool


def read_lent(grant: bytes) -> Lent | None:
    """None for a grant that is not lent."""
    if len(grant) != 2 * GRANT_BYTES + _TERMS.size:
        return None
    rights, user, ends = _TERMS.unpack(grant[GRANT_BYTES:-GRANT_BYTES])
    return Lent(grant[:GRANT_BYTES], user, ends, bool(rights & RELEASES))


def public_key(secret_key: bytes) -> bytes:
    return z85.decode(zmq.curve_public(z85.encode(secret_key)))


def arm_dialer(socket: zmq.Socket[bytes], shown: Pass) -> None:
    socket.curve_serverkey = z85.encode(shown.server_key)
    socket.curve_publickey = z85.encode(shown.public_key)
    socket.curve_secretkey = z85.encode(shown.secret_key)


def arm_server(socket: zmq.Socket[bytes], key: ClusterKey) -> None:
    socket.curve_server = True
    socket.curve_secretkey = z85.encode(key.curve_secret)


__all__ = ["ClusterKey", "Pass", "arm_dialer", "arm_server", "own_family", "public_key", "ticket_id"]
