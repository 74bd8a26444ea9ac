"""The data directory: objects that outlive the storage (STO-41 to STO-44).

Order of writes, for each batch: (1) the bytes of each large value go to a file beside, (2) fdatasync, (3) the file is
renamed, (4) fsync of the directory, (5) one transaction of the index enters the values, with the bytes of
the small ones, and all changes of objects and owners, with synchronous=FULL. A process that dies in between leaves a
file that the index does not name, or nothing, and the next start removes that file. Files that no object has any more
are removed before the index forgets them: else a full disk could not be cleared. A row whose file is missing or has
another size is dropped at the next start.

So at each instant the directory has the state after some batch, and all that is in a batch is there or nothing is.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.objects import memory_files
from scaler_protocol.objects.memory_files import OpenedFile
from scaler_protocol.process import StartupError
from scaler_storage.core import FoundObject, Keep, Kept, Move
from scaler_storage.core.events import OfDisk
from scaler_storage.core.values import AnyValue, FileValue
from scaler_storage.data_index import DataIndex, OtherVersion
from scaler_storage.spill_files import MOST_FULL, DiskThreads, SpilledFile, free_bytes, make_directory, read_from

#: Below the directory that the operator names: a volume is often owned by another user, and open to a group.
FOLDER = "objects"
SUFFIX, PART_SUFFIX = ".value", ".part"
INDEX, LOCK = "index.sqlite", "lock"

#: Smaller values lie in the index.
SMALL_BYTES = 128 * 1024

_INDEX_FILES = (INDEX, f"{INDEX}-wal", f"{INDEX}-shm")

_Owners = tuple[tuple[PeerId, bytes], ...]

INSECURE_MARK = b""
"""In place of the marks of keys, where there are none."""


class LargeFile:
    """A value in a file of its own. It is opened for each read: there may be more of them than descriptors."""

    __slots__ = ("_folder", "number", "size")

    def __init__(self, folder: int, number: int, size: int) -> None:
        self._folder = folder
        self.number = number
        self.size = size

    def read(self, offset: int, size: int) -> bytes:
        descriptor = self._opened()
        try:
            return read_from(descriptor, offset, size)
        finally:
            os.close(descriptor)

    def copy(self, name: bytes, offset: int, size: int) -> OpenedFile:
        descriptor = self._opened()
        try:
            return memory_files.copy(name, descriptor, offset, size)
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        return os.open(name_of(self.number), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._folder)


class SmallFile:
    """A value in the index."""

    __slots__ = ("_index", "number", "size")

    def __init__(self, index: DataIndex, number: int, size: int) -> None:
        self._index = index
        self.number = number
        self.size = size

    def read(self, offset: int, size: int) -> bytes:
        if not size:
            return b""
        try:
            data = self._index.read(self.number, offset, size)
        except sqlite3.Error as error:
            raise OSError(f"the index of the data directory: {error}") from None
        if data is None or len(data) != size:
            raise OSError("the index of the data directory has not the bytes that were written")
        return data

    def copy(self, name: bytes, offset: int, size: int) -> OpenedFile:
        return memory_files.create(name, [self.read(offset, size)])


class _Found:
    """What is in a directory at the start. There may be millions of objects, so equal owners are one tuple here."""

    def __init__(self, small: dict[int, int], files: dict[int, int]) -> None:
        #: sizes of the values by their numbers: of those in the index, and of those with a file of their own
        self.small = small
        self.files = files
        self.objects: list[tuple[ObjectId, int, _Owners]] = []

    def read(self, rows: Iterable[tuple[ObjectId, int, PeerId | None, bytes | None]]) -> list[ObjectId]:
        """Returns the objects without a value or without an owner, which are left out."""
        incomplete: list[ObjectId] = []
        known: dict[_Owners, _Owners] = {}
        objects, small, files = self.objects, self.small, self.files
        last: ObjectId | None = None
        for object_id, number, owner, family in rows:
            if owner is None or family is None or not (number in small or number in files):
                if object_id != last:
                    incomplete.append(object_id)
            elif object_id == last:
                before = objects.pop()
                objects.append((object_id, number, (*before[2], (owner, family))))
            else:
                owners: _Owners = ((owner, family),)
                objects.append((object_id, number, known.setdefault(owners, owners)))
            last = object_id
        return incomplete

    def take_unused(self) -> list[int]:
        """Values that no object has: a kill came between two batches."""
        used = {number for _, number, _ in self.objects}
        unused = [number for values in (self.small, self.files) for number in values if number not in used]
        for number in unused:
            self.small.pop(number, None)
            self.files.pop(number, None)
        return unused


class KeepThreads(DiskThreads):
    def __init__(self, directory: DataDirectory, wake: Callable[[], None]) -> None:
        self._directory = directory
        self._is_failing = False
        super().__init__(wake)

    def _written(self, action: Move | Keep) -> OfDisk:
        assert isinstance(action, Keep), "what is kept needs not be moved"
        kept = self._directory.keep(action)
        trouble = kept.files if isinstance(kept.files, str) else kept.trouble
        if trouble and not self._is_failing:
            logging.error("ObjectStorageServer: objects cannot be kept in %s: %s", self._directory.path, trouble)
        elif self._is_failing and not trouble:
            logging.warning("ObjectStorageServer: objects are kept in %s again", self._directory.path)
        self._is_failing = bool(trouble)
        return kept


def name_of(number: int) -> str:
    return f"{number:016x}{SUFFIX}"


class DataDirectory:
    """Written to by one thread at a time, read by any."""

    def __init__(
        self, path: str, key_marks: Iterable[bytes] = (), passed: Callable[[str], None] = lambda step: None
    ) -> None:
        """`key_marks`: of the keys of this storage, none without keys. `passed` is told of each step, so that a test
        can end the process there. Raises StartupError."""
        self.path = path
        self._passed = passed
        self._found: _Found | None = None
        with contextlib.ExitStack() as stack:
            try:
                self._folder = _folder(path)
                stack.callback(os.close, self._folder)
                self._lock = _locked(self._folder, path)
                stack.callback(os.close, self._lock)
                self._index = self._opened_index(frozenset(key_marks) or frozenset({INSECURE_MARK}))
            except (OSError, sqlite3.Error) as error:
                raise StartupError(f"--data-directory {path} cannot be used: {_reason(error)}") from None
            stack.callback(self._index.close)
            self._resources = stack.pop_all()

    def close(self) -> None:
        self._resources.close()

    # ------------------------------------------------------------ start

    def _opened_index(self, marks: frozenset[bytes]) -> DataIndex:
        path = Path(self.path, FOLDER, INDEX)
        try:
            return self._cleaned(DataIndex(path), marks)
        except OtherVersion as other:
            what = f"version {other} of Scaler's storage, later than this one" if str(other) else "another program"
            raise StartupError(
                f"--data-directory {self.path} was written by {what}: name another directory, or start that version"
            ) from None
        except sqlite3.OperationalError:
            raise  # the disk, or what this process may do: the data are not to blame
        except sqlite3.DatabaseError as error:
            logging.error(
                "ObjectStorageServer: the index of --data-directory %s is damaged (%s): all that was kept is dropped",
                self.path, error,
            )  # fmt: skip
            for name in _INDEX_FILES:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._folder)
            return self._cleaned(DataIndex(path), marks)

    def _cleaned(self, index: DataIndex, marks: frozenset[bytes]) -> DataIndex:
        """Without what is of no use here."""
        try:
            self._remove_of_other_keys(index, marks)
            self._found = self._remove_what_is_not_whole(index)
        except BaseException:
            index.close()
            raise
        return index

    def _remove_of_other_keys(self, index: DataIndex, marks: frozenset[bytes]) -> None:
        """Owners prove their identity with grants, and grants of another key could be had for any owner. Objects that
        were kept under another key are therefore of no use, and would be open to others. (STO-44)"""
        before = index.keys()
        if before and not before & marks:
            logging.warning(
                "ObjectStorageServer: what is kept in --data-directory %s is of a cluster with another key, and is "
                "dropped",
                self.path,
            )
            with index.transaction():
                index.clear()
        if before != marks:
            with index.transaction():
                index.set_keys(marks)

    def threads(self, wake: Callable[[], None]) -> DiskThreads:
        return KeepThreads(self, wake)

    def mark(self, marks: Callable[[], frozenset[bytes]]) -> None:
        """Enters the keys of this moment. `marks` reads them within the transaction, since calls in several threads may
        wait for it, and any of them may be the first."""
        try:
            with self._index.transaction():
                self._index.set_keys(marks())
        except sqlite3.Error as error:
            logging.error("ObjectStorageServer: --data-directory %s does not take the new keys: %s", self.path, error)

    def _remove_what_is_not_whole(self, index: DataIndex) -> _Found:
        """Returns the rest. Each table is read once, in its order, so that all that cannot be read is noticed here."""
        on_disk = self._files_on_disk()
        small, files = index.small(), index.files()
        missing = [number for number, size in files.items() if on_disk.get(name_of(number)) != size]
        for number in missing:
            del files[number]
        found = _Found(small, files)
        incomplete = found.read(index.named())
        unused = found.take_unused()
        with index.transaction():
            index.delete_values(missing)
            if incomplete:
                logging.warning(
                    "ObjectStorageServer: %d objects in --data-directory %s are not whole, and are dropped",
                    len(incomplete), self.path,
                )  # fmt: skip
                index.delete_objects(incomplete)
            index.delete_values(unused)
        for name in on_disk.keys() - {name_of(number) for number in files}:
            os.unlink(name, dir_fd=self._folder)
        return found

    def _files_on_disk(self) -> dict[str, int]:
        """Names and sizes; what was not finished is removed."""
        sizes = {}
        with os.scandir(Path(self.path, FOLDER)) as entries:
            for entry in entries:
                if entry.name.endswith(PART_SUFFIX):
                    os.unlink(entry.name, dir_fd=self._folder)
                elif entry.name.endswith(SUFFIX):
                    sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
        return sizes

    def found(self) -> Iterator[FoundObject]:
        """All that is here. What was read at the start is given back with it."""
        found, self._found = self._found, None
        if found is None:
            found = _Found(self._index.small(), self._index.files())
            found.read(self._index.named())
        for object_id, number, owners in found.objects:
            size = found.small.get(number)
            if size is None:
                file: LargeFile | SmallFile = LargeFile(self._folder, number, found.files[number])
            else:
                file = SmallFile(self._index, number, size)
            yield FoundObject(object_id, file, owners)

    # ------------------------------------------------------------ batches

    def room_bytes(self) -> int:
        """What the file system takes. Raises OSError."""
        return free_bytes(self._folder)

    def keep(self, keep: Keep) -> Kept:
        """Writes a batch. The answer reports what the disk does not take."""
        files: dict[int, LargeFile | SmallFile] = {}
        try:
            self._unlink([file for file in keep.dropped if isinstance(file, LargeFile)])
            fitting = self._fitting(keep)
            trouble = self._write_large(fitting, files)
            self._enter(keep, fitting, files)
        except BaseException as error:
            self._unlink([file for file in files.values() if isinstance(file, LargeFile)])
            if not isinstance(error, (OSError, sqlite3.Error)):
                raise
            return Kept(keep.number, _reason(error), "", self._room_or_none())
        if len(fitting) < len(keep.values):
            trouble = f"the file system of {self.path} is full to {MOST_FULL:.0%}"
        with contextlib.suppress(sqlite3.Error):
            if keep.dropped:
                self._index.give_back()
        return Kept(keep.number, {**files}, trouble, self._room_or_none())

    def _fitting(self, keep: Keep) -> list[tuple[int, AnyValue]]:
        """Returns the values for which the file system has room at present."""
        room = self.room_bytes()
        fitting = []
        for number, value in keep.values:
            if value.total_bytes <= room:
                room -= value.total_bytes
                fitting.append((number, value))
        return fitting

    def _write_large(self, fitting: Iterable[tuple[int, AnyValue]], files: dict[int, LargeFile | SmallFile]) -> str:
        """Returns why some could not be written."""
        trouble = ""
        for number, value in fitting:
            if value.total_bytes < SMALL_BYTES:
                continue
            try:
                self._write(number, value)
                files[number] = LargeFile(self._folder, number, value.total_bytes)
            except OSError as error:
                trouble = _reason(error)
        if files:
            os.fsync(self._folder)
            self._passed("names synced")
        return trouble

    def _write(self, number: int, value: AnyValue) -> None:
        beside = f"{number:016x}{PART_SUFFIX}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        file = SpilledFile(os.open(beside, flags, 0o600, dir_fd=self._folder))
        try:
            self._passed("made")
            file.write((value,))
            self._passed("written")
            os.fdatasync(file.descriptor)
            self._passed("synced")
            os.rename(beside, name_of(number), src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            os.unlink(beside, dir_fd=self._folder)
            raise
        self._passed("named")

    def _enter(
        self, keep: Keep, fitting: Iterable[tuple[int, AnyValue]], files: dict[int, LargeFile | SmallFile]
    ) -> None:
        rows: list[tuple[int, int, bytes | None]] = []
        for number, value in fitting:
            if value.total_bytes < SMALL_BYTES:
                rows.append((number, value.total_bytes, _bytes_of(value)))
            elif number in files:
                rows.append((number, value.total_bytes, None))
        missing = {number for number, _ in keep.values} - {row[0] for row in rows}
        objects = [row for row in keep.objects if row[1] not in missing]
        left_out = {object_id for object_id, number in keep.objects if number in missing}
        self._found = None
        with self._index.transaction():
            self._index.delete_objects(keep.deleted)
            self._index.delete_owners(keep.released)
            self._index.add_values(rows)
            self._index.add_objects(objects)
            self._index.add_owners([row for row in keep.owners if row[0] not in left_out])
            self._index.delete_values([_number(file) for file in keep.dropped])
            self._passed("entered")
        self._passed("kept")
        for number, size, data in rows:
            if data is not None:
                files[number] = SmallFile(self._index, number, size)

    def _unlink(self, files: Iterable[LargeFile]) -> None:
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name_of(file.number), dir_fd=self._folder)
            self._passed("removed")

    def _room_or_none(self) -> int:
        try:
            return self.room_bytes()
        except OSError:
            return 0


def _number(file: object) -> int:
    assert isinstance(file, (LargeFile, SmallFile)), "what is dropped is of this directory"
    return file.number


def _bytes_of(value: AnyValue) -> bytes:
    if isinstance(value, FileValue):
        assert value.file is not None, "what is in no file of this directory is in memory"
        return value.file.read(0, value.total_bytes)
    return b"".join(value.chunks)


def _folder(path: str) -> int:
    make_directory(path)
    folder = Path(path, FOLDER)
    make_directory(str(folder))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        os.close(descriptor)
        raise StartupError(
            f"{folder} is another user's, or open to other users, and objects may hold secrets: chown it to the user "
            "of the storage and chmod it to 0700, or name another --data-directory"
        )
    return descriptor


def _locked(folder: int, path: str) -> int:
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StartupError(
            f"--data-directory {path} is in use by another object storage: name another directory, or end that storage"
        ) from None
    return descriptor


def _reason(error: OSError | sqlite3.Error) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
