"""A disk that is full, broken or slow: what is refused, what is said, and that nothing else waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.spilling import Disk
from tests.support.storage_server import Server, until

from scaler_protocol import codes
from scaler_protocol.errors import StorageError
from scaler_protocol.ids import ObjectId, PeerId, new_object_id, new_peer_id
from scaler_protocol.keys import find_pass
from scaler_protocol.messages import Get, Hello, ObjectReply, Put, StorageStatus, StorageStatusRequest, Value, Welcome
from scaler_protocol.objects import ObjectClient
from scaler_protocol.process.ports import free_ports
from scaler_protocol.session import Opened, Received
from scaler_storage.config import Config
from scaler_storage.core import CoreLimits, Move, Send, StorageCore, Tick, invariants
from scaler_storage.core.limits import UNLIMITED
from scaler_storage.core.spilling import REST_SECONDS, WAIT_SECONDS
from scaler_storage.core.values import StoredValue
from scaler_storage.service import StorageService
from scaler_storage.spill_files import SpillDirectory, SpilledFile, SpillThreads

MIB = 1024 * 1024
LIMITS = CoreLimits(entry_bytes=0, memory_bytes=100, disk_bytes=100, small_bytes=1)
PEER, OWNER = PeerId(b"A" * 16), new_peer_id()


class Stage:
    def __init__(self) -> None:
        self.core = StorageCore(LIMITS)
        self.disk = Disk()
        self.now = 0.0
        self.replies: list[Any] = []
        self.count = 0
        self.handle(Opened(PEER, Hello(1, 1, codes.ROLE_CLIENT, PEER), Welcome(1, PEER, 1, 1)))

    def handle(self, event: Any) -> None:
        for action in self.core.handle(event, self.now):
            if not self.disk.takes(action) and isinstance(action, Send):
                self.replies.append(action.message)
        invariants.check(self.core)

    def put(self, size: int) -> ObjectId:
        self.count += 1
        one = ObjectId(self.count.to_bytes(16, "little"))
        self.handle(Received(PEER, 1, Put(self.count, one, PEER, size, 0, bytes(size))))
        return one

    def status(self) -> StorageStatus:
        self.handle(Received(PEER, 1, StorageStatusRequest(1)))
        assert isinstance(self.replies[-1], StorageStatus)
        return self.replies.pop()


def test_a_put_is_refused_in_its_turn_when_memory_and_disk_are_full() -> None:
    stage = Stage()
    for _ in range(10):
        stage.put(20)
        while stage.disk.moves:
            stage.handle(stage.disk.move(0))
        stage.handle(Tick())
    assert all(reply.code == codes.OK for reply in stage.replies)
    stage.put(20)
    reply = stage.replies[-1]
    assert isinstance(reply, ObjectReply) and reply.code == codes.STORAGE_FULL
    for part in ("The largest owners have", "--disk-limit", "--memory-limit", "in memory", "on the disk"):
        assert part in reply.text
    assert PEER.hex() not in reply.text, "any client may read it"
    for _ in range(100):
        stage.now += 0.1
        stage.handle(Tick())
    assert not stage.disk.moves and stage.core.next_deadline() is None, "nothing is tried again and again"
    assert stage.status().disk_room_bytes == 0


def test_an_object_whose_move_fails_stays_and_the_disk_rests() -> None:
    stage = Stage()
    ids = [stage.put(20) for _ in range(5)]
    while stage.disk.moves:
        stage.handle(stage.disk.fail(0, "Input/output error"))
        stage.handle(Tick())
    assert stage.status().disk_trouble == "Input/output error"
    for one in ids:
        stage.handle(Received(PEER, 1, Get(9, one)))
        assert isinstance(stage.replies[-1], Value) and len(stage.replies[-1].payload) == 20
    stage.put(20)
    assert stage.replies[-1].code == codes.STORAGE_FULL and "Input/output error" in stage.replies[-1].text
    stage.now += REST_SECONDS / 2
    stage.handle(Tick())
    assert not stage.disk.moves, "a broken disk is not written to again and again"
    stage.now += REST_SECONDS
    stage.handle(Tick())
    while stage.disk.moves:
        stage.handle(stage.disk.move(0))
    assert stage.status().disk_trouble == ""
    stage.put(20)
    assert stage.replies[-1].code == codes.OK


def test_a_move_that_was_begun_before_says_nothing_about_a_disk_that_fails_now() -> None:
    stage = Stage()
    for _ in range(5):
        stage.put(20)
    assert len(stage.disk.moves) > 1
    stage.handle(stage.disk.fail(0, "full"))
    stage.handle(stage.disk.move(0))
    assert stage.status().disk_trouble == "full"


# ---------------------------------------------------------------- threads


def value(data: bytes) -> StoredValue:
    made = StoredValue(len(data))
    made.append(data)
    return made


def test_a_disk_that_fails_midway_is_logged_once_until_it_works(tmp_path, monkeypatch, caplog) -> None:
    """Of two values the first is written, and then there is no room. The file of a move that fails is closed."""
    real, is_full = os.writev, [True]

    def writev(descriptor: int, views: list[memoryview]) -> int:
        if is_full[0] and len(views[0]) < 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, [views[0][:3]])

    monkeypatch.setattr(os, "writev", writev)
    caplog.set_level(logging.WARNING)
    wakes: list[None] = []
    threads = SpillThreads(SpillDirectory(str(tmp_path)), lambda: wakes.append(None))
    try:
        for number in range(3):
            threads.do(Move(number, (value(b"hello"), value(b"world"))))
            until(lambda number=number: len(wakes) > number, "it has ended")  # type: ignore[misc]
        assert {moved.file for moved in threads.take_done()} == {"No space left on device"}
        is_full[0] = False
        threads.do(Move(4, (value(b"hello"), value(b"world"))))
        until(lambda: len(wakes) == 4, "it has ended")
        (moved,) = threads.take_done()
        assert not isinstance(moved.file, str) and moved.file.read(0, 10) == b"helloworld"
    finally:
        threads.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


# ---------------------------------------------------------------- processes


def connected(address: str) -> contextlib.closing[ObjectClient]:
    return contextlib.closing(
        ObjectClient(address, codes.ROLE_SCHEDULER, "test", timeout_seconds=20.0, shown=find_pass(address))
    )


@pytest.fixture
def small_file_system(tmp_path: Path) -> Iterator[Path]:
    """Of 16 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "scaler-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a file system can be mounted by root only, and not in each container")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_file_system_of_which_95_percent_are_taken_is_full(small_file_system: Path) -> None:
    """And what other programs need on it is left to them."""
    server = Server(free_ports(1), "--memory-limit", "8MiB", "--spill-directory", str(small_file_system))
    try:
        with connected(server.address) as client:
            ids = []
            with pytest.raises(StorageError, match=r"95%.*The largest owners have") as caught:
                while True:
                    began_at = time.monotonic()
                    ids.append(new_object_id())
                    client.put(ids[-1], OWNER, [len(ids).to_bytes(4, "little") * (MIB // 4)])
            # In the turn of the Put, as the core's test says: here only that nothing waits 20 s for the disk.
            assert OWNER.hex() not in str(caught.value), "any client may read it"
            assert caught.value.code == codes.STORAGE_FULL and time.monotonic() - began_at < WAIT_SECONDS / 2
            assert os.statvfs(small_file_system).f_bfree * 4096 >= 16 * MIB // 20
            assert len(ids) > 20, "memory and disk together"
            assert "95%" in client.status().disk_trouble
            for number, one in enumerate(ids[:-1], 1):
                assert client.get(one, 20.0) == number.to_bytes(4, "little") * (MIB // 4)
            assert sum("cannot be moved" in line for line in server.lines) == 1
            assert sum("is on a file system in memory" in line for line in server.lines) == 1
    finally:
        server.end()


def test_a_disk_that_stands_still_holds_up_nothing_else(tmp_path, monkeypatch) -> None:
    """Its threads wait for the disk; the storage goes on answering, also Gets of what is being written."""
    goes_on = threading.Event()
    real = SpilledFile.write

    def write(file: SpilledFile, values: Any) -> None:
        assert goes_on.wait(60.0)
        real(file, values)

    monkeypatch.setattr(SpilledFile, "write", write)
    address = f"tcp://127.0.0.1:{free_ports(1)}"
    config = Config(
        address,
        memory_limit_bytes=8 * MIB,
        spill_directory=str(tmp_path),
        disk_limit_bytes=UNLIMITED,
    )
    with served(config), connected(address) as client, connected(address) as other:
        ids = [new_object_id() for _ in range(7)]
        for one in ids:
            client.put(one, OWNER, [bytes(MIB)])
        waiting = other.start_put(new_object_id(), OWNER, [bytes(4 * MIB)])
        until(lambda: client.status().moving_bytes > 0, "values are on their way")
        # The disk does nothing until all of these are answered.
        assert all(len(client.get(one)) == MIB for one in ids * 10)
        assert not waiting.is_done
        goes_on.set()
        waiting.finish()


@contextlib.contextmanager
def served(config: Config) -> Iterator[None]:
    """In a thread of this process, whose disk a test can hold up."""
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        service = StorageService(config, stop)
        loops.append((asyncio.get_running_loop(), stop))
        await service.run()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    until(lambda: bool(loops), "the storage listens")
    try:
        yield
    finally:
        loop, stop = loops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(20.0)
        assert not thread.is_alive()
