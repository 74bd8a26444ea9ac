"""Secrets that operators put into the environment of a command: tokens, passwords, the text of a key.

A command takes them out of its environment before it does anything else (`take_secrets`), because an environment is
inherited by everything that the command starts: by workers, and by each task in them, whose user is not the operator.
From then on a secret is in this module only. A child process gets the secrets that its parent names, and no other.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Mapping, MutableMapping

KEY_VARIABLE = "SCALER_KEY"
"""The text of the cluster's key, or of a ticket, where no file can be given."""

# A URL is one of them: tokens of webhooks stand in its query. SCALER_KEY_FILE is none: it names a file.
_NAME = r"SCALER_(?:\w+_)?(?:TOKEN|PASSWORD|KEY|SECRET|CREDENTIALS?|URL)"

#: name -> value
_taken: dict[str, str] = {}


def is_secret(name: str) -> bool:
    return re.fullmatch(_NAME, name.upper()) is not None


def take_secrets(environment: MutableMapping[str, str] | None = None) -> None:
    """Out of the environment, and out of the memory where /proc/PID/environ shows what it was at the start."""
    found = os.environ if environment is None else environment
    for name in [name for name in found if is_secret(name)]:
        if environment is None:
            _overwrite(name)
        _taken[name] = found.pop(name)


def settings_environment() -> Mapping[str, str]:
    """What options are read from: the environment, and what was taken out of it. What was set since counts more."""
    return {**_taken, **os.environ}


def secret(name: str) -> str:
    """The value of this variable, or the empty text."""
    return os.environ.get(name) or _taken.get(name, "")


def secrets_for(*names: str) -> dict[str, str]:
    """Of these variables the ones that are set: an addition to the environment of a child process that needs them."""
    return {name: value for name in names if (value := secret(name))}


def all_secrets() -> dict[str, str]:
    """For a child process that is a command like this one, and takes them in its turn."""
    return dict(_taken)


def forget_secrets(except_for: Collection[str] = ()) -> None:
    """Before this process runs code of users."""
    for name in _taken.keys() - set(except_for):
        del _taken[name]


def _overwrite(name: str) -> None:
    """`unsetenv` forgets where the text lies, and leaves it there for /proc/PID/environ to show."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # only here: each program with a client imports this module

    getenv = ctypes.CDLL(None).getenv
    getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
    place = getenv(os.fsencode(name))
    if place:
        ctypes.memset(place, 0, len(ctypes.string_at(place)))
