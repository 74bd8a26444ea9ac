"""Where keys are looked for, when none is named. (SEC-13)

Servers write the key of each port that they listen at into the *runtime directory*, so that the same user's programs
find it without a word; the cluster's key stays in the *configuration directory*. Both belong to the user alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from scaler_protocol.addresses import Address
from scaler_protocol.keys.errors import KeyFileError
from scaler_protocol.keys.files import is_private_directory, make_directory

FILE_VARIABLE = "SCALER_KEY_FILE"
TEXT_VARIABLE = "SCALER_KEY"
KEY_NAME = "cluster.key"
REVOKED_NAME = "revoked"
ISSUED_NAME = "issued"

_FOLDER = "scaler"


def configured_key(environment: Mapping[str, str] = os.environ) -> str:
    """The path of `cluster.key` in the configuration directory, whether or not it is there. Empty for an account that
    has no home directory."""
    directory = _configuration(environment)
    # A relative one depends on where the program was started: "~" itself, for an account that the system does not know.
    return os.path.join(directory, _FOLDER, KEY_NAME) if os.path.isabs(directory) else ""


def revoked_beside(key_path: str) -> str:
    """Returns the path of the list of revoked tickets that belongs to this key file. (SEC-20)"""
    return os.path.join(os.path.dirname(key_path), REVOKED_NAME)


def runtime_name(address: Address) -> str:
    """The name of the file with the key of the server at this address."""
    if address.path:
        path = os.path.abspath(address.path)
        return f"ipc-{blake2b(os.fsencode(path), digest_size=16).hexdigest()}.key"
    return f"tcp-{address.port}.key"


def runtime_directories(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Those that are there and are this user's alone; the first is where servers write.

    More than one is looked at, because a program started by cron or by another login may lack the variable.
    """
    return [path for path in _runtime_candidates(environment) if is_private_directory(path)]


def made_runtime_directory(environment: Mapping[str, str] = os.environ) -> str:
    """The directory for servers to write to, made if need be. Empty when none can be had: another user may have taken
    the name in the temporary directory."""
    for path in _runtime_candidates(environment):
        # A missing XDG_RUNTIME_DIR is not made: the system makes it at the login and would hide ours below it.
        if os.path.isdir(os.path.dirname(path)):
            try:
                make_directory(path)
            except KeyFileError:
                continue
            if is_private_directory(path):
                return path
    return ""


def _configuration(environment: Mapping[str, str]) -> str:
    if sys.platform == "win32":
        return _local_application_data(environment)
    given = environment.get("XDG_CONFIG_HOME", "")
    # A relative one is to be ignored, says the specification of these directories.
    return given if os.path.isabs(given) else os.path.join(_home(environment), ".config")


def _runtime_candidates(environment: Mapping[str, str]) -> Iterator[str]:
    if sys.platform == "win32":
        yield os.path.join(_local_application_data(environment), _FOLDER, "run")
        return
    given = environment.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(given):
        yield os.path.join(given, _FOLDER)
    if hasattr(os, "geteuid"):
        system = f"/run/user/{os.geteuid()}"
        if given != system:
            yield os.path.join(system, _FOLDER)
        yield os.path.join(_temporary_directory(), f"{_FOLDER}-{os.geteuid()}")


def _home(environment: Mapping[str, str]) -> str:
    return environment.get("HOME") or os.path.expanduser("~")


def _local_application_data(environment: Mapping[str, str]) -> str:
    given = environment.get("LOCALAPPDATA", "")
    return given or os.path.join(os.path.expanduser("~"), "AppData", "Local")


def _temporary_directory() -> str:
    """As `tempfile` finds it, which brings compressors and more, and writes a file to try each."""
    named = filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP")))
    for path in map(os.path.abspath, (*named, "/tmp", "/var/tmp", "/usr/tmp")):
        if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):
            return path
    return "/tmp"
