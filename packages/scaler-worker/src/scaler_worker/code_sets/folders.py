"""Directories on this host that are made once, by whichever process needs them first, and used by many.

Theory of operation. A *folder* is a directory `KEY` with two lock files beside it. A process that uses the folder, or
is about to, holds `KEY.lock`, shared, for its life: what is in use is never removed. If the folder is not there, or
is not whole, the process that has `KEY.maker` for itself alone makes a directory under another name and renames it.
So a folder is whole, or not there, however its maker ends. Locks are flocks, which the kernel drops with their
process.

All of it lies in a directory of ours that no other account can enter. What has not been used for longest is removed
when all folders together are larger than the bound, or are too many: each takes names and inodes, however small it is,
and each maker looks at all. What was left by makers that have been killed is removed when the next folder is made, and
the locks of a folder that could not be made, at once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from pathlib import Path

LOCK_PAUSE_SECONDS = 0.02
"""A waiting process looks again so often: a flock that waits could not be interrupted on every system."""

FOLDERS_MAX = 256
"""So many folders are kept, besides those in use."""

_LOCK = ".lock"
_OPEN_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_OPENER = partial(os.open, mode=0o600)
"""Without a frame of Python, in which an interrupt could lose the descriptor."""
_MAKER = ".maker"
_MAKING = ".making-"
_DAMAGED = ".damaged"
_SIZE = ".size"


class FolderError(Exception):
    """The folder cannot be had: the text says why."""


class Folders:
    def __init__(self, directory: Path, most_bytes: int) -> None:
        self._directory = directory
        self._most_bytes = most_bytes
        #: of what this process uses, until it ends
        self._held: list[int] = []

    def use(
        self,
        key: str,
        make: Callable[[Path], None],
        is_whole: Callable[[Path], bool],
        wait_seconds: float,
        on_absent: Callable[[], object] = lambda: None,
    ) -> Path:
        """The directory of this key, which `make` fills if it is not there, or is not whole. `on_absent` is called
        before this process makes it, or waits for the process that does. Raises OSError, FolderError, and what `make`
        raises."""
        make_private(self._directory)
        give_up_at = time.monotonic() + wait_seconds
        folder = self._directory / key
        held = self._locked(key + _LOCK, fcntl.LOCK_SH, give_up_at)
        try:
            if not is_whole(folder):
                on_absent()
                maker = self._locked(key + _MAKER, fcntl.LOCK_EX, give_up_at)
                try:
                    if not is_whole(folder):  # another process may have made it meanwhile
                        self._make(folder, make)
                finally:
                    maker.close()
            os.utime(held.fileno())
        except BaseException:
            held.close()
            if not folder.exists():
                self._remove_if_unused(folder)
            raise
        self._held.append(os.dup(held.fileno()))  # the same lock: until `release`, or the end of this process
        held.close()
        return folder

    def release(self) -> None:
        """All that this process uses."""
        while self._held:
            os.close(self._held.pop())

    def _locked(self, name: str, how: int, give_up_at: float) -> FileIO:
        """Returns the file with its lock. An interrupt may come before the caller has it: then the lock goes with the
        file object, and not only with this process."""
        path = self._directory / name
        while True:
            lock = FileIO(path, "a+", opener=_OPENER)
            while not _try_lock(lock.fileno(), how):
                if time.monotonic() >= give_up_at:
                    lock.close()
                    raise FolderError("another process has been making it for too long")
                time.sleep(LOCK_PAUSE_SECONDS)
            if _is_same_file(lock.fileno(), path):
                return lock
            lock.close()  # it was removed while we waited for it

    def _make(self, folder: Path, make: Callable[[Path], None]) -> None:
        """With the lock of its maker."""
        self._remove_leftovers(folder.name)
        making = Path(tempfile.mkdtemp(prefix=folder.name + _MAKING, dir=self._directory))
        try:
            make(making)
            size = size_of(making)
            if size > self._most_bytes:
                raise FolderError(f"it has {size:,} bytes, and this worker keeps at most {self._most_bytes:,} of such")
            self._remove_unused(self._most_bytes - size)
            damaged = making.with_name(making.name + _DAMAGED)
            if folder.exists():
                os.rename(folder, damaged)
            os.rename(making, folder)
            _remove(damaged)
        except BaseException:
            _remove(making)
            raise
        folder.with_name(folder.name + _SIZE).write_text(str(size))

    def _remove_leftovers(self, own_key: str) -> None:
        """Of makers that were killed. Only the maker of a folder writes what it is made in, and it has a lock."""
        for path in self._entries():
            key, _, rest = path.name.partition(_MAKING)
            if not rest:
                continue
            if key == own_key:
                _remove(path)
                continue
            try:
                lock = os.open(self._directory / (key + _MAKER), _OPEN_LOCK & ~os.O_CREAT)
            except FileNotFoundError:
                _remove(path)  # a maker at work has a lock
                continue
            try:
                if _try_lock(lock, fcntl.LOCK_EX):
                    _remove(path)
            finally:
                os.close(lock)

    def _remove_unused(self, most_bytes: int) -> None:
        """Until what is left is less than `FOLDERS_MAX` folders with no more than so many bytes, or is in use."""
        folders = []
        for path in self._entries():
            if path.name.endswith(_LOCK):
                folder = path.with_suffix("")
                folders.append((_used_at(path), _size_noted(folder), folder))
        left, count = sum(size for _, size, _ in folders), len(folders)
        for _, size, folder in sorted(folders):
            if left <= most_bytes and count <= FOLDERS_MAX:
                return
            if self._remove_if_unused(folder):
                left, count = left - size, count - 1

    def _remove_if_unused(self, folder: Path) -> bool:
        path = folder.with_name(folder.name + _LOCK)
        try:
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            if not _try_lock(lock, fcntl.LOCK_EX) or not _is_same_file(lock, path):
                return False
            _remove(folder)
            for suffix in (_SIZE, _MAKER, _LOCK):
                folder.with_name(folder.name + suffix).unlink(missing_ok=True)
            return True
        finally:
            os.close(lock)

    def _entries(self) -> Iterator[Path]:
        return iter(sorted(self._directory.iterdir()))


def root_of(directory: str) -> Path:
    """Returns the directory of the options, or one that all workers of this account and host find. Any account can make
    names in the directory for temporary files: where ours is taken there, the user's own cache has it."""
    if directory:
        return Path(directory)
    name = f"scaler-code-{os.getuid()}"
    shared = Path(tempfile.gettempdir(), name)
    try:
        make_private(shared)
    except OSError:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / name
    return shared


def make_private(directory: Path) -> None:
    """OSError unless it is a directory of ours that no other account can enter: code is imported from it."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(
            f"{directory} is not a directory that only this account can enter: name another, or remove it"
        )


def size_of(directory: Path) -> int:
    """Bytes of the files in it, as they are on the disk."""
    size = 0
    for path, _, names in os.walk(directory):
        for name in names:
            size += os.lstat(os.path.join(path, name)).st_size
    return size


def _try_lock(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)


def _used_at(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _size_noted(folder: Path) -> int:
    try:
        return int(folder.with_name(folder.name + _SIZE).read_text())
    except (OSError, ValueError):
        return 0


def _remove(directory: Path) -> None:
    """Its directories are read-only."""
    for path, _, _ in os.walk(directory):
        try:
            os.chmod(path, 0o700)
        except OSError:
            pass
    shutil.rmtree(directory, ignore_errors=True)
