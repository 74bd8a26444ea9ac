"""Files in the spill directory: made, written and read by threads of their own, so that no socket waits for a disk.

A file has no name (O_TMPFILE), or loses it at once where a file system has no such files. So nothing is left of it when
this process ends, however it ends, and no process finds it that does not have it open. (STO-39)
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import queue
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from scaler_protocol.objects import memory_files
from scaler_protocol.objects.memory_files import OpenedFile
from scaler_protocol.process import StartupError
from scaler_storage.core import Copied, Copy, FoundObject, Keep, Kept, Move, Moved, Read, ReadBack, ToDisk
from scaler_storage.core.events import OfDisk
from scaler_storage.core.limits import UNLIMITED
from scaler_storage.core.values import AnyValue, FileValue

THREADS = 2

#: Of the file system: what others need on it is not ours to take.
MOST_FULL = 0.95

#: One call of writev or sendfile. More is left to the next one, so that an end of the process is not held up.
STEP_BYTES = 16 * 1024 * 1024
_PIECES = 1_000

#: Of a file that has a name for the blink of an eye. One that is found at start was left by a kill in just that moment.
NAME = ".scaler-spill-"


_MEMORY_KINDS = ("tmpfs", "ramfs", "devtmpfs")


def kind_of(device: int, table: str = "/proc/self/mountinfo") -> str:
    """The kind of the file system that is mounted from this device; empty: that cannot be found out."""
    with contextlib.suppress(OSError):
        for line in Path(table).read_text(encoding="utf-8", errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            if before.split()[2:3] == [f"{os.major(device)}:{os.minor(device)}"]:
                return after.partition(" ")[0]
    return ""


def read_from(descriptor: int, offset: int, size: int) -> bytes:
    pieces = []
    while size > 0:
        piece = os.pread(descriptor, size, offset)
        if not piece:
            raise OSError(errno.EIO, "the file on the disk is shorter than what was written")
        pieces.append(piece)
        offset, size = offset + len(piece), size - len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def free_bytes(directory: int) -> int:
    """What the file system of this directory takes, until it is full to `MOST_FULL`. Raises OSError."""
    room = os.fstatvfs(directory)
    if not room.f_blocks:  # it does not say
        return UNLIMITED
    return max(0, int(room.f_frsize * (room.f_bavail - (1 - MOST_FULL) * room.f_blocks)))


def make_directory(path: str) -> None:
    """Makes this directory if it is not there, and none above it: a directory above that is missing is a disk that is
    not mounted, and the values would go to the disk below. Its name outlives a loss of power. Raises OSError."""
    above = os.path.dirname(os.path.abspath(path))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        text = f"there is no directory {above}: make it, or mount its file system there"
        raise OSError(errno.ENOENT, text) from None
    descriptor = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class SpilledFile:
    """Holds the file open until the last reference to this is gone: then its room on the disk is free."""

    __slots__ = ("__weakref__", "_descriptor", "size")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = 0

    def copy(self, name: bytes, offset: int, size: int) -> OpenedFile:
        """A memory file with so many bytes."""
        return memory_files.copy(name, self._descriptor, offset, size)

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def read(self, offset: int, size: int) -> bytes:
        return read_from(self._descriptor, offset, size)

    def write(self, values: tuple[AnyValue, ...]) -> None:
        for value in values:
            if not isinstance(value, FileValue):
                self._write_pieces([*value.chunks])
            elif value.file is not None:
                self._copy(value.file, value.total_bytes)

    def _write_pieces(self, views: list[memoryview]) -> None:
        while views:
            written = os.writev(self._descriptor, views[:_PIECES])
            self.size += written
            while views and written >= views[0].nbytes:
                written -= views.pop(0).nbytes
            if written:
                views[0] = views[0][written:]

    def _copy(self, file: object, size: int) -> None:
        assert isinstance(file, OpenedFile)
        copied = 0
        while copied < size:
            sent = os.sendfile(self._descriptor, file.descriptor, copied, min(size - copied, STEP_BYTES))
            if not sent:
                raise OSError(errno.EIO, "a memory file is shorter than its size")
            copied += sent
            self.size += sent

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self._descriptor)


class SpillDirectory:
    def __init__(self, path: str) -> None:
        """Raises StartupError for a directory in which no files can be made."""
        self.path = path
        self._lock = threading.Lock()
        #: of the files that are being written: several threads write, and what is not written yet is still free
        self._reserved_bytes = 0
        try:
            make_directory(path)
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._remove_leftovers()
            SpilledFile(self._open())
        except OSError as error:
            raise StartupError(f"--spill-directory {path} cannot be used: {error.strerror or error}") from None
        if kind_of(os.fstat(self._descriptor).st_dev) in _MEMORY_KINDS:
            logging.warning(
                "ObjectStorageServer: --spill-directory %s is on a file system in memory: what moves there frees none",
                path,
            )

    def written(self, values: tuple[AnyValue, ...]) -> SpilledFile:
        """A new file with these values. Raises OSError, also when the file system would be fuller than `MOST_FULL`."""
        size = sum(value.total_bytes for value in values)
        with self._lock:
            if self.room_bytes() - self._reserved_bytes < size:
                raise OSError(errno.ENOSPC, f"the file system of {self.path} is full to {MOST_FULL:.0%}")
            self._reserved_bytes += size
        try:
            file = SpilledFile(self._open())
            file.write(values)
            return file
        finally:
            with self._lock:
                self._reserved_bytes -= size

    def room_bytes(self) -> int:
        """What the file system takes, until it is full to `MOST_FULL`. Raises OSError."""
        return free_bytes(self._descriptor)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC
        try:
            return os.open(f"/proc/self/fd/{self._descriptor}", flags | os.O_TMPFILE, 0o600)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL):
                raise
        name = NAME + os.urandom(16).hex()
        descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=self._descriptor)
        with contextlib.suppress(FileNotFoundError):  # a storage that starts here takes it for one that a kill has left
            os.unlink(name, dir_fd=self._descriptor)
        return descriptor

    def _remove_leftovers(self) -> None:
        """Removes what looks left behind. A file that another storage has just made may be among them: that storage
        holds the file open, needs no name for it, and may remove the name first."""
        for path in Path(self.path).glob(f"{NAME}*"):
            with contextlib.suppress(FileNotFoundError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    path.unlink()

    def threads(self, wake: Callable[[], None]) -> DiskThreads:
        return SpillThreads(self, wake)

    def found(self) -> Iterator[FoundObject]:
        """Of objects of before: none."""
        return iter(())

    def mark(self, marks: Callable[[], frozenset[bytes]]) -> None:
        """Nothing here outlives the process."""

    def close(self) -> None:
        os.close(self._descriptor)


class DiskThreads:
    """Does what the core asks for, in the order in which it asks, and wakes the loop when something is done. How much
    waits here is bounded by the core: the moves or the batch that it begins, and one read of each peer."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._todo: queue.SimpleQueue[ToDisk | Callable[[], None] | None] = queue.SimpleQueue()
        self._done: deque[OfDisk] = deque()
        self._is_done = threading.Event()
        # Daemons: a disk that does not answer must not keep the process from ending.
        self._threads = [threading.Thread(target=self._run, name=f"disk-{n}", daemon=True) for n in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def do(self, action: ToDisk) -> None:
        self._todo.put(action)

    def call(self, job: Callable[[], None]) -> None:
        """Has this done, too. It has no answer."""
        self._todo.put(job)

    def take_done(self) -> list[OfDisk]:
        self._is_done.clear()
        done: list[OfDisk] = []
        while self._done:
            done.append(self._done.popleft())
        return done

    def wait(self, seconds: float) -> None:
        """Until something is done since `take_done`, at most for so long."""
        self._is_done.wait(seconds)

    def close(self) -> None:
        for _ in self._threads:
            self._todo.put(None)

    def _run(self) -> None:
        while (action := self._todo.get()) is not None:
            try:
                event = None if callable(action) else self._event_of(action)
                if callable(action):
                    action()
            except BaseException as error:
                reason = f"{type(error).__name__}: {error}"
                logging.critical("ObjectStorageServer: a thread of the disk has failed: %s", reason, exc_info=error)
                event = None if callable(action) else _failed(action, reason)
            del action  # the bytes are not to be held until the next one comes
            if event is not None:
                self._done.append(event)
                self._is_done.set()
                self._wake()

    def _event_of(self, action: ToDisk) -> OfDisk:
        if isinstance(action, Read):
            return _read(action)
        return _copy(action) if isinstance(action, Copy) else self._written(action)

    def _written(self, action: Move | Keep) -> OfDisk:
        raise NotImplementedError


class SpillThreads(DiskThreads):
    def __init__(self, directory: SpillDirectory, wake: Callable[[], None]) -> None:
        self._directory = directory
        self._is_failing = False
        super().__init__(wake)

    def _written(self, action: Move | Keep) -> OfDisk:
        assert isinstance(action, Move), "without a data directory nothing is kept"
        return self._move(action)

    def _move(self, move: Move) -> Moved:
        was_failing = self._is_failing
        try:
            file = self._directory.written(move.values)
        except OSError as error:
            reason = f"{error.strerror or error}"
            if not self._is_failing:
                self._is_failing = True
                logging.error("ObjectStorageServer: objects cannot be moved to %s: %s", self._directory.path, reason)
            return Moved(move.number, reason, self._room_bytes())
        if was_failing and self._is_failing:  # one that another thread began before says nothing
            self._is_failing = False
            logging.warning("ObjectStorageServer: objects are moved to %s again", self._directory.path)
        return Moved(move.number, file, self._room_bytes())

    def _room_bytes(self) -> int:
        try:
            return self._directory.room_bytes()
        except OSError:
            return 0


def _failed(action: ToDisk, reason: str) -> OfDisk:
    """The answer when no other was made."""
    if isinstance(action, Read):
        return ReadBack(action.number, reason)
    if isinstance(action, Copy):
        return Copied(action.number, reason)
    return Moved(action.number, reason, 0) if isinstance(action, Move) else Kept(action.number, reason, "", 0)


def _read(read: Read) -> ReadBack:
    try:
        return ReadBack(read.number, read.file.read(read.offset, read.size))
    except OSError as error:
        logging.error("ObjectStorageServer: an object cannot be read back from the disk: %s", error)
        return ReadBack(read.number, f"{error.strerror or error}")


def _copy(copy: Copy) -> Copied:
    try:
        return Copied(copy.number, copy.file.copy(copy.name, copy.offset, copy.size))
    except OSError as error:
        # The disk, or no room in memory: the reader is sent chunks, and is told what is wrong with the disk then.
        return Copied(copy.number, f"{error.strerror or error}")
