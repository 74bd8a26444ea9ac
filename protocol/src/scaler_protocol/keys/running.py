"""The key of a running server, in the runtime directory, where this user's programs find it by the port. (SEC-13)"""

from __future__ import annotations

import logging
import os
import re

from scaler_protocol.addresses import parse_address
from scaler_protocol.keys.errors import KeyFileError
from scaler_protocol.keys.files import read_file, replace_file
from scaler_protocol.keys.keyring import Keyring
from scaler_protocol.keys.places import made_runtime_directory, runtime_name
from scaler_protocol.keys.texts import key_text

_logger = logging.getLogger("scaler.keys")


_PROCESS = re.compile(rb"^# .*, process ([0-9]{1,10}), while it runs\.$", re.MULTILINE)


def is_left_behind(path: str) -> bool:
    """The process that wrote this file has gone without removing it. False where that cannot be told."""
    if os.name != "posix":
        return False  # to ask for a process would end it
    try:
        named = _PROCESS.search(read_file(path))
        if named is not None:
            os.kill(int(named[1]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except (KeyFileError, OSError):
        pass  # it is another user's by now, or is told of when the file is read
    return False


class RuntimeFile:
    """Written when a server listens at this address, with its port; removed when the server ends. A stale one, of a
    server that was killed, is overwritten by the next server at that port."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._place: tuple[int, int] | None = None  #: device and inode of what we wrote
        self.path = ""

    def write(self, keyring: Keyring) -> None:
        """The first time and after each change of the keyring. Without a directory there is no file: then programs are
        given the key in another way, and the log says so."""
        directory = made_runtime_directory()
        if not directory:
            _logger.warning("no directory of this user alone for the key of %s: name the key file", self._address)
            return
        path = os.path.join(directory, runtime_name(parse_address(self._address)))
        comment = f"The key of the server at {self._address}, process {os.getpid()}, while it runs."
        try:
            replace_file(path, key_text(keyring.keys, comment).encode())
            found = os.lstat(path)
        except (KeyFileError, OSError) as error:
            _logger.warning("programs of this user will not find the key of %s: %s", self._address, error)
            return
        self.path, self._place = path, (found.st_dev, found.st_ino)

    def remove(self) -> None:
        """If it is still ours: another server may listen at that port by now."""
        place, self._place = self._place, None
        if place is None:
            return
        try:
            found = os.lstat(self.path)
            if (found.st_dev, found.st_ino) == place:
                os.unlink(self.path)
        except OSError:
            pass  # gone already
