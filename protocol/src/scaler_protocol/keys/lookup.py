"""Finding the key: the first place that has one counts, and what is wrong there is an error, never a fallback. (SEC-13)

1. an argument: `--key-file`, `Client(key_file=...)`
2. the variable SCALER_KEY_FILE, a path
3. the variable SCALER_KEY, the text of a key file or ticket file
4. dialers on this host: the file that the server of that port wrote into the runtime directory
5. `cluster.key` in the configuration directory; a server makes it if need be
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import replace

from scaler_protocol.addresses import parse_addresses
from scaler_protocol.keys.derivation import check_curve, new_secret
from scaler_protocol.keys.errors import KeyFileError, NoKeyFound
from scaler_protocol.keys.files import make_directory, make_file, read_file
from scaler_protocol.keys.handed import forget_handed, is_handed, read_handed
from scaler_protocol.keys.keyring import Keyring, Pass, pass_of
from scaler_protocol.keys.places import (
    FILE_VARIABLE,
    KEY_NAME,
    TEXT_VARIABLE,
    configured_key,
    runtime_directories,
    runtime_name,
)
from scaler_protocol.keys.running import is_left_behind
from scaler_protocol.keys.texts import KeyText, TicketText, key_text, parsed
from scaler_protocol.keys.watch import revoked_for
from scaler_protocol.secrets import settings_environment

_FINISH_SECONDS = 1.0
"""How long a server that makes the key may take to finish the file, where the system has no hard links."""

_Found = KeyText | TicketText


def find_pass(
    address: str,
    key_file: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    *,
    environment: Mapping[str, str] | None = None,
    is_for_worker: bool = False,
) -> Pass | None:
    """Returns what a dialer shows at this address, or at all of a list; None for an insecure cluster. Otherwise
    KeyFileError, with what to do. `is_for_worker`: a process that runs tasks, which read all that it holds. Of a key it
    takes a ticket for a worker, here and after each rotation."""
    _check_arguments(key_file, insecure)
    if insecure:
        return None
    environment = settings_environment() if environment is None else environment
    return searched_pass(address, key_file, environment=environment, is_for_worker=is_for_worker)


def searched_pass(
    address: str,
    key_file: str | os.PathLike[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    holder: bytes = b"",
    is_for_worker: bool = False,
) -> Pass:
    """What a dialer shows at this address, wherever it is found. NoKeyFound if it is nowhere. `holder` is the secret
    key of the CURVE pair to use with a cluster's key; without it a new pair is made."""
    shown = _as_pass(*searched(address, key_file, environment=environment), holder, is_for_worker)
    return shown if is_named(key_file, environment=environment) else replace(shown, searched_for=address)


