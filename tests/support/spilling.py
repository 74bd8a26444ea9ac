"""A disk for a storage's core: it does what it is told to when the test says so, or fails."""

from __future__ import annotations

import weakref

from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import MemoryFile
from scaler_storage.core import Action, Copied, Copy, Move, Moved, Read, ReadBack
from scaler_storage.core.values import FileValue


class File:
    """A memory file, or a file on the disk: open as long as it is referred to."""

    def __init__(self, content: bytes, name: ObjectId | None = None) -> None:
        self.content = content
        self.size = len(content)
        self._name = name

    def reference(self) -> MemoryFile:
        assert self._name is not None
        return MemoryFile(1, 2, self._name)

    def read(self, offset: int, size: int) -> bytes:
        assert offset + size <= self.size or self._name is not None, "a value is read, and nothing beyond it"
        return self.content[offset : offset + size]

    def copy(self, name: bytes, offset: int, size: int) -> File:
        return File(self.read(offset, size), ObjectId(name))


class Disk:
    def __init__(self) -> None:
        self.moves: list[Move] = []
        self.reads: list[Read] = []
        self.copies: list[Copy] = []
        self._made: weakref.WeakSet[File] = weakref.WeakSet()
        self._files: weakref.WeakSet[File] = weakref.WeakSet()

    def takes(self, action: Action) -> bool:
        """Keeps what is asked of a disk until the test says what comes of it. False: it is another action."""
        if isinstance(action, Move):
            self.moves.append(action)
        elif isinstance(action, Read):
            self.reads.append(action)
        elif isinstance(action, Copy):
            self.copies.append(action)
        else:
            return False
        return True

    def move(self, index: int) -> Moved:
        move = self.moves.pop(index)
        pieces: list[bytes] = []
        for value in move.values:
            if isinstance(value, FileValue):
                assert value.file is not None
                pieces.append(value.file.read(0, value.total_bytes))
            else:
                pieces += map(bytes, value.chunks)
        file = File(b"".join(pieces))
        self._files.add(file)
        return Moved(move.number, file, 1_000)

    def fail(self, index: int, error: str) -> Moved:
        return Moved(self.moves.pop(index).number, error, 0)

    def read(self, index: int, is_error: bool) -> ReadBack:
        read = self.reads.pop(index)
        if is_error:
            return ReadBack(read.number, "Input/output error")
        return ReadBack(read.number, read.file.read(read.offset, read.size))

    def copy(self, index: int, is_error: bool) -> Copied:
        copy = self.copies.pop(index)
        if is_error:
            return Copied(copy.number, "Cannot allocate memory")
        file = copy.file.copy(copy.name, copy.offset, copy.size)
        self._made.add(file)
        return Copied(copy.number, file)

    def bytes_copied(self) -> int:
        return sum(file.size for file in self._made)

    def bytes_open(self) -> int:
        """Of the files that exist, and of those that are being written."""
        return sum(file.size for file in self._files) + sum(
            value.total_bytes for move in self.moves for value in move.values
        )
