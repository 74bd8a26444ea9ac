"""Memory files, as chapter 12 wants them: for the feature `memfd`. Linux only."""

from __future__ import annotations

import os
import secrets
import sys
from typing import Any

if sys.platform == "linux":
    import fcntl

_ADD_SEALS, _GET_SEALS = 1033, 1034
#: Further seals, shrinking, growing, writing.
EACH_SEAL = (0x1, 0x2, 0x4, 0x8)
ALL_SEALS = sum(EACH_SEAL)


def is_possible() -> bool:
    return sys.platform == "linux"


class MemoryFile:
    def __init__(self, value: bytes = b"", *, seals: int = ALL_SEALS) -> None:
        self.name = secrets.token_bytes(16)
        self.descriptor = os.memfd_create(f"scaler-{self.name.hex()}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(self.descriptor, value)
        if seals:
            fcntl.fcntl(self.descriptor, _ADD_SEALS, seals)

    def told(self, **changes: Any) -> dict[str, Any]:
        """As it stands in a message."""
        return {"processId": os.getpid(), "descriptor": self.descriptor, "name": self.name, **changes}

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def read(told: dict[str, Any], size: int) -> tuple[bytes, str]:
    """The bytes of somebody else's file, and what is wrong with it (STO-19), or nothing."""
    path = f"/proc/{told['processId']}/fd/{told['descriptor']}"
    try:
        expected = f"/memfd:scaler-{told['name'].hex()}"
        if not os.readlink(path).startswith(expected):
            return b"", f"{path} is {os.readlink(path)}, not {expected}"
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        return b"", f"{path} cannot be opened: {error.strerror}"
    try:
        seals = fcntl.fcntl(descriptor, _GET_SEALS)
        if seals & ALL_SEALS != ALL_SEALS:
            return b"", f"the seals of {path} are {seals:#x}, without all four"
        found = os.pread(descriptor, size + 1, 0)
        return found, "" if len(found) == size else f"{path} has not {size} bytes"
    finally:
        os.close(descriptor)