def searched(
    address: str,
    key_file: str | os.PathLike[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> tuple[KeyText | TicketText, str]:
    """What is found for this address, and where. NoKeyFound if it is nowhere."""
    environment = settings_environment() if environment is None else environment
    found = (
        _of_own_server(address, key_file)
        or _named(key_file, environment)
        or _of_running_server(address, environment)
        or _in_file(configured_key(environment))
        or _of_running_server(address, environment, is_stale=True)
    )
    if found is None:
        copied = configured_key(environment) or f"its {KEY_NAME}"
        raise NoKeyFound(
            f"no key for {address} was found: copy {copied} from the machine of its scheduler, "
            f"name another file (--key-file, key_file=, {FILE_VARIABLE}), or give --insecure (insecure=True) if the "
            f"cluster was started so"
        )
    return found


def is_named(key_file: str | os.PathLike[str] | None = None, *, environment: Mapping[str, str] | None = None) -> bool:
    """Whether an argument or a variable says which key it is."""
    environment = settings_environment() if environment is None else environment
    return key_file is not None or any(environment.get(name) for name in (FILE_VARIABLE, TEXT_VARIABLE))


def named_or_configured(
    key_file: str | os.PathLike[str] | None = None, *, environment: Mapping[str, str] | None = None
) -> tuple[KeyText | TicketText, str] | None:
    """What a server would use, or None if it would make a new key."""
    environment = settings_environment() if environment is None else environment
    return _named(key_file, environment) or _in_file(configured_key(environment))


def find_keyring(
    key_file: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    *,
    environment: Mapping[str, str] | None = None,
) -> Keyring | None:
    """What a server holds; None for an insecure one. Makes `cluster.key` in the configuration directory if nothing
    else is there."""
    _check_arguments(key_file, insecure)
    if insecure:
        return None
    environment = settings_environment() if environment is None else environment
    content, origin = _named(key_file, environment) or _configured_or_made(configured_key(environment))
    return _as_keyring(content, origin)


def renewed(shown: Pass) -> Pass:
    """This pass as its file says now: after a rotation it names other servers' keys and has another ticket. The holder
    stays the same where the file holds a key, so that sessions can go on. The same pass if nothing is to be had."""
    try:
        if shown.searched_for:
            # By now the server may run, and have written its file.
            return searched_pass(shown.searched_for, holder=shown.secret_key, is_for_worker=shown.is_for_worker)
        if os.path.isabs(shown.origin):
            return _as_pass(*read_named(shown.origin), shown.secret_key, shown.is_for_worker)
    except KeyFileError:
        pass
    return shown


def read_named(name: str | os.PathLike[str]) -> tuple[_Found, str]:
    """What a named file or inherited descriptor holds, and how to call it."""
    path = os.fspath(name)
    if is_handed(path):
        return parsed(read_handed(path), f"descriptor {path}"), path
    path = os.path.abspath(os.path.expanduser(path))
    try:
        return parsed(read_file(path), path), path
    except FileNotFoundError:
        raise KeyFileError(f"there is no key file {path}: check its name, or copy it there") from None


def own(address: str, keyring: Keyring | None) -> None:
    """This program has started the server at this address itself, with this key; or has ended it: None. What it dials
    there needs no name of a file, and variables that name another cluster's key do not count."""
    if keyring is None:
        _own.pop(address, None)
    else:
        _own[address] = keyring


_own: dict[str, Keyring] = {}


def _of_own_server(address: str, key_file: str | os.PathLike[str] | None) -> tuple[_Found, str] | None:
    if key_file is not None or not _own:
        return None
    places = (address, *map(str, parse_addresses(address)))
    keyring = next((_own[place] for place in places if place in _own), None)
    return None if keyring is None else (KeyText(keyring.keys), "this program, which has started that server")


def _check_arguments(key_file: object, insecure: bool) -> None:
    if insecure and key_file is not None:
        raise KeyFileError("a key file and --insecure exclude each other: leave one of them out")
    if not insecure:
        check_curve()


def _named(key_file: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> tuple[_Found, str] | None:
    if key_file is not None and not os.fspath(key_file):
        raise KeyFileError("the name of the key file is empty: name one, or leave the option out")
    if key_file is not None:
        return read_named(key_file)
    if environment.get(FILE_VARIABLE):
        return read_named(environment[FILE_VARIABLE])
    if environment.get(TEXT_VARIABLE):
        origin = f"the variable {TEXT_VARIABLE}"
        return parsed(environment[TEXT_VARIABLE].encode(errors="replace"), origin), origin
    return None


def _of_running_server(
    address: str, environment: Mapping[str, str], *, is_stale: bool = False
) -> tuple[_Found, str] | None:
    """`is_stale`: what a server has left that was killed. It is the last resort: a process of another container is not
    seen here."""
    local = [runtime_name(place) for place in parse_addresses(address) if place.is_loopback]
    if not local:
        return None
    paths = [os.path.join(directory, name) for name in local for directory in runtime_directories(environment)]
    return next(filter(None, [_in_file(path) for path in paths if is_left_behind(path) is is_stale]), None)


def _in_file(path: str) -> tuple[_Found, str] | None:
    try:
        return parsed(_finished(path), path), path
    except FileNotFoundError:
        return None


def _configured_or_made(path: str) -> tuple[_Found, str]:
    found = _in_file(path)
    if found is not None:
        return found
    content = key_text([new_secret()], MADE_COMMENT).encode()
    if not _made(path, content):  # another server was faster
        content = _finished(path)
    return parsed(content, path), path


def _made(path: str, content: bytes) -> bool:
    """Whether this call made the file. KeyFileError, with what to do, where it cannot be made."""
    what_to_do = (
        f"name a key file that this account can read (--key-file, {FILE_VARIABLE}); `scaler_key make` makes one"
    )
    if not path:
        raise KeyFileError(f"this account has no home directory for a key: {what_to_do}")
    try:
        make_directory(os.path.dirname(path))
        is_made = make_file(path, content)
    except KeyFileError as error:
        raise KeyFileError(f"{error}. A server needs a key: {what_to_do}") from None
    if is_made:
        logging.info("made a key for the clusters of this account in %s: other accounts and hosts need a copy", path)
    return is_made


def _finished(path: str) -> bytes:
    """The content of the file. Where the system has no hard links, a file that is just being made is empty first."""
    end_at = time.monotonic() + _FINISH_SECONDS
    while not (content := read_file(path)) and time.monotonic() < end_at:
        time.sleep(0.01)
    return content


MADE_COMMENT = "The key of a Scaler cluster. A program that has it can do everything there: keep it secret."


def _as_pass(found: _Found, origin: str, holder: bytes, is_for_worker: bool) -> Pass:
    if isinstance(found, TicketText):
        return pass_of(found, origin, is_for_worker=is_for_worker)
    keyring = Keyring(found.keys, origin)
    if not is_for_worker:
        return keyring.own_pass(holder)
    forget_handed(origin)
    return pass_of(keyring.worker_ticket(holder), origin, is_of_key=True, is_for_worker=True)


def _as_keyring(found: _Found, origin: str) -> Keyring:
    if isinstance(found, TicketText):
        raise KeyFileError(f"{origin} holds a ticket, which is for dialers: a server needs the cluster's key")
    return Keyring(found.keys, origin, revoked_for(origin))
