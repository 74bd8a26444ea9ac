"""What `scaler_key` does. Secrets go to files, and to standard output where that is asked for; no message holds one."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Sequence

from scaler_protocol.addresses import parse_addresses
from scaler_protocol.keys import issued, lookup
from scaler_protocol.keys.derivation import check_curve, new_secret
from scaler_protocol.keys.errors import KeyFileError, NoKeyFound
from scaler_protocol.keys.files import PRIVATE_FILE, make_directory, make_file, replace_file
from scaler_protocol.keys.keyring import Keyring, Pass, pass_of
from scaler_protocol.keys.places import FILE_VARIABLE, configured_key, revoked_beside
from scaler_protocol.keys.roles import role_names
from scaler_protocol.keys.show import day, described, fingerprint
from scaler_protocol.keys.texts import KEYS_MAX, KeyText, TicketText, key_text, ticket_text
from scaler_protocol.keys.tickets import Identity, TicketError, read, ticket_id
from scaler_protocol.process import UsageError
from scaler_protocol.process.failures import EXIT_FAILURE


def make(path: str) -> int:
    check_curve()
    if not path:
        raise KeyFileError("this account has no home directory for a key: name the file to make")
    key = new_secret()
    if path == "-":
        return _write_out(key_text([key], lookup.MADE_COMMENT))
    path = os.path.abspath(os.path.expanduser(path))
    if path == configured_key():
        make_directory(os.path.dirname(path))
    if not make_file(path, key_text([key], lookup.MADE_COMMENT).encode()):
        raise KeyFileError(
            f"{path} is there already: use it, move it away, or change its key with `scaler_key rotate {path}`"
        )
    print(f"made {path}: the key of cluster {fingerprint(Keyring([key]).curve_public)}")
    return 0


def show(path: str | None) -> int:
    found, origin = _found(path)
    print(f"{origin}\n{described(found, time.time())}")
    return 0


def derive(
    path: str | None, *, user: str, roles: frozenset[int], is_operator: bool, expires: float, output: str | None
) -> int:
    keyring, origin = _keyring(path)
    try:
        ticket = keyring.derive(user, roles, is_operator=is_operator, expires=expires)
    except TicketError as error:
        raise UsageError(f"--user: {error}") from None
    until = f"until {day(expires)}" if expires else "until its key is taken out"
    identity = read(ticket.ticket)
    named = ticket_id(identity.holder)
    about = f"{role_names(roles)} of {user}{', operator' if is_operator else ''}, {until}, id {named}"
    text = ticket_text(ticket, f"A ticket for a Scaler cluster: {about}. Keep it secret.")
    if output is None or output == "-":
        _write_out(text)
        _record(origin, issued.issued_of(identity, keyring))
        return 0
    output = os.path.abspath(os.path.expanduser(output))
    if not make_file(output, text.encode()):
        raise KeyFileError(f"{output} is there already: name another file, or remove that one")
    print(f"made {output} with {origin}: {about}")
    _record(origin, issued.issued_of(identity, keyring))
    return 0


def list_tickets(path: str | None) -> int:
    keyring, origin = _keyring(path)
    print(issued.listed(_path_of_lists(origin), keyring, time.time()))
    return 0


def revoke(path: str | None, ids: Sequence[str]) -> int:
    _, origin = _keyring(path)
    lists = _path_of_lists(origin)
    print(issued.revoke(lists, ids))
    print(
        f"servers that use {lists} refuse tickets that are revoked, and end their sessions, within two heartbeats; "
        f"copy {revoked_beside(lists)} to servers on other machines"
    )
    return 0


def rotate(path: str | None) -> int:
    keyring, origin = _keyring(path)
    if len(keyring.keys) >= KEYS_MAX:
        raise KeyFileError(f"{origin} has {KEYS_MAX} keys already: `scaler_key rotate --finish` takes the old ones out")
    keys = (new_secret(), *keyring.keys)
    replace_file(_own_path(origin), key_text(keys, lookup.MADE_COMMENT).encode())
    print(
        f"{origin} has a new key in front; servers accept both from their next heartbeat on.\n"
        f"Copy the file to all that have the key, servers first, and derive new tickets.\n"
        f"Then take the old key out: scaler_key rotate --finish {origin}"
    )
    return 0


def finish(path: str | None) -> int:
    keyring, origin = _keyring(path)
    if len(keyring.keys) == 1:
        print(f"{origin} has one key only: there is nothing to take out")
        return 0
    replace_file(_own_path(origin), key_text(keyring.keys[:1], lookup.MADE_COMMENT).encode())
    count = len(keyring.keys) - 1
    print(
        f"took {count} old key{'s' if count > 1 else ''} out of {origin}; at their next heartbeat servers end sessions "
        f"that were opened with {'them' if count > 1 else 'it'}"
    )
    return 0


def check(path: str | None, address: str | None) -> int:
    """0 if a program could use it now."""
    if address is not None:
        if path is not None:
            raise UsageError("name a file or an --address, and not both")
        return _check_address(address)
    found, origin = _found(path)
    return _told(origin, pass_of(found, origin) if isinstance(found, TicketText) else None)


def _check_address(address: str) -> int:
    try:
        parse_addresses(address)
    except ValueError as error:
        raise UsageError(str(error)) from None
    shown = lookup.searched_pass(address)
    return _told(shown.origin, shown)


def _told(origin: str, shown: Pass | None) -> int:
    check_curve()
    if shown is None:
        print(f"{origin} can be used")
        return 0
    identity: Identity = read(shown.ticket)
    if identity.is_expired(time.time()):
        print(f"{origin} cannot be used: its ticket expired on {day(identity.expires)}", file=sys.stderr)
        return EXIT_FAILURE
    until = f", until {day(identity.expires)}" if identity.expires else ""
    print(f"{origin} can be used: as {role_names(identity.roles)} of {identity.user}{until}")
    return 0


def _found(path: str | None) -> tuple[KeyText | TicketText, str]:
    found = lookup.named_or_configured(path)
    if found is None:
        at = configured_key() and f" at {configured_key()}"
        raise NoKeyFound(
            f"there is no key yet{at}: `scaler_key make` makes one, and so does the first scheduler "
            f"that is started; or name a file, here or by {FILE_VARIABLE}"
        )
    return found


def _keyring(path: str | None) -> tuple[Keyring, str]:
    found, origin = _found(path)
    if isinstance(found, TicketText):
        raise KeyFileError(f"{origin} holds a ticket: this needs the cluster's key")
    return Keyring(found.keys, origin), origin


def _own_path(origin: str) -> str:
    if not os.path.isabs(origin):
        raise KeyFileError(f"the key of {origin} is in no file: make the new key where that is set")
    return origin


def _path_of_lists(origin: str) -> str:
    if not os.path.isabs(origin):
        raise KeyFileError(f"the key of {origin} is in no file, beside which lists of tickets could be: name its file")
    return origin


def _record(origin: str, one: issued.Issued) -> None:
    """The ticket is made by now: where there can be no list, its id is all that the operator has."""
    try:
        issued.record(_path_of_lists(origin), one, time.time())
    except KeyFileError as error:
        print(f"ticket {one.id} is not in the list of issued tickets: {error}", file=sys.stderr)


def _write_out(text: str) -> int:
    """To standard output, which is made private if it is a file: `> worker.key` makes one that others may read, and
    then no program would."""
    sys.stdout.flush()
    try:
        descriptor = sys.stdout.fileno()
        if hasattr(os, "fchmod") and stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, PRIVATE_FILE)
    except (OSError, ValueError):
        pass  # it is no file, or not ours to change; what reads it will tell
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0
