"""The real thing: a storage whose objects do not fit into memory, over sockets, with files on a disk."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.storage_server import Server, connected, killed_at_the_end, memory_files_of, until

from scaler_protocol.codes import STORAGE_FULL
from scaler_protocol.errors import StorageError
from scaler_protocol.ids import new_object_id, new_peer_id
from scaler_protocol.objects import memory_files
from scaler_protocol.objects.client import SHARED_BYTES
from scaler_protocol.process.ports import free_ports
from scaler_storage.core import Move, Read
from scaler_storage.core.spilling import START_SHARE
from scaler_storage.core.values import StoredValue
from scaler_storage.service import COPIES_SHARE, SESSIONS_SHARE, SPILLED_SHARE
from scaler_storage.shared_files import SHARE
from scaler_storage.spill_files import NAME, SpillDirectory, SpilledFile, SpillThreads

MIB = 1024 * 1024
OWNER = new_peer_id()
WORKERS = 8


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    with killed_at_the_end() as start_server:

        def start_one(memory: str, *options: str, descriptors: int = 0) -> Server:
            where = ("--memory-limit", memory, "--spill-directory", str(tmp_path / "spill"))
            return start_server(free_ports(1), *where, *options, descriptors=descriptors)

        yield start_one


def spilled_files_of(process_id: int, directory: Path) -> list[int]:
    """The sizes of the files without a name that it has open there."""
    sizes = []
    for path in Path(f"/proc/{process_id}/fd").glob("*"):
        try:
            if os.readlink(path).startswith(f"{directory}/") and path.stat().st_nlink == 0:
                sizes.append(path.stat().st_size)
        except FileNotFoundError:
            continue
    return sizes


def content(number: int, size: int) -> bytes:
    return number.to_bytes(4, "little") * (size // 4)


@pytest.mark.parametrize("shares", [True, False])
def test_values_of_four_times_the_limit_pass_through_eight_writers(start, tmp_path, shares: bool) -> None:
    server = start("32MiB", *([] if shares else ["--no-shared-memory"]))
    ids = [new_object_id() for _ in range(64)]

    def work(number: int) -> None:
        """Writes its share, and reads what its neighbour writes."""
        with connected(server) as client:
            for one in range(number, len(ids), WORKERS):
                client.put(ids[one], OWNER, [content(one, 2 * MIB)])
            for one in range((number + 1) % WORKERS, len(ids), WORKERS):
                assert client.get(ids[one], 20.0) == content(one, 2 * MIB)

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, range(WORKERS)))
    with connected(server) as client:
        assert client.status().memory_bytes <= 32 * MIB
        assert sum(spilled_files_of(server.process.pid, tmp_path / "spill")) >= 96 * MIB
        client.release(OWNER, ids)
        assert client.status().memory_bytes == 0
        until(lambda: not spilled_files_of(server.process.pid, tmp_path / "spill"), "the files are closed")
    assert list((tmp_path / "spill").iterdir()) == []


def test_values_in_memory_and_on_the_disk_leave_descriptors_for_peers(start, tmp_path) -> None:
    """As many of both as a storage with few descriptors takes (LIM-32)."""
    assert SHARE + SPILLED_SHARE + COPIES_SHARE + SESSIONS_SHARE <= 1
    server = start("64MiB", descriptors=300)
    with connected(server) as client:
        for _ in range(100):
            client.put(new_object_id(), OWNER, [bytes(SHARED_BYTES)])
        with pytest.raises(StorageError) as caught:
            for _ in range(300):
                client.put(new_object_id(), OWNER, [content(1, MIB)])
        assert caught.value.code == STORAGE_FULL
        for _ in range(3):
            with connected(server) as newcomer:
                assert newcomer.status().object_count > 100


def test_readers_on_this_host_map_a_copy_of_what_is_on_the_disk(start, tmp_path) -> None:
    """And a Put that needs the room has it at once: the bytes are on the disk already."""
    server = start("16MiB")
    ids = [new_object_id() for _ in range(12)]
    with connected(server) as client, connected(server) as reader:
        for number, one in enumerate(ids):
            client.put(one, OWNER, [content(number, 2 * MIB)])
        # A file is open before its move has ended: only the memory tells that the moves have made room for a copy.
        until(lambda: client.status().memory_bytes <= START_SHARE * 16 * MIB, "what is too much has been moved")
        assert reader.get(ids[0], 20.0) == content(0, 2 * MIB) and reader.get(ids[0], 20.0) == content(0, 2 * MIB)
        counts = reader._link().endpoint.received_counts
        assert (counts["SharedValue"], "Value" in counts) == (1, False), "the second time it is in the directory"
        for number in range(12, 20):
            client.put(new_object_id(), OWNER, [content(number, 2 * MIB)])
        assert client.status().memory_bytes <= 16 * MIB
        assert all(reader.get(one, 20.0) == content(number, 2 * MIB) for number, one in enumerate(ids))
        client.release(OWNER, ids)
        until(lambda: len(memory_files_of(server.process.pid)) <= 8, "a copy goes with its object")


def test_a_killed_storage_leaves_nothing_in_the_directory(start, tmp_path) -> None:
    server = start("8MiB")
    with connected(server) as client:
        for number in range(8):
            client.put(new_object_id(), OWNER, [content(number, 2 * MIB)])
        assert spilled_files_of(server.process.pid, tmp_path / "spill")
        server.end(signal.SIGKILL)
    assert list((tmp_path / "spill").iterdir()) == []


def test_small_objects_share_files(start, tmp_path) -> None:
    server = start("4MiB")
    ids = [new_object_id() for _ in range(2_000)]
    with connected(server) as client:
        for number, one in enumerate(ids):
            client.put(one, OWNER, [content(number, 4_000)])
        assert 1 <= len(spilled_files_of(server.process.pid, tmp_path / "spill")) <= 40
        assert all(client.get(one) == content(number, 4_000) for number, one in enumerate(ids))


def test_a_full_disk_is_said_at_once(start, tmp_path) -> None:
    server = start("4MiB", "--disk-limit", "8MiB")
    with connected(server) as client:
        with pytest.raises(StorageError, match=r"--disk-limit") as caught:
            for number in range(12):
                client.put(new_object_id(), OWNER, [content(number, 2 * MIB)])
        assert caught.value.code == STORAGE_FULL and OWNER.hex()[:8] not in str(caught.value)
        assert "scaler_top shows which clients these are" in str(caught.value)


# ---------------------------------------------------------------- files and threads


def value(data: bytes) -> StoredValue:
    made = StoredValue(len(data))
    made.append(data)
    return made


@pytest.fixture
def without_nameless_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system has no files without a name."""
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)  # an old kernel opens the directory then


