"""Files that only their owner may read: dumps, recordings and traces have the names and ids of all users' tasks."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

_MODE = 0o600


def open_private(path: str | Path) -> BinaryIO:
    """For writing, from the beginning. A file that is there already becomes private; a pipe or a device stays as it is.
    Raises OSError."""
    file = open(path, "wb", opener=lambda name, flags: os.open(name, flags, _MODE))  # noqa: SIM115 - the caller closes it
    try:
        if os.name == "posix" and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), _MODE)
    except OSError:
        pass  # the file belongs to another user and lets us write, or its file system has no modes
    return cast("BinaryIO", file)
