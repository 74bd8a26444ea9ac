"""The directory of a storage: in which of its memory files an object lies, told without a message (STO-25 to STO-27).

It is a memory file itself, which the storage writes to and its readers map: a table of entries of 32 bytes, in buckets
of eight. The first bytes of an object's id say which bucket it is in. An object may be missing, and an entry may be out
of date or half written when it is read; so it is no more than a hint, and the file it names is checked like any other.
"""

from __future__ import annotations

import mmap
from struct import Struct

from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import MemoryFile
from scaler_protocol.objects import memory_files
from scaler_protocol.objects.memory_files import OpenedFile, Unreadable

_ENTRY = Struct("<16sQI4x")  # id, size of the file, its descriptor in the storage
_BUCKET_BYTES = 8 * _ENTRY.size
#: The pages of a bucket that was never used take no memory.
_BUCKETS = 4096
_EMPTY = bytes(_ENTRY.size)


class Directory:
    """The storage's own side of it."""

    def __init__(self) -> None:
        """Raises OSError where there is no room, or no more descriptors."""
        self._file = memory_files.create_table(_BUCKETS * _BUCKET_BYTES)
        self._table = mmap.mmap(self._file.descriptor, self._file.size)

    def reference(self) -> MemoryFile:
        return self._file.reference()

    def add(self, object_id: ObjectId, file: MemoryFile, size: int) -> None:
        """Left out when the file has not the object's name, or the bucket is full: then its readers ask."""
        begin = _bucket_of(object_id, len(self._table))
        at = _find(self._table[begin : begin + _BUCKET_BYTES], _EMPTY)
        if file.name == object_id and at is not None:
            _ENTRY.pack_into(self._table, begin + at, object_id, size, file.descriptor)

    def remove(self, object_id: ObjectId) -> None:
        begin = _bucket_of(object_id, len(self._table))
        at = _find(self._table[begin : begin + _BUCKET_BYTES], object_id)
        if at is not None:
            self._table[begin + at : begin + at + _ENTRY.size] = _EMPTY


class DirectoryReader:
    def __init__(self, file: MemoryFile) -> None:
        """Raises Unreadable, or OSError where no more can be mapped."""
        opened = memory_files.open_table(file)
        if opened.size < _BUCKET_BYTES:
            raise Unreadable(f"a directory of {opened.size} bytes has no buckets")
        self._process_id = file.process_id
        self._table = mmap.mmap(opened.descriptor, opened.size, access=mmap.ACCESS_READ)

    def open(self, object_id: ObjectId) -> OpenedFile | None:
        """The file with the bytes of this object. None: ask the storage."""
        begin = _bucket_of(object_id, len(self._table))
        bucket = self._table[begin : begin + _BUCKET_BYTES]
        at = _find(bucket, object_id)
        if at is None:
            return None
        _, size, descriptor = _ENTRY.unpack_from(bucket, at)
        try:
            return memory_files.open_file(MemoryFile(self._process_id, descriptor, object_id), size)
        except Unreadable:
            return None


def _bucket_of(object_id: ObjectId, table_bytes: int) -> int:
    """Where it begins."""
    return int.from_bytes(object_id[:8], "little") % (table_bytes // _BUCKET_BYTES) * _BUCKET_BYTES


def _find(bucket: bytes, begin: bytes) -> int | None:
    """Where the entry is that begins with this."""
    return next((at for at in range(0, _BUCKET_BYTES, _ENTRY.size) if bucket.startswith(begin, at)), None)