@pytest.fixture(params=[True, False])
def directory(request, tmp_path) -> SpillDirectory:
    if not request.param:
        request.getfixturevalue("without_nameless_files")
    return SpillDirectory(str(tmp_path / "spill"))


def test_a_file_has_no_name(directory, tmp_path) -> None:
    file = directory.written((value(b"hello"), value(b"world")))
    assert (file.size, file.read(0, 5), file.read(5, 5)) == (10, b"hello", b"world")
    assert list((tmp_path / "spill").iterdir()) == []
    with pytest.raises(OSError, match="shorter"):
        file.read(5, 6)


def test_what_a_kill_has_left_is_removed(tmp_path) -> None:
    (tmp_path / f"{NAME}0011").write_bytes(b"left over")
    (tmp_path / "another").write_bytes(b"of another program")
    SpillDirectory(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["another"]


@pytest.mark.usefixtures("without_nameless_files")
def test_a_storage_that_starts_in_the_same_directory_takes_no_file_from_another(tmp_path, monkeypatch) -> None:
    """It starts while the file of the other one has its name."""
    first, real = SpillDirectory(str(tmp_path)), os.unlink
    started: list[SpillDirectory] = []

    def unlink(*arguments: Any, **keywords: Any) -> None:
        if not started:
            monkeypatch.setattr(os, "unlink", real)
            assert any(path.name.startswith(NAME) for path in tmp_path.iterdir())
            started.append(SpillDirectory(str(tmp_path)))
        real(*arguments, **keywords)

    monkeypatch.setattr(os, "unlink", unlink)
    file = first.written((value(b"hello"),))
    assert started and file.read(0, 5) == b"hello" and not list(tmp_path.iterdir())


def test_a_storage_starts_although_another_removes_a_file_that_it_has_found(tmp_path, monkeypatch) -> None:
    found, real = tmp_path / f"{NAME}0011", Path.lstat

    def lstat(path: Path) -> os.stat_result:
        found.unlink(missing_ok=True)
        return real(path)

    found.write_bytes(b"of another storage")
    monkeypatch.setattr(Path, "lstat", lstat)
    SpillDirectory(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_file_system_that_is_nearly_full_takes_nothing(directory, monkeypatch) -> None:
    real = os.fstatvfs
    monkeypatch.setattr(os, "fstatvfs", lambda fd: _Full(real(fd)))
    wakes: list[None] = []
    threads = SpillThreads(directory, lambda: wakes.append(None))
    try:
        threads.do(Move(1, (value(b"hello"),)))
        until(lambda: bool(wakes), "the move has ended")
        (moved,) = threads.take_done()
        assert moved.number == 1 and "95%" in str(moved.file)
    finally:
        threads.close()


def test_what_is_being_written_counts_before_the_file_system_knows_it(directory, monkeypatch) -> None:
    """Several threads write at a time."""
    monkeypatch.setattr(directory, "room_bytes", lambda: 9)
    with_a_second = []

    def write(file: SpilledFile, values: object) -> None:
        with pytest.raises(OSError, match="95%"):
            directory.written((value(b"world"),))
        with_a_second.append(values)

    with monkeypatch.context() as patch:
        patch.setattr(SpilledFile, "write", write)
        directory.written((value(b"hello"),))
    assert len(with_a_second) == 1
    assert directory.written((value(b"world"),)).size == 5, "the first is written"


def test_a_copy_is_a_sealed_file_with_the_bytes_of_one_value(directory) -> None:
    file = directory.written((value(b"hello"), value(b"world")))
    copied = file.copy(OWNER, 5, 5)
    read = memory_files.open_file(copied.reference(), 5)
    assert bytes(read.content()) == b"world"
    with pytest.raises(OSError, match="shorter"):
        file.copy(OWNER, 6, 5)


def test_an_error_of_the_disk_is_an_answer(directory, monkeypatch) -> None:
    file = directory.written((value(b"hello"),))
    wakes: list[None] = []
    threads = SpillThreads(directory, lambda: wakes.append(None))

    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "writev", broken)
    monkeypatch.setattr(os, "pread", broken)
    try:
        threads.do(Move(1, (value(b"hello"),)))
        threads.do(Read(2, file, 0, 5))
        until(lambda: len(wakes) == 2, "both have ended")
        moved, read = sorted(threads.take_done(), key=lambda done: done.number)
        assert (moved.file, read.data) == ("Input/output error", "Input/output error")
    finally:
        threads.close()


class _Full:
    def __init__(self, real: os.statvfs_result) -> None:
        self.f_blocks, self.f_frsize, self.f_bavail = real.f_blocks, real.f_frsize, real.f_blocks // 25
