"""Noticing that the key file has changed: servers look at each heartbeat. (SEC-12)"""

from __future__ import annotations

import logging
import os

from scaler_protocol.keys.errors import KeyFileError
from scaler_protocol.keys.files import read_file
from scaler_protocol.keys.keyring import Keyring
from scaler_protocol.keys.texts import KeyText, parsed

_logger = logging.getLogger("scaler.keys")


class KeyWatch:
    """Keys that came by a variable or a descriptor have no file and never change."""

    def __init__(self, keyring: Keyring) -> None:
        self.keyring = keyring
        self._path = keyring.origin if os.path.isabs(keyring.origin) else ""
        # Of the file that was read before: it is read once more, which costs nothing and misses nothing.
        self._seen: tuple[int, ...] | None = None

    def look(self) -> Keyring | None:
        """The new keyring if the keys have changed, else None. A file that is gone or cannot be used changes nothing,
        because an editor may be about to write it: a server must not lose its peers by that."""
        if not self._path:
            return None
        try:
            found = os.lstat(self._path)
            seen = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            if seen == self._seen:
                return None
            self._seen = seen
            content = parsed(read_file(self._path), self._path)
            if not isinstance(content, KeyText):
                raise KeyFileError(f"{self._path} holds a ticket now, and a server needs the cluster's key")
        except (KeyFileError, OSError) as error:
            if self._seen != ():
                _logger.warning("the keys of before stay in use: %s", error)
            if isinstance(error, OSError):
                self._seen = ()
            return None
        if content.keys == self.keyring.keys:
            return None
        self.keyring = Keyring(content.keys, self._path)
        return self.keyring
