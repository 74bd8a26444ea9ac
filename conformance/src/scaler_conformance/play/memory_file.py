"""Memory files, as chapter 12 wants them: for the feature `memfd`. Linux only."""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import sys
from typing import Any

if sys.platform == "linux":
    import fcntl

_ADD_SEALS, _GET_SEALS = 1033, 1034
#: Further seals, shrinking, growing, writing.
EACH_SEAL = (0x1, 0x2, 0x4, 0x8)
ALL_SEALS = sum(EACH_SEAL)
TABLE_SEALS = sum(EACH_SEAL[:3])

BUCKET_BYTES = 256
_ENTRY = struct.Struct("<16sQII")


def is_possible() -> bool:
    return sys.platform == "linux"


class MemoryFile:
    def __init__(self, value: bytes = b"", *, seals: int = ALL_SEALS, name: bytes = b"", hole_bytes: int = 0) -> None:
        """`hole_bytes`: so many more that were never written to."""
        self.name = name or secrets.token_bytes(16)
        self.size = len(value) + hole_bytes
        self.descriptor = os.memfd_create(f"scaler-{self.name.hex()}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(self.descriptor, value)
        if hole_bytes:
            os.ftruncate(self.descriptor, self.size)
        if seals:
            fcntl.fcntl(self.descriptor, _ADD_SEALS, seals)

    def told(self, **changes: Any) -> dict[str, Any]:
        """As it stands in a message."""
        return {"processId": os.getpid(), "descriptor": self.descriptor, "name": self.name, **changes}

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Directory:
    """That of the storage that the suite plays: one bucket, in which each object takes the place of the one before."""

    def __init__(self) -> None:
        self._file = MemoryFile(bytes(BUCKET_BYTES), seals=TABLE_SEALS)
        self.told = self._file.told()

    def enter(self, identifier: bytes, size: int, descriptor: int) -> None:
        os.pwrite(self._file.descriptor, _ENTRY.pack(identifier, size, descriptor, 0), 32)

    def close(self) -> None:
        self._file.close()


class OpenedDirectory:
    """That of a storage under test."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._process_id = told["processId"]
        descriptor = os.open(f"/proc/{told['processId']}/fd/{told['descriptor']}", os.O_RDONLY)
        try:
            self.seals = fcntl.fcntl(descriptor, _GET_SEALS)
            self._table = mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)

    def find(self, identifier: bytes) -> tuple[int, dict[str, Any]] | None:
        """How many bytes this object has, and the file with them."""
        buckets = len(self._table) // BUCKET_BYTES
        begin = int.from_bytes(identifier[:8], "little") % buckets * BUCKET_BYTES
        for name, size, descriptor, _ in _ENTRY.iter_unpack(self._table[begin : begin + BUCKET_BYTES]):
            if name == identifier:
                return size, {"processId": self._process_id, "descriptor": descriptor, "name": name}
        return None

    def close(self) -> None:
        self._table.close()


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
