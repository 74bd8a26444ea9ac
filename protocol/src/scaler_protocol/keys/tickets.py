"""Tickets: what a dialer shows in its Hello, and the identity that servers read from it. (SEC-9, SEC-10)

    version u8 = 1 · roles u16 · expires u64 · holder 32 bytes · user length u8 · user · MAC 32 bytes

Integers are little-endian. A ticket is of use only to the holder of a CURVE pair, because the MAC covers the public key
of that pair: a stolen ticket without the secret key of the pair opens nothing.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from hashlib import blake2b

from scaler_protocol import codes
from scaler_protocol.keys.derivation import KEY_BYTES, MAC_BYTES, mac
from scaler_protocol.records import dataclass

ALL_ROLES = frozenset(
    (codes.ROLE_CLIENT, codes.ROLE_WORKER, codes.ROLE_SCHEDULER, codes.ROLE_MONITOR, codes.ROLE_MANAGER)
)

VERSION = 1
USER_BYTES_MAX = 64
TICKET_BYTES_MAX = 1024
"""Of `Hello.credential`. Tickets of version 1 are at most 140 bytes; a later version has room."""

_OPERATOR_BIT = 15
_ROLE_NUMBERS = range(_OPERATOR_BIT)
_HEAD = struct.Struct("<BHQ32sB")
_EXPIRES_MAX = 1 << 53  # what a double still holds exactly

#: Control characters, separators of lines, and characters that turn the direction of text around: a name is shown in
#: logs, terminals and pages.
_UNPRINTABLE = "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]"


@dataclass(frozen=True, slots=True)
class Identity:
    """The user and the rights that a session has, for as long as it lasts."""

    user: str
    roles: frozenset[int]
    is_operator: bool
    holder: bytes
    """The CURVE public key; empty on the local lane, where the kernel has proven the user."""
    expires: float = 0.0
    """Seconds since 1970; 0.0 is never."""

    def is_expired(self, now: float) -> bool:
        return 0.0 < self.expires <= now


def user_of(identity: Identity | None) -> str:
    """The user's name as monitors are shown it; empty without keys. (MON-25)"""
    return "" if identity is None else identity.user


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a ticket does not admit its holder; the text goes into the Reject."""

    text: str
    code: int = codes.UNAUTHORIZED


class TicketError(ValueError):
    """Bytes that are no ticket, or an identity that cannot be written into one. Its text is a sentence."""


def signed(identity: Identity, ticket_key: bytes) -> bytes:
    """The ticket of this identity, with the MAC by that key."""
    content = _content(identity)
    return content + mac(ticket_key, content)


def read(ticket: bytes) -> Identity:
    """What the ticket says, whether or not it is true. TicketError when it is none."""
    if len(ticket) < _HEAD.size + MAC_BYTES:
        raise TicketError(f"a ticket of {len(ticket)} bytes is too short to be one")
    version, roles, expires, holder, user_size = _HEAD.unpack_from(ticket)
    if version != VERSION:
        raise TicketError(f"the ticket has version {version}; this program knows version {VERSION} only")
    if len(ticket) != _HEAD.size + user_size + MAC_BYTES:
        raise TicketError(f"a ticket of {len(ticket)} bytes does not have the length that it says")
    try:
        user = ticket[_HEAD.size : _HEAD.size + user_size].decode()
    except UnicodeDecodeError:
        raise TicketError("the user's name in the ticket is not UTF-8") from None
    check_user(user)
    if expires > _EXPIRES_MAX:
        raise TicketError("the ticket expires at no time there is")
    return Identity(
        user=user,
        roles=frozenset(role for role in _ROLE_NUMBERS if roles >> role & 1),
        is_operator=bool(roles >> _OPERATOR_BIT & 1),
        holder=holder,
        expires=float(expires),
    )


def split(ticket: bytes) -> tuple[bytes, bytes]:
    """What is signed, and the MAC of it."""
    return ticket[:-MAC_BYTES], ticket[-MAC_BYTES:]


def ticket_id(holder: bytes) -> str:
    """The id of a ticket for people and the audit, of the public key of its holder, which is no secret. A ticket that
    is renewed for the same holder keeps it."""
    return blake2b(holder, digest_size=8, person=b"scaler ticket 1").hexdigest()


def check_user(user: str) -> None:
    """TicketError unless this can be a user's name."""
    size = len(user.encode(errors="replace"))
    if not 1 <= size <= USER_BYTES_MAX:
        raise TicketError(f"a user's name has 1 to {USER_BYTES_MAX} bytes and this one has {size}")
    if re.search(_UNPRINTABLE, user) or user != user.strip() or not _is_unicode(user):
        raise TicketError(f"a user's name has no control characters and no spaces around it, and {user!a} has")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _content(identity: Identity) -> bytes:
    check_user(identity.user)
    if len(identity.holder) != KEY_BYTES:
        raise TicketError(f"the holder of a ticket is a public key of {KEY_BYTES} bytes, not {len(identity.holder)}")
    if not 0 <= identity.expires <= _EXPIRES_MAX:
        raise TicketError(f"a ticket cannot expire {identity.expires!r} seconds after 1970")
    user = identity.user.encode()
    bits = _bits(identity.roles) | identity.is_operator << _OPERATOR_BIT
    # Rounded up: an expiry below one second would otherwise become "never".
    expires = -int(-identity.expires // 1)
    return _HEAD.pack(VERSION, bits, expires, identity.holder, len(user)) + user


def _bits(roles: Iterable[int]) -> int:
    bits = 0
    for role in roles:
        if role not in _ROLE_NUMBERS:
            raise TicketError(f"there is no role {role}")
        bits |= 1 << role
    return bits
