"""Noticing that the key file, or the list of revoked tickets beside it, has changed: servers look at each heartbeat.
(SEC-12, SEC-20)"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Generic, TypeVar

from scaler_protocol.keys.errors import KeyFileError
from scaler_protocol.keys.files import TICKET_LIST, read_file
from scaler_protocol.keys.keyring import Keyring
from scaler_protocol.keys.places import revoked_beside
from scaler_protocol.keys.texts import KeyText, parsed, revoked_in

_Held = TypeVar("_Held", bound="tuple[bytes, ...] | frozenset[str]")

_logger = logging.getLogger("scaler.keys")


class KeyWatch:
    """Keys that came by a variable or a descriptor have no file and never change; no ticket by them is revoked."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring
        path = keyring.origin
        self._has_file = os.path.isabs(path)
        self._keys = _Watched(path, _read_keys, keyring.keys, "the keys of before stay in use")
        self._revoked = _Watched(
            revoked_beside(path), _read_revoked, keyring.revoked, "the tickets that were revoked before stay revoked"
        )

    def look(self) -> Keyring | None:
        """The new keyring if the keys, or the tickets that are revoked, have changed, else None."""
        if not self._has_file:
            return None
        keys, revoked = self._keys.look(), self._revoked.look()
        if (keys, revoked) == (self.keyring.keys, self.keyring.revoked):
            return None
        self.keyring = Keyring(keys, self.keyring.origin, revoked)
        return self.keyring


class _Watched(Generic[_Held]):
    """A file, and what it held when it could last be used. A file that is gone or cannot be used changes nothing,
    because an editor may be about to write it: a server must not lose its peers by that, nor let others in."""

    def __init__(self, path: str, read: Callable[[str], _Held], held: _Held, consequence: str) -> None:
        self._path = path
        self._read = read
        self._held = held
        self._consequence = consequence
        # Of the file that was read before: it is read once more, which costs nothing and misses nothing.
        self._seen: tuple[int, ...] | None = None

    def look(self) -> _Held:
        try:
            found = os.lstat(self._path)
            seen = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            if seen != self._seen:
                self._seen = seen
                self._held = self._read(self._path)
        except (KeyFileError, OSError) as error:
            is_none_yet = isinstance(error, FileNotFoundError) and not self._held
            if self._seen != () and not is_none_yet:
                _logger.warning("%s: %s", self._consequence, error)
            if isinstance(error, OSError):
                self._seen = ()
        return self._held


def revoked_for(key_path: str) -> frozenset[str]:
    """Returns the ids of the tickets that are revoked beside this key file; none without a list, or where the key is
    in no file. KeyFileError if the list cannot be used."""
    try:
        return _read_revoked(revoked_beside(key_path)) if os.path.isabs(key_path) else frozenset()
    except FileNotFoundError:
        return frozenset()


def _read_revoked(path: str) -> frozenset[str]:
    return revoked_in(read_file(path, TICKET_LIST), path)


def _read_keys(path: str) -> tuple[bytes, ...]:
    content = parsed(read_file(path), path)
    if not isinstance(content, KeyText):
        raise KeyFileError(f"{path} holds a ticket now, and a server needs the cluster's key")
    return content.keys
