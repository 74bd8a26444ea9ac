"""The tickets of a cluster, for its operator: which were issued, and which of them are revoked. (SEC-20)

Beside the key file are two lists. `issued` is a record for people, which no server reads: the tickets that
`scaler_key derive` has made here, one a line, the oldest first. `revoked` has the ids that servers refuse.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from scaler_protocol.keys.errors import KeyFileError
from scaler_protocol.keys.files import TICKET_LIST, read_file, replace_file
from scaler_protocol.keys.keyring import Keyring
from scaler_protocol.keys.places import ISSUED_NAME, revoked_beside
from scaler_protocol.keys.roles import role_names
from scaler_protocol.keys.show import day, fingerprint
from scaler_protocol.keys.texts import REVOKED_BYTES_MAX, REVOKED_MAX, is_ticket_id
from scaler_protocol.keys.tickets import Identity, TicketError, check_user, ticket_id
from scaler_protocol.keys.watch import revoked_for
from scaler_protocol.records import dataclass

ISSUED_MAX = 10_000
"""A list with more has lost its oldest: first those that have expired."""

_ISSUED_COMMENT = (
    "# Tickets that were made with the key beside this file: id, end, roles, key, user. For scaler_key list."
)
_REVOKED_COMMENT = "# Ids of tickets that servers refuse, one a line. Written by scaler_key revoke."
_LINE = re.compile(r"([0-9a-f]{16})\t([0-9]{1,16})\t([a-z0-9, ]{0,200})\t([0-9a-f]{8})\t([^\t]+)")
_TITLES = ("id", "user", "roles", "expires", "state")


@dataclass(frozen=True, slots=True)
class Issued:
    """One line of the list."""

    id: str
    expires: float
    roles: str
    """As people read them."""
    key: str
    """The fingerprint of the key that has signed the ticket."""
    user: str

    def state(self, keyring: Keyring, revoked: frozenset[str], now: float) -> str:
        if self.id in revoked:
            return "revoked"
        if 0.0 < self.expires <= now:
            return "expired"
        return "valid" if self.key in map(fingerprint, keyring.server_keys) else "key replaced"


def issued_of(identity: Identity, keyring: Keyring) -> Issued:
    """Returns the line of a ticket with this identity, which the newest key has signed."""
    roles = ", ".join(filter(None, (role_names(identity.roles), "operator" if identity.is_operator else "")))
    signer = fingerprint(keyring.server_keys[-1])
    return Issued(ticket_id(identity.holder), identity.expires, roles, signer, identity.user)


def issued_beside(key_path: str) -> str:
    return os.path.join(os.path.dirname(key_path), ISSUED_NAME)


def record(key_path: str, one: Issued, now: float) -> None:
    """Adds a ticket to the list of those that were issued. KeyFileError if the list cannot be read or written."""
    path = issued_beside(key_path)
    with _alone(path):
        found = [*read_issued(path), one]
        if len(found) > ISSUED_MAX:
            found = [other for other in found if not 0.0 < other.expires <= now or other is one]
        replace_file(path, _issued_text(found[-ISSUED_MAX:]).encode())


def read_issued(path: str) -> list[Issued]:
    """Returns the tickets in this list; none if there is no list."""
    try:
        text = read_file(path, TICKET_LIST).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise KeyFileError(f"{path} is not text: move it away") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line and not line.startswith("#")]
    return [_issued(line, number, path) for number, line in lines]


def listed(key_path: str, keyring: Keyring, now: float) -> str:
    """Returns the tickets as a table: first those that were issued here, then the other ones that are revoked."""
    found, revoked = read_issued(issued_beside(key_path)), revoked_for(key_path)
    rows = [(one.id, one.user, one.roles, _end(one), one.state(keyring, revoked, now)) for one in found]
    others = sorted(revoked.difference(one.id for one in found))
    rows += [(other, "-", "-", "-", "revoked; issued elsewhere") for other in others]
    if not rows:
        return f"no ticket of {key_path} was issued here, and none is revoked"
    widths = [max(map(len, column)) for column in zip(_TITLES, *rows, strict=True)]
    lines = [_TITLES, *rows]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def revoke(key_path: str, ids: Sequence[str]) -> str:
    """Adds these ids to those that servers refuse. Returns what became of each, for people."""
    for one in ids:
        if not is_ticket_id(one):
            raise KeyFileError(
                f"{one!a} is no id of a ticket, which is 16 hexadecimal digits in lower case: `scaler_key list` shows "
                f"the ids of issued tickets, and `scaler_key show FILE` the id of one"
            )
    path = revoked_beside(key_path)
    with _alone(path):
        before = revoked_for(key_path)
        added = [one for one in dict.fromkeys(ids) if one not in before]
        if added:
            _write_revoked(path, added, len(before) + len(added))
    known = {one.id: one for one in read_issued(issued_beside(key_path))}
    return "\n".join(_told(one, one in before, known.get(one)) for one in dict.fromkeys(ids))


def _write_revoked(path: str, added: Iterable[str], count: int) -> None:
    """Below what is there: comments of the operator stay."""
    if count > REVOKED_MAX:
        raise KeyFileError(
            f"{path} would have {count} ids, and servers take {REVOKED_MAX}: take out those of tickets that have "
            f"expired, or all after a rotation (scaler_key rotate)"
        )
    try:
        text = read_file(path, TICKET_LIST).decode()
    except FileNotFoundError:
        text = f"{_REVOKED_COMMENT}\n"
    if text and not text.endswith("\n"):
        text += "\n"
    content = (text + "".join(f"{one}\n" for one in added)).encode()
    if len(content) > REVOKED_BYTES_MAX:
        raise KeyFileError(f"{path} would be larger than {REVOKED_BYTES_MAX} bytes: take comments out")
    replace_file(path, content)


def _told(one: str, was_revoked: bool, known: Issued | None) -> str:
    if was_revoked:
        return f"{one} was revoked before"
    if known is None:
        return f"revoked {one}, which is not among the tickets that were issued here: check that the id is right"
    return f"revoked {one}: {known.roles or 'no role'} of {known.user}"


def _end(one: Issued) -> str:
    return day(one.expires) if one.expires else "never"


def _issued(line: str, number: int, path: str) -> Issued:
    found = _LINE.fullmatch(line)
    try:
        if found is None:
            raise TicketError
        named, expires, roles, key, user = found.groups()
        check_user(user)
    except TicketError:
        raise KeyFileError(
            f"line {number} of {path} is no issued ticket: take the line out, or put # in front of it"
        ) from None
    return Issued(named, float(expires), roles, key, user)


def _issued_text(found: Iterable[Issued]) -> str:
    lines = (f"{one.id}\t{-int(-one.expires // 1)}\t{one.roles}\t{one.key}\t{one.user}" for one in found)
    return "".join(f"{line}\n" for line in (_ISSUED_COMMENT, *lines))


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Waits until no other command changes a list of this directory, so that neither loses what the other writes. Where
    there are no such locks, as on Windows and on some shared file systems, goes on at once."""
    held = -1
    if fcntl is not None:
        try:
            held = os.open(os.path.dirname(path), os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
        except OSError:
            pass  # no locks here; a missing directory is told by what follows
    try:
        yield
    finally:
        if held >= 0:
            os.close(held)
