"""Memory files: how processes of one host share the bytes of large values (STO-19 to STO-23).

A memory file is made by `memfd_create` and has no name in any directory: it lives as long as some process has it open
or mapped, and the kernel frees it after the last of them, however that one ended. It is sealed before any other
process is told of it, so none can change its bytes or cut it short under a process that reads them.

Another process opens it through `/proc`, which the kernel allows to the same user only. What it is told is never
believed: it might be another host's process, a number used again since, or a lie. So the file's name, kind, size and
seals are looked at first, and up to there it is not opened for reading at all, which for some kinds of files would
hang or do harm.

Where there are no memory files (everywhere but on Linux), `FEATURES` is empty and nothing else here may be called.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache

from scaler_protocol.messages import Buffer, MemoryFile
from scaler_protocol.objects.buffers import new_buffer

FEATURE = "memfd"
NAME_BYTES = 16

#: A mapping holds a descriptor, of which a process may have as few as a thousand. Beyond this, values are copied.
MAPPINGS = 256

_PREFIX = "scaler-"
#: What `st_blocks` counts.
_BLOCK_BYTES = 512
#: What one call of `writev` takes.
_PIECES = 1024
#: One call of `sendfile`: an end of the process is not held up.
_STEP_BYTES = 16 * 1024 * 1024

if sys.platform == "linux" and hasattr(os, "memfd_create"):
    import fcntl

    _FLAGS = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    _SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    _TABLE_SEALS = _SEALS & ~fcntl.F_SEAL_WRITE
    #: Not to be run as a program. Kernels before 6.3 do not know it.
    _MFD_NOEXEC_SEAL = 8
    FEATURES: tuple[str, ...] = (FEATURE,)
else:
    FEATURES = ()


class _Closing(weakref.ref[object]):
    """Stands for a descriptor in a call of `os.close`, which takes whatever has an `__index__`.

    When a file or a mapping dies, no line of Python runs: in a destructor or a callback that is written in Python, the
    Ctrl-C of a program would be lost, because whatever is raised there is printed and ignored. So what is called then
    is `os.close` and `dict.pop`.
    """

    __slots__ = ("__index__",)
    __index__: Callable[[], int]


#: of the files that are open: when one dies, its key leaves the table, and its descriptor is closed
_files: dict[weakref.ref[object], _Closing] = {}
_mappings: dict[weakref.ref[object], None] = {}


class Unreadable(Exception):
    """No memory file of that name and size can be opened there."""


class OpenedFile:
    """Holds the file open until nothing refers to this any more."""

    __slots__ = ("__weakref__", "_process_id", "descriptor", "kept_bytes", "name", "size")

    def __init__(self, descriptor: int, name: bytes, size: int) -> None:
        self.descriptor = descriptor
        self.name = name
        self.size = size
        #: without holes, as far as that was looked at
        self.kept_bytes = size
        self._process_id = os.getpid()
        # A forked child has a descriptor of its own, and closes that. At its end a process closes what is left.
        closing = _Closing(self, os.close)  # type: ignore[arg-type]
        closing.__index__ = descriptor.__index__
        _files[weakref.ref(self, _files.pop)] = closing

    def reference(self) -> MemoryFile:
        return MemoryFile(self._process_id, self.descriptor, self.name)

    def read(self, offset: int, size: int) -> bytes:
        """A copy of at most so many bytes. Nothing is mapped, so nothing can fault."""
        return os.pread(self.descriptor, size, offset)

    def content(self) -> Buffer:
        """All bytes, writable for the caller alone: a private mapping whose pages are copied when written to, or a
        copy."""
        if self.size > 0 and len(_mappings) < MAPPINGS:
            try:
                mapping = mmap.mmap(self.descriptor, self.size, access=mmap.ACCESS_COPY)
                _mappings[weakref.ref(mapping, _mappings.pop)] = None
                return memoryview(mapping)
            except OSError:
                pass  # out of mappings or descriptors: what is left is a copy
        buffer = new_buffer(self.size)
        filled = 0
        with memoryview(buffer) as view:
            while filled < self.size:
                filled += os.preadv(self.descriptor, [view[filled:]], filled)
        return buffer


def create(name: bytes, pieces: Sequence[Buffer] = ()) -> OpenedFile:
    """A new file of these pieces, one after another. Raises OSError where there is no room, or no more descriptors."""
    opened = OpenedFile(_create(_PREFIX + name.hex()), name, 0)
    opened.size = _write(opened.descriptor, pieces)
    return _sealed(opened)


def copy(name: bytes, source: int, offset: int, size: int) -> OpenedFile:
    """A new file of so many bytes of an open file, from `offset` on. Raises OSError, also when that file is shorter."""
    opened = OpenedFile(_create(_PREFIX + name.hex()), name, 0)
    while opened.size < size:
        sent = os.sendfile(opened.descriptor, source, offset + opened.size, min(size - opened.size, _STEP_BYTES))
        if not sent:
            raise OSError(errno.EIO, "the file is shorter than what was written")
        opened.size += sent
    opened.kept_bytes = size
    return _sealed(opened)


def create_table(size: int) -> OpenedFile:
    """A new file of so many zeros that only its maker writes to, and none cuts short or replaces. Raises OSError."""
    name = os.urandom(NAME_BYTES)
    opened = OpenedFile(_create(_PREFIX + name.hex()), name, size)
    os.ftruncate(opened.descriptor, size)
    _seal(opened.descriptor, _TABLE_SEALS)
    return opened


def open_file(file: MemoryFile, size: int) -> OpenedFile:
    """The file of another process of this user on this host. Raises Unreadable when that is not what is there."""
    opened = _open(file, _SEALS)
    if opened.size != size:
        raise Unreadable(f"the memory file has {opened.size} bytes and not {size}")
    # A file with holes costs its maker nothing, and fills the memory when it is read. (STO-35)
    if opened.kept_bytes < size:
        raise Unreadable("the memory file has holes")
    return opened


def open_table(file: MemoryFile) -> OpenedFile:
    """The same for one that its maker goes on writing to, whatever size it has."""
    return _open(file, _TABLE_SEALS)


def _open(file: MemoryFile, seals: int) -> OpenedFile:
    try:
        found = os.open(f"/proc/{file.process_id}/fd/{file.descriptor}", os.O_PATH | os.O_CLOEXEC)
        try:
            _check_kind(found, file.name)
            descriptor = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(found)
    except OSError as error:
        raise Unreadable(f"process {file.process_id} has no memory file that can be opened here: {error}") from None
    opened = OpenedFile(descriptor, file.name, 0)
    if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & seals != seals:
        raise Unreadable("the memory file is not sealed: its bytes could change")
    status = os.fstat(descriptor)  # not before: until it was sealed it could be cut short
    opened.size, opened.kept_bytes = status.st_size, status.st_blocks * _BLOCK_BYTES
    return opened


def _check_kind(descriptor: int, name: bytes) -> None:
    """Whether a descriptor, from which nothing can be read, is a memory file of this name."""
    status = os.fstat(descriptor)
    if status.st_dev != _device() or not stat.S_ISREG(status.st_mode):
        raise Unreadable("that descriptor is no memory file")
    path = f"/memfd:{_PREFIX}{name.hex()} (deleted)"
    if len(name) != NAME_BYTES or os.readlink(f"/proc/self/fd/{descriptor}") != path:
        raise Unreadable("that descriptor is another file")


@lru_cache(maxsize=1)
def _device() -> int:
    """All memory files of a kernel, and nothing that can be mounted, are on one device."""
    descriptor = _create(_PREFIX)
    try:
        return os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)


def _create(name: str) -> int:
    try:
        return os.memfd_create(name, _FLAGS | _MFD_NOEXEC_SEAL)
    except OSError:
        return os.memfd_create(name, _FLAGS)


def _sealed(opened: OpenedFile) -> OpenedFile:
    _seal(opened.descriptor, _SEALS)
    return opened


def _seal(descriptor: int, seals: int) -> None:
    os.fchmod(descriptor, stat.S_IRUSR)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)


def _write(descriptor: int, pieces: Sequence[Buffer]) -> int:
    size = 0
    views = [memoryview(piece).cast("B") for piece in pieces if memoryview(piece).nbytes]
    while views:
        written = os.writev(descriptor, views[:_PIECES])
        size += written
        while views and written >= views[0].nbytes:
            written -= views.pop(0).nbytes
        if written:
            views[0] = views[0][written:]
    return size
