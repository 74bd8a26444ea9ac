"""The bytes of objects, as they came: in pieces, which are never joined, or in a memory file of this host. Either way
all names of a duplicated object share them."""

from __future__ import annotations

from bisect import bisect_right
from hashlib import blake2b
from typing import Protocol

from scaler_protocol.ids import ID_BYTES, ObjectId
from scaler_protocol.messages import Buffer, MemoryFile
from scaler_protocol.records import dataclass

#: A smaller view is copied when it is kept. ZeroMQ receives small frames into a block of 8 KiB that they share, and
#: keeping one of them keeps the whole block: a million objects of 100 bytes would take 8 GB. Larger ones stay as they
#: are; copying 16 KiB costs about a microsecond.
COPIED_BYTES = 16 * 1024

#: A function or serializer that is no larger takes its place when other bytes are stored under its id: each chunk that
#: is compared is hashed, at about a millisecond for each MiB. (STO-30)
NAMED_BYTES = 4 * 1024 * 1024


class SharedFile(Protocol):
    """An open memory file, of this size and sealed: its bytes are what they are. Open as long as it is referred to."""

    @property
    def size(self) -> int: ...

    def reference(self) -> MemoryFile: ...

    def read(self, offset: int, size: int) -> bytes: ...


class SpillFile(Protocol):
    """A file on the disk with the bytes of one value or of several. Open as long as it is referred to, then gone."""

    @property
    def size(self) -> int: ...

    def read(self, offset: int, size: int) -> bytes: ...

    def copy(self, name: bytes, offset: int, size: int) -> SharedFile: ...


class KeptFile(SpillFile, Protocol):
    """A file of one value in the data directory. It stays there when this process ends."""

    @property
    def number(self) -> int:
        """No other file of the directory has it."""
        ...


@dataclass(frozen=True, slots=True)
class Extent:
    """Where on the disk a value begins."""

    file: SpillFile
    offset: int


class FileValue:
    """A value that lies in a memory file. It is complete from the start; `names` counts the ids that stand for it."""

    __slots__ = ("copy", "extent", "file", "names", "total_bytes")

    def __init__(self, file: SharedFile) -> None:
        #: none once it has left memory
        self.file: SharedFile | None = file
        #: none as long as it is in memory
        self.extent: Extent | None = None
        #: once it has left memory: a memory file with its bytes, for readers on this host (`Spilling.copies`)
        self.copy: SharedFile | None = None
        self.total_bytes = file.size
        self.names = 0

    def leave_memory(self, extent: Extent) -> None:
        self.file, self.extent = None, extent

    @property
    def shared(self) -> SharedFile | None:
        """What readers on this host may open."""
        return self.copy if self.file is None else self.file

    @property
    def is_complete(self) -> bool:
        return True

    def slice_at(self, offset: int, most_bytes: int) -> memoryview:
        """For readers who cannot open the file. A copy: nothing that others have made is ever mapped here."""
        if offset == self.total_bytes:
            return memoryview(b"")
        assert self.file is not None, "what is on the disk is read by a thread"
        return memoryview(self.file.read(offset, most_bytes))


#: Of all values that are on the disk. Nothing is ever put into these: only a value in memory grows.
_NO_CHUNKS: list[memoryview] = []
_NO_STARTS: list[int] = []


