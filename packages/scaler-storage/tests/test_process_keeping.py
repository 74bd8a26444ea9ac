"""The real thing: a storage with a data directory that is killed, or ended, and started again."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from tests.support.storage_server import Server, connected, killed_at_the_end, until

from scaler_protocol.codes import ROLE_SCHEDULER
from scaler_protocol.errors import ObjectNotFound
from scaler_protocol.ids import ObjectId, new_object_id, new_peer_id
from scaler_protocol.objects import ObjectClient
from scaler_protocol.process.ports import free_ports
from scaler_storage.data_directory import FOLDER, SMALL_BYTES
from scaler_storage.service import uncollected

MIB = 1024 * 1024
OWNER, OTHER = new_peer_id(), new_peer_id()
SIZES = (0, 10, SMALL_BYTES - 1, SMALL_BYTES, 2 * MIB)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    port = free_ports(1)
    with killed_at_the_end() as start_server:
        yield lambda *options: start_server(port, "--data-directory", str(tmp_path / "data"), *options)


def content(number: int, size: int) -> bytes:
    return (number.to_bytes(4, "little") * (size // 4 + 1))[:size]


def kept_ids(path: Path) -> list[ObjectId]:
    """As another process sees them."""
    address = f"file:{path / 'data' / FOLDER / 'index.sqlite'}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True)) as index:
        return [ObjectId(one) for (one,) in index.execute("SELECT id FROM objects")]


def kept_count(path: Path) -> int:
    return len(kept_ids(path))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("shares", [True, False])
def test_objects_are_there_again(start, tmp_path, how: int, shares: bool) -> None:
    options = () if shares else ("--no-shared-memory",)
    server = start(*options)
    ids = [new_object_id() for _ in SIZES]
    with connected(server) as client:
        for number, (one, size) in enumerate(zip(ids, SIZES, strict=True)):
            client.put(one, OWNER, [content(number, size)])
        gone = new_object_id()
        client.put(gone, OWNER, [b"released"])
        client.release(OWNER, [gone])
        if how == signal.SIGKILL:
            until(lambda: kept_count(tmp_path) == len(SIZES), "all are kept")
    server.end(how)
    server = start(*options)
    assert any(f"{len(SIZES)} objects" in line for line in server.lines), server.lines
    with connected(server) as client:
        for number, (one, size) in enumerate(zip(ids, SIZES, strict=True)):
            assert client.get(one) == content(number, size)
        with pytest.raises(ObjectNotFound):
            client.get(gone)
        client.release(OWNER, ids)
        until(lambda: kept_count(tmp_path) == 0, "they are deleted there as well")


def test_objects_of_four_times_the_memory_are_kept_and_read(start, tmp_path) -> None:
    server = start("--memory-limit", "16MiB")
    ids = [new_object_id() for _ in range(32)]
    with connected(server) as client:
        for number, one in enumerate(ids):
            client.put(one, OWNER, [content(number, 2 * MIB)])
        assert client.status().memory_bytes <= 16 * MIB
        until(lambda: kept_count(tmp_path) == len(ids), "all are kept")
    server.end(signal.SIGKILL)
    server = start("--memory-limit", "16MiB")
    with connected(server) as client:
        assert all(client.get(one) == content(number, 2 * MIB) for number, one in enumerate(ids))
        assert client.status().disk_bytes >= 64 * MIB


def test_a_storage_that_is_killed_again_and_again_never_has_half_of_anything(start, tmp_path) -> None:
    """Three writers, which go on with each next storage, and kills at moments that depend on nothing."""
    put: dict[ObjectId, tuple[bytes, bool]] = {}
    stop = threading.Event()

    def write(server: Server, seed: int) -> None:
        with connected(server) as client:
            for number in count(seed):
                if stop.is_set():
                    return
                one, data, is_released = new_object_id(), content(number, SIZES[number % len(SIZES)]), number % 3 == 0
                put[one] = data, is_released
                client.put(one, OWNER, [data])
                if is_released:
                    client.release(OWNER, [one])

    server = start()
    writers = [threading.Thread(target=write, args=(server, 10_000 * n)) for n in range(3)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(4):
            until(partial(_has_more, tmp_path, kept_count(tmp_path) + 5), "some more are kept")
            server.end(signal.SIGKILL)
            ids = kept_ids(tmp_path)
            server = start()
            with connected(server) as client:
                for one in ids:
                    data, is_released = put[one]
                    try:
                        assert client.get(one) == data, "all that the index had is there, and whole"
                    except ObjectNotFound:
                        assert is_released, "its writer has released it since"
    finally:
        stop.set()
        for writer in writers:
            writer.join(30.0)


def _has_more(path: Path, count: int) -> bool:
    return kept_count(path) > count


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--data-directory", "DIR"), "in use by another object storage"),
        (("--data-directory", "DIR", "--spill-directory", "DIR"), "exclude each other"),
        (("--disk-limit", "1GiB"), "needs --spill-directory or --data-directory"),
        (("--data-directory", "/proc/scaler"), "--data-directory /proc/scaler cannot be used"),
        (("--data-directory", "ABSENT"), "make it, or mount its file system there"),
        (("--spill-directory", "ABSENT", "--memory-limit", "8MiB"), "make it, or mount its file system there"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(start, tmp_path, options: tuple[str, ...], told: str) -> None:
    if "use" in told:
        start()
    places = {"DIR": str(tmp_path / "data"), "ABSENT": str(tmp_path / "no" / "such" / "data")}
    given = [places.get(one, one) for one in options]
    command = [sys.executable, "-m", "scaler_storage", f"tcp://127.0.0.1:{free_ports(1)}", *given]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30.0, check=False)
    assert ended.returncode == 2 or ended.returncode == 1
    lines = (ended.stdout + ended.stderr).strip().splitlines()
    assert told in lines[-1] and "Traceback" not in ended.stderr, lines
    assert not (tmp_path / "no").exists(), "directories above are not made: a disk may not be mounted there"


def test_the_objects_of_a_cluster_with_other_keys_are_not_served(start, tmp_path, monkeypatch) -> None:
    """A program of another cluster could get a grant for any owner there."""
    server = start()
    one = new_object_id()
    with connected(server) as client:
        client.put(one, OWNER, [b"secret"])
    server.end()
    assert kept_count(tmp_path) == 1
    server = start("--insecure")
    insecure = ObjectClient(server.address, ROLE_SCHEDULER, "test", timeout_seconds=20.0)
    with contextlib.closing(insecure) as client, pytest.raises(ObjectNotFound):
        client.get(one)
    server.end()
    assert kept_count(tmp_path) == 0 and os.listdir(tmp_path / "data") == [FOLDER]


def test_the_collector_looks_at_nothing_that_was_made_at_the_start() -> None:
    try:
        with pytest.raises(RuntimeError), uncollected():
            assert not gc.isenabled()
            made: list[list[object]] = [[]]
            raise RuntimeError
        assert gc.isenabled() and not any(one is made for one in gc.get_objects())
    finally:
        gc.unfreeze()
