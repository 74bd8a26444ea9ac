"""The key of a running server, in the runtime directory, where this user's programs find it by the port. (SEC-13)"""

from __future__ import annotations

import logging
import os
import re
import socket as network

from scaler_protocol.addresses import Address, AddressError, parse_address
from scaler_protocol.keys.errors import KeyFileError
from scaler_protocol.keys.files import read_file, replace_file
from scaler_protocol.keys.keyring import Keyring
from scaler_protocol.keys.places import made_runtime_directory, runtime_name
from scaler_protocol.keys.texts import key_text

_logger = logging.getLogger("scaler.keys")


_PROCESS = re.compile(rb"^# .*, process ([0-9]{1,10}), while it runs\.$", re.MULTILINE)
_ADDRESS = re.compile(rb"^# The key of the server at ([^ ]+), process ", re.MULTILINE)
_FILES_MAX = 1_000
"""So many files of other servers are looked at when a server begins."""
_ANSWER_SECONDS = 0.2


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


def _remove_left_behind(directory: str) -> None:
    """Removes the keys of servers that were killed: each may have had a port of its own, which no other server takes.
    The process may be out of sight, in a container that shares this directory: what listens at the port is spared."""
    try:
        names = sorted(os.listdir(directory))[:_FILES_MAX]
    except OSError:
        return
    for path in [os.path.join(directory, name) for name in names if name.endswith(".key")]:
        if not is_left_behind(path):
            continue
        try:
            named = _ADDRESS.search(read_file(path))
            if named is None or _is_in_use(parse_address(named[1].decode())):
                continue
            if is_left_behind(path):  # no server has begun there meanwhile
                os.unlink(path)
        except (KeyFileError, AddressError, UnicodeDecodeError, OSError):
            pass  # another server was faster, or it is no file of a server


def _is_in_use(address: Address) -> bool:
    """A process listens there, and may be the one that the file is of."""
    place: str | tuple[str, int] = ("127.0.0.1", address.port)
    if address.path:
        place = "\0" + address.path[1:] if address.path.startswith("@") else address.path
    family = network.AF_UNIX if address.path else network.AF_INET
    with network.socket(family) as connection:
        connection.settimeout(_ANSWER_SECONDS)
        try:
            connection.connect(place)
        except (OSError, OverflowError):
            return False
    return True


class RuntimeFile:
    """Written when a server listens at this address, with its port; removed when the server ends. A stale one, of a
    server that was killed, is overwritten by the next server at that port, or removed by the next one at any port."""

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
        if self._place is None:
            _remove_left_behind(directory)
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
