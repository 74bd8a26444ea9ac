"""Key files, ticket files and lists of revoked tickets as texts: what is in them, without the files. (SEC-7, SEC-9,
SEC-20)

A key file has one key a line, the newest first; a ticket file has one ticket; a list has one id a line. Empty lines,
and lines that begin with `#`, are comments. No error quotes what it found: a line that is nearly a key must not get
into a log.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Sequence

from scaler_protocol.keys.derivation import KEY_BYTES, public_key
from scaler_protocol.keys.errors import KeyFileError
from scaler_protocol.keys.tickets import TICKET_BYTES_MAX, TicketError, read

TEXT_BYTES_MAX = 4096
KEYS_MAX = 8
REVOKED_BYTES_MAX = 2 << 20
REVOKED_MAX = 10_000

KEY_PREFIX = "scaler-key-1:"
TICKET_PREFIX = "scaler-ticket-1:"

_KEY = r"[0-9a-f]{64}\Z"
_BASE64 = r"[A-Za-z0-9_-]+\Z"
_TICKET_ID = r"[0-9a-f]{16}\Z"


class _Secret:
    """No tuple and no dataclass: neither its repr nor a format shows what is in it."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(getattr(self, one) == getattr(other, one) for one in self.__slots__)


class KeyText(_Secret):
    """Newest first."""

    __slots__ = ("keys",)

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        self.keys = keys


class TicketText(_Secret):
    __slots__ = ("secret_key", "server_keys", "ticket")

    def __init__(self, server_keys: tuple[bytes, ...], secret_key: bytes, ticket: bytes) -> None:
        #: public keys of the servers, in the order in which they are tried
        self.server_keys = server_keys
        self.secret_key = secret_key
        self.ticket = ticket


def parsed(content: bytes, origin: str) -> KeyText | TicketText:
    """What the text is. KeyFileError, which names `origin`, if it is neither."""
    if len(content) > TEXT_BYTES_MAX:
        raise KeyFileError(f"{origin} is larger than {TEXT_BYTES_MAX} bytes: it is no key file")
    lines = _lines(content, origin, "key file")
    if not lines:
        raise KeyFileError(f"{origin} holds no key: write one with `scaler_key make`")
    if lines[0][1].startswith(TICKET_PREFIX):
        return _parsed_ticket(lines, origin)
    return _parsed_keys(lines, origin)


def revoked_in(content: bytes, origin: str) -> frozenset[str]:
    """Returns the ids of tickets in this list. KeyFileError, which names `origin`, if it is none. (SEC-20)"""
    if len(content) > REVOKED_BYTES_MAX:
        raise KeyFileError(f"{origin} is larger than {REVOKED_BYTES_MAX} bytes: it is no list of tickets")
    lines = _lines(content, origin, "list of tickets")
    if len(lines) > REVOKED_MAX:
        raise KeyFileError(
            f"{origin} has {len(lines)} ids, and more than {REVOKED_MAX} are not taken: take out those of tickets that "
            f"have expired, or all after a rotation (scaler_key rotate)"
        )
    for number, line in lines:
        if not is_ticket_id(line):
            raise KeyFileError(
                f"line {number} of {origin} is no id of a ticket, which is 16 hexadecimal digits in lower case: "
                f"correct the line, or put # in front of it"
            )
    return frozenset(line for _, line in lines)


def is_ticket_id(text: str) -> bool:
    return re.match(_TICKET_ID, text) is not None


def key_text(keys: Sequence[bytes], comment: str = "") -> str:
    return _commented(comment, [KEY_PREFIX + key.hex() for key in keys])


def ticket_text(ticket: TicketText, comment: str = "") -> str:
    content = bytes((len(ticket.server_keys),)) + b"".join(ticket.server_keys) + ticket.secret_key + ticket.ticket
    encoded = base64.urlsafe_b64encode(content).decode().rstrip("=")
    return _commented(comment, [TICKET_PREFIX + encoded])


def _commented(comment: str, lines: Iterable[str]) -> str:
    comments = [f"# {line}" for line in comment.splitlines()]
    return "".join(f"{line}\n" for line in [*comments, *lines])


def _lines(content: bytes, origin: str, kind: str) -> list[tuple[int, str]]:
    """Returns the lines that are no comments, with their numbers."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise KeyFileError(f"{origin} is not text: it is no {kind}") from None
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1)]
    return [(number, line) for number, line in lines if line and not line.startswith("#")]


def _parsed_keys(lines: Sequence[tuple[int, str]], origin: str) -> KeyText:
    if len(lines) > KEYS_MAX:
        raise KeyFileError(f"{origin} has {len(lines)} keys, and more than {KEYS_MAX} are not taken: remove old ones")
    keys = [_parsed_key(line, number, origin) for number, line in lines]
    if len(set(keys)) < len(keys):
        raise KeyFileError(f"{origin} has the same key twice: remove one of the two lines")
    return KeyText(tuple(keys))


def _parsed_key(line: str, number: int, origin: str) -> bytes:
    digits = line.removeprefix(KEY_PREFIX)
    if digits == line or not re.match(_KEY, digits):
        raise KeyFileError(
            f"line {number} of {origin} is no key, which is {KEY_PREFIX} and 64 hexadecimal digits in lower case: "
            f"copy the file again, or write a new one with `scaler_key make`"
        )
    return bytes.fromhex(digits)


def _parsed_ticket(lines: Sequence[tuple[int, str]], origin: str) -> TicketText:
    broken = KeyFileError(f"the ticket in {origin} is damaged: copy the file again, or derive a new ticket")
    if len(lines) > 1:
        raise KeyFileError(f"{origin} has more than one line beside its ticket: a ticket file holds one ticket")
    content = _decoded(lines[0][1].removeprefix(TICKET_PREFIX))
    if not content:
        raise broken
    servers_end = 1 + content[0] * KEY_BYTES
    ticket = content[servers_end + KEY_BYTES :]
    if not 1 <= content[0] <= KEYS_MAX or not 1 <= len(ticket) <= TICKET_BYTES_MAX:
        raise broken
    server_keys = tuple(content[start : start + KEY_BYTES] for start in range(1, servers_end, KEY_BYTES))
    secret_key = content[servers_end : servers_end + KEY_BYTES]
    try:
        said = read(ticket)
    except TicketError as error:
        raise KeyFileError(f"the ticket in {origin} cannot be read: {error}") from None
    if said.holder != public_key(secret_key):
        raise broken
    return TicketText(server_keys, secret_key, ticket)


def _decoded(text: str) -> bytes:
    """Empty when this is not base64url as it is written: without padding, and without bits that mean nothing."""
    if not re.match(_BASE64, text) or len(text) % 4 == 1:
        return b""
    try:
        content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        return b""
    return content if base64.urlsafe_b64encode(content).decode().rstrip("=") == text else b""