class StoredValue:
    """Immutable once it is complete; `names` counts the ids that stand for it."""

    __slots__ = ("chunks", "copy", "extent", "names", "starts", "total_bytes")

    #: as of one that is compared: with no object
    compared: int | None = None

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        #: not empty, except the one chunk of an empty value's upload, which is not kept
        self.chunks: list[memoryview] = []
        #: starts[i] is the offset of chunks[i] in the value
        self.starts: list[int] = []
        #: none as long as it is in memory
        self.extent: Extent | None = None
        #: as in a FileValue
        self.copy: SharedFile | None = None
        self.names = 0

    @classmethod
    def on_disk(cls, total_bytes: int, extent: Extent) -> StoredValue:
        """A value that was never in memory. There may be millions of these."""
        value = cls.__new__(cls)
        value.total_bytes = total_bytes
        value.chunks, value.starts, value.extent = _NO_CHUNKS, _NO_STARTS, extent
        value.copy = None
        value.names = 0
        return value

    def leave_memory(self, extent: Extent) -> None:
        self.chunks, self.starts, self.extent = _NO_CHUNKS, _NO_STARTS, extent

    @property
    def shared(self) -> SharedFile | None:
        """What readers on this host may open: what came in chunks is in a memory file only when it is read again."""
        return self.copy

    @property
    def held_bytes(self) -> int:
        if self.extent is not None:
            return self.total_bytes
        return self.starts[-1] + self.chunks[-1].nbytes if self.chunks else 0

    @property
    def is_complete(self) -> bool:
        return self.held_bytes == self.total_bytes

    def append(self, payload: Buffer) -> None:
        assert self.extent is None, "a value on the disk is complete"
        chunk = kept(payload)
        assert self.held_bytes + chunk.nbytes <= self.total_bytes, "checked when the chunk was received"
        if chunk.nbytes:
            self.starts.append(self.held_bytes)
            self.chunks.append(chunk)

    def slice_at(self, offset: int, most_bytes: int) -> memoryview:
        """What one stored piece has from `offset` on, without copying; empty at the end of the value."""
        assert 0 <= offset <= self.total_bytes, "checked when the Get was received"
        if offset == self.total_bytes:
            return memoryview(b"")
        assert self.extent is None, "what is on the disk is read by a thread"
        index = bisect_right(self.starts, offset) - 1
        begin = offset - self.starts[index]
        return self.chunks[index][begin : begin + most_bytes]


#: Whichever way the bytes came.
AnyValue = StoredValue | FileValue


class ComparedValue:
    """The progress of an upload that is compared with an object that exists. It keeps no bytes, neither of the upload
    nor of the object, and the object may be released meanwhile."""

    __slots__ = ("_hash", "compared", "held_bytes", "is_same", "total_bytes", "trouble")

    def __init__(self, number: int, total_bytes: int) -> None:
        self._hash = blake2b(digest_size=ID_BYTES) if total_bytes <= NAMED_BYTES else None
        #: the number of that object
        self.compared: int | None = number
        self.held_bytes = 0
        #: so far; the writer is told at the end
        self.is_same = True
        #: why bytes of the object could not be read back from the disk; empty: they could
        self.trouble = ""
        self.total_bytes = total_bytes

    @property
    def is_complete(self) -> bool:
        return self.held_bytes == self.total_bytes

    def compare(self, value: AnyValue, payload: Buffer, data: bytes | str | None) -> None:
        """The next chunk. It is compared whatever came before: else the time that it takes would tell the writer.
        `data`: the bytes that were read from the disk for it, or why they cannot be read."""
        if isinstance(data, str):
            self.trouble = self.trouble or data
        if self.total_bytes != value.total_bytes:
            is_there = False
        else:
            is_there = is_at(value, self.held_bytes, payload) if data is None else data == bytes(payload)
        self.is_same = is_there and self.is_same

    def append(self, payload: Buffer) -> None:
        self.held_bytes += memoryview(payload).nbytes
        if self._hash is not None and not (self.is_same and self.is_complete):
            self._hash.update(payload)

    def is_named_by(self, object_id: ObjectId) -> bool:
        """What was put is not what the object has, and the id is the hash of what was put. (STO-2)"""
        return not self.is_same and self._hash is not None and self._hash.digest() == object_id


#: So much is compared at a time: comparing views is slow, so pieces are copied first.
_COMPARED_BYTES = 1024 * 1024


def is_at(value: AnyValue, offset: int, payload: Buffer) -> bool:
    """Whether these are the bytes of the value from there on."""
    view = memoryview(payload).cast("B")
    position = 0
    while position < view.nbytes:
        piece = value.slice_at(offset + position, min(view.nbytes - position, _COMPARED_BYTES))
        if not piece.nbytes or bytes(piece) != bytes(view[position : position + piece.nbytes]):
            return False
        position += piece.nbytes
    return True


def kept(payload: Buffer) -> memoryview:
    """The payload as bytes to keep: read-only, one-dimensional, holding no more memory than it shows."""
    view = memoryview(payload)
    if type(payload) is bytes:
        return view
    if view.nbytes < COPIED_BYTES:
        return memoryview(bytes(view))
    return view.cast("B").toreadonly()
