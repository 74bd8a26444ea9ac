"""What a program or command was told about keys, and what it tells those that it starts."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scaler_protocol.addresses import parse_addresses
from scaler_protocol.codes import ROLE_WORKER
from scaler_protocol.keys import lookup
from scaler_protocol.keys.errors import KeyFileError, NoKeyFound, NoServerFound
from scaler_protocol.keys.files import make_file, read_file, replace_file
from scaler_protocol.keys.handed import PREFIX, hand
from scaler_protocol.keys.keyring import Keyring, Pass
from scaler_protocol.keys.roles import role_names
from scaler_protocol.keys.texts import KeyText, TicketText, key_text, parsed, ticket_text
from scaler_protocol.keys.tickets import read
from scaler_protocol.process.ports import answers
from scaler_protocol.records import dataclass

_WORKER = frozenset({ROLE_WORKER})
_INSECURE = "--insecure"
_LOOK_SECONDS = 0.1
_FILE_SECONDS = 1.0
SILENT_SECONDS, SILENT_AGAIN_SECONDS = 8.0, 60.0
"""While a key is waited for, the log warns after the first of these, and then after each second one."""

_logger = logging.getLogger("scaler.keys")


@dataclass(frozen=True, slots=True)
class KeyOptions:
    key_file: str | None = None
    """A path, or `fd:7` for an inherited descriptor. None: the key is searched for."""
    insecure: bool = False

    def find_keyring(self) -> Keyring | None:
        return lookup.find_keyring(self.key_file, self.insecure)

    def find_worker_pass(
        self, address: str, wait_seconds: float = 0.0, must_stop: Callable[[], bool] = lambda: False
    ) -> Pass | None:
        """Returns it for a process that runs tasks. They are code of users, and can read what it holds: a ticket for a
        worker, also where there is a key. Of the other rights that a key file or ticket file gives, the log warns.
        (SEC-15)"""
        shown = self.find_pass(address, wait_seconds, must_stop, is_for_worker=True)
        if shown is not None:
            self._warn_of_rights(shown)
        return shown

    def _warn_of_rights(self, shown: Pass) -> None:
        said = read(shown.ticket)
        further = role_names(said.roles - _WORKER)
        what_to_do = "give them a ticket of their own (scaler_key derive --role worker)"
        if further or said.is_operator:
            rights = f"{further}{', ' if further and said.is_operator else ''}{'operator' if said.is_operator else ''}"
            _logger.warning("tasks of these workers can use all rights of %s: %s; %s", shown.origin, rights, what_to_do)
        elif shown.is_of_key and lookup.is_named(self.key_file):
            _logger.warning("%s holds the cluster's key, and tasks may read it too; %s", shown.origin, what_to_do)

    def find_pass(
        self,
        address: str,
        wait_seconds: float = 0.0,
        must_stop: Callable[[], bool] = lambda: False,
        *,
        is_for_worker: bool = False,
    ) -> Pass | None:
        """For a server on this machine that does not run yet, its key is waited for: the server may make it."""
        begun_at = time.monotonic()
        end_at, warn_at = begun_at + wait_seconds, begun_at + SILENT_SECONDS
        is_told = False
        while True:
            try:
                return lookup.find_pass(address, self.key_file, self.insecure, is_for_worker=is_for_worker)
            except NoKeyFound as error:
                now = time.monotonic()
                local = [str(place) for place in parse_addresses(address) if place.is_loopback]
                if not local:
                    raise
                is_there = any(map(answers, local))
                if now >= end_at or must_stop():
                    if is_there:
                        raise
                    text = f"nothing answers at {address}: check that its server runs, and that this is its address"
                    raise NoServerFound(f"{text} (no key for it was found either)") from None
                if is_there:  # without a key, or of another user; or it writes its file just now
                    end_at = min(end_at, now + _FILE_SECONDS)
                if not is_told:
                    _logger.info("waiting for a key: %s", error)
                    is_told = True
                if now >= warn_at:
                    _logger.warning("nothing answers at %s yet, and no key for it was found", address)
                    warn_at = now + SILENT_AGAIN_SECONDS
                time.sleep(_LOOK_SECONDS)

    @contextmanager
    def for_worker(self, address: str) -> Iterator[tuple[list[str], list[int]]]:
        """While the block runs: arguments for a command of workers, and descriptors that it has to inherit. (SEC-15)

        Never the key: workers run the code of users. From a key a ticket for a worker is made, of this account."""
        if self.insecure:
            yield [_INSECURE], []
            return
        with handed(worker_text(self, address)) as given:
            yield given

    def for_remote_workers(self, address: str, path: str) -> list[str]:
        """The same for workers of other machines, which share the directory of this path: there is a file then."""
        if self.insecure:
            return [_INSECURE]
        return [f"--key-file={worker_file(self, address, path)}"]

    @contextmanager
    def for_server(self, keyring: Keyring | None) -> Iterator[tuple[list[str], list[int]]]:
        """The same for another server of this cluster, which gets the key: the path of its file, where it is in one, so
        that both see a rotation."""
        if keyring is None:
            yield [_INSECURE], []
        elif os.path.isabs(keyring.origin):
            yield [f"--key-file={keyring.origin}"], []
        else:
            with handed(key_text(keyring.keys)) as given:
                yield given


@contextmanager
def handed(text: str) -> Iterator[tuple[list[str], list[int]]]:
    """For one child, which is started in the block."""
    descriptor = hand(text.encode())
    try:
        yield [f"--key-file={PREFIX}{descriptor}"], [descriptor]
    finally:
        os.close(descriptor)


def worker_text(options: KeyOptions, address: str) -> str:
    """The text of a ticket file for workers. KeyFileError if there is but a ticket that is not for workers."""
    found, origin = lookup.searched(address, options.key_file)
    if isinstance(found, KeyText):
        return ticket_text(Keyring(found.keys).worker_ticket())
    assert isinstance(found, TicketText)
    if ROLE_WORKER not in read(found.ticket).roles:
        raise KeyFileError(
            f"{origin} holds a ticket that is not for workers, and so they cannot be started with it: derive one with "
            f"--role manager --role worker"
        )
    return ticket_text(found)


def worker_file(options: KeyOptions, address: str, path: str) -> str:
    """The same in a file; its absolute path. A file that is there and still fits stays as it is."""
    text = worker_text(options, address)
    wanted = parsed(text.encode(), "a ticket")
    assert isinstance(wanted, TicketText)
    path = os.path.abspath(path)
    if not make_file(path, text.encode()) and not _is_still_good(path, wanted):
        replace_file(path, text.encode())
    return path


def _is_still_good(path: str, wanted: TicketText) -> bool:
    try:
        found = parsed(read_file(path), path)
    except FileNotFoundError:
        return False
    if not isinstance(found, TicketText) or found.server_keys != wanted.server_keys:
        return False
    one, other = read(found.ticket), read(wanted.ticket)
    return (one.user, one.roles, one.expires) == (other.user, other.roles, other.expires)
