"""The real thing: the command, its socket, its memory, and what happens to clients when it goes away."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import zmq
from tests.support.storage_server import START_SECONDS, Server, until

from scaler_protocol.codes import ROLE_CLIENT, ROLE_SCHEDULER
from scaler_protocol.errors import ObjectNotFound, OwnerGone, StorageError, StorageFull, StorageUnavailable
from scaler_protocol.ids import new_object_id, new_peer_id
from scaler_protocol.keys import find_pass
from scaler_protocol.messages import ReleaseOwner
from scaler_protocol.objects import ObjectClient, Owner
from scaler_protocol.objects.operations import Operation, ReleaseOperation
from scaler_protocol.process.ports import free_ports
from scaler_storage.core import CoreLimits

MIB = 1024 * 1024

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="servers run on Linux and macOS")


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Servers that are killed should a test forget or fail to end them."""
    servers: list[Server] = []

    def start_one(port: int, *options: str) -> Server:
        servers.append(Server(port, *options))
        return servers[-1]

    yield start_one
    for server in servers:
        server.end(signal.SIGKILL)


@pytest.fixture(params=[(), ("--no-shared-memory",)], ids=["shared", "sent"])
def server(start: Callable[..., Server], request: pytest.FixtureRequest) -> Iterator[Server]:
    """Large values are shared with us, or come through the socket as from another host: nobody can tell but by
    looking at the clock."""
    running = start(free_ports(1), *request.param)
    yield running
    assert running.end() == 0, running.lines
    assert not any("Traceback" in line for line in running.lines), running.lines


@pytest.fixture
def client(server: Server) -> Iterator[ObjectClient]:
    with contextlib.closing(
        ObjectClient(server.address, ROLE_SCHEDULER, "test", timeout_seconds=20.0, shown=find_pass(server.address))
    ) as opened:
        yield opened


OWNER = new_peer_id()


class ReleaseOwnerOperation(ReleaseOperation):
    """What only the scheduler may ask; it has no use for ObjectClient, so that cannot do it."""

    def next_request(self, request_id: int, now: float, has_room: bool) -> ReleaseOwner | None:  # type: ignore[override]
        return (
            ReleaseOwner(request_id, self._owner.peer_id) if super().next_request(request_id, now, has_room) else None
        )


def run(client: ObjectClient, operation: Operation) -> None:
    client._run(operation)


def test_start_and_end(server):
    # The first server of this account makes the key of its clusters, and logs that.
    lines = [line for line in server.lines if ": made a key for the clusters of this account in " not in line]
    assert lines[0].endswith(": logging to ('/dev/stdout',)") and lines[0].startswith("[INFO]")
    assert lines[1].endswith(": use event loop: builtin")
    assert lines[2].endswith(f": ObjectStorageServer: listen to object storage address {server.address}")
    assert server.end(signal.SIGINT) == 0


@pytest.mark.parametrize("size", [0, 1, 100, 65_535, 65_536, 8 * MIB, 8 * MIB + 1, 20 * MIB + 7])
def test_what_is_put_can_be_fetched(client, size):
    data = os.urandom(size)
    object_id = new_object_id()
    client.put(object_id, OWNER, [data])
    value = client.get(object_id)
    assert value == data and not memoryview(value).readonly
    if size:
        value[0] ^= 255
        assert client.get(object_id) == data, "what is fetched is the caller's own"
    client.release(OWNER, [object_id])
    with pytest.raises(ObjectNotFound, match=object_id.hex()):
        client.get(object_id)


def test_a_value_of_many_buffers(client):
    buffers = [b"head", bytearray(os.urandom(9 * MIB)), b"", memoryview(os.urandom(70_000))[5:], b"x" * 70_000, b"tail"]
    object_id = new_object_id()
    client.put(object_id, OWNER, buffers)
    assert client.get(object_id) == b"".join(buffers)


def test_memory_returns_after_deletion(server, client):
    before = server.held_bytes()
    chunk_ids = [new_object_id() for _ in range(200)]
    piece = os.urandom(MIB)
    for _ in range(2):  # glibc keeps such sizes only after some were freed
        for object_id in chunk_ids:
            client.put(object_id, OWNER, [piece])
        large = new_object_id()
        client.put(large, OWNER, [memoryview(piece * 300)])
        assert client.status().memory_bytes == 500 * MIB + 201 * CoreLimits().entry_bytes
        assert server.held_bytes() - before > 450 * MIB
        client.release(OWNER, [large, *chunk_ids])
        assert client.status().memory_bytes == 0
    until(lambda: server.held_bytes() - before < 64 * MIB, "the server's memory to come back")


def test_the_server_holds_one_copy(server, client):
    before = server.held_bytes()
    object_id = new_object_id()
    client.put(object_id, OWNER, [memoryview(bytearray(300 * MIB))])
    for _ in range(2):
        assert len(client.get(object_id)) == 300 * MIB
    assert server.held_bytes() - before < 300 * MIB + 64 * MIB


def test_many_threads_wait_for_many_objects(client):
    ids = [new_object_id() for _ in range(60)]
    results: dict[int, bytes] = {}

    def fetch(number: int) -> None:
        results[number] = bytes(client.get(ids[number], wait_seconds=30.0))

    threads = [threading.Thread(target=fetch, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    until(lambda: client.status().waiter_count == 60, "all Gets to wait")
    for number, object_id in enumerate(ids):
        client.put(object_id, OWNER, [b"%d" % number * 30_000])
    for thread in threads:
        thread.join(30.0)
    assert results == {number: b"%d" % number * 30_000 for number in range(60)}
    assert client.status().waiter_count == 0


def test_threads_put_and_fetch_large_values_at_once(client):
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            data = bytes([number]) * (12 * MIB)
            object_id = new_object_id()
            client.put(object_id, OWNER, [data])
            assert client.get(object_id) == data
            client.release(OWNER, [object_id])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
        assert not thread.is_alive(), "a thread hangs"
    assert failures == [] and client.status().object_count == 0


def test_a_wait_without_an_object_ends(client):
    started = time.monotonic()
    with pytest.raises(ObjectNotFound):
        client.get(new_object_id(), wait_seconds=0.3)
    assert 0.3 <= time.monotonic() - started < 10


def test_duplicate(client):
    source, target = new_object_id(), new_object_id()
    with pytest.raises(ObjectNotFound):
        client.duplicate(source, target, OWNER)
    client.put(source, OWNER, [b"value"])
    client.duplicate(source, target, OWNER)
    client.release(OWNER, [source], wait=False)
    assert client.status().object_count == 1, "what was asked before is done before"
    assert client.get(target) == b"value"


def test_an_owner_that_is_gone(server, client):
    owner = new_peer_id()
    object_id = new_object_id()
    client.put(object_id, owner, [b"value"])
    with contextlib.closing(
        ObjectClient(server.address, ROLE_SCHEDULER, "test", 20.0, shown=find_pass(server.address))
    ) as scheduler:
        run(scheduler, ReleaseOwnerOperation(Owner(owner), [object_id]))
        assert scheduler.status().object_count == 0
    with pytest.raises(OwnerGone, match=owner.hex()):
        client.put(object_id, owner, [b"value"])


def test_the_memory_limit(start):
    server = start(free_ports(1), "--memory-limit", "10M")
    with contextlib.closing(
        ObjectClient(server.address, ROLE_SCHEDULER, "test", 20.0, shown=find_pass(server.address))
    ) as client:
        object_id = new_object_id()
        client.put(object_id, OWNER, [bytes(9 * MIB)])
        with pytest.raises(StorageFull, match="--memory-limit"):
            client.put(new_object_id(), OWNER, [bytes(40 * MIB)])
        client.release(OWNER, [object_id])
        client.put(new_object_id(), OWNER, [bytes(9 * MIB)])
    assert server.end() == 0


def test_the_storage_restarts_while_a_client_puts(start):
    """Success or an error, never a hang; and with a storage on the same address again, success."""
    port = free_ports(1)
    server = start(port)
    client = ObjectClient(server.address, ROLE_SCHEDULER, "test", timeout_seconds=30.0, shown=find_pass(server.address))
    outcomes: list[str] = []
    ids = [new_object_id() for _ in range(4)]
    data = bytes(64 * MIB)

    def put_all() -> None:
        for object_id in ids:
            try:
                client.put(object_id, OWNER, [data])
                outcomes.append("stored")
            except StorageError as error:
                outcomes.append(str(error))

    writer = threading.Thread(target=put_all)
    writer.start()
    until(lambda: server.held_bytes() > 100 * MIB or len(outcomes) > 0, "the upload to be under way")
    server.end(signal.SIGKILL)
    successor = start(port)
    writer.join(90.0)
    assert not writer.is_alive(), "put hangs"
    assert outcomes == ["stored"] * 4
    assert client.get(ids[-1]) == data
    client.close()
    assert successor.end() == 0


def test_no_storage_at_all(start: Callable[..., Server]) -> None:
    """One call waits; those that follow know that it was in vain, until a storage answers."""
    port = free_ports(1)
    with contextlib.closing(ObjectClient(f"tcp://127.0.0.1:{port}", ROLE_CLIENT, "test", 0.5)) as client:
        started = time.monotonic()
        for _ in range(50):
            with pytest.raises(StorageUnavailable, match="is scaler_object_storage_server running"):
                client.get(new_object_id(), wait_seconds=60.0)
        assert 0.5 <= time.monotonic() - started < 10
        server = start(port, "--insecure")

        def is_stored() -> bool:
            try:
                client.put(new_object_id(), OWNER, [b"x"])
            except StorageUnavailable:
                return False
            return True

        until(is_stored, "the client to notice that a storage is there")
    assert server.end() == 0


def test_the_keeper_outlives_a_dial_for_which_there_was_no_socket(monkeypatch):
    """Or no thread would look after the session any more."""
    with contextlib.closing(ObjectClient(f"tcp://127.0.0.1:{free_ports(1)}", ROLE_CLIENT, "test")) as client:
        client.release(OWNER, [new_object_id()], wait=False)
        link = client._link()
        endpoint = link.endpoint

        def poll(now: float) -> None:
            raise zmq.ZMQError(errno.EMFILE)

        monkeypatch.setattr(endpoint, "poll", poll)
        until(lambda: link.endpoint is not endpoint, "another dial")


def test_the_storage_says_goodbye_while_a_client_waits(server):
    with contextlib.closing(
        ObjectClient(server.address, ROLE_SCHEDULER, "test", 3.0, shown=find_pass(server.address))
    ) as client:
        failures: list[Exception] = []

        def wait() -> None:
            try:
                client.get(new_object_id(), wait_seconds=60.0)
            except StorageUnavailable as error:
                failures.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        until(lambda: client.status().waiter_count == 1, "the Get to wait")
        assert server.end() == 0
        waiter.join(30.0)
        assert len(failures) == 1


def test_closing_ends_the_calls_of_other_threads(client):
    failures: list[Exception] = []

    def wait() -> None:
        try:
            client.get(new_object_id(), wait_seconds=60.0)
        except StorageUnavailable as error:
            failures.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    until(lambda: client.status().waiter_count == 1, "the Get to wait")
    client.close()
    waiter.join(20.0)
    assert "closed" in str(failures[0])
    assert client.status().object_count == 0, "a closed client connects anew"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # Python 3.12: it is
def test_a_forked_child_has_a_connection_of_its_own(client):
    object_id = new_object_id()
    client.put(object_id, OWNER, [b"value"])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if client.get(object_id) == b"value" else 2
            client.close()
        finally:
            os._exit(code)
    status = {}
    reaper = threading.Thread(target=lambda: status.update(code=os.waitpid(child, 0)[1]))
    reaper.start()
    reaper.join(30.0)
    if reaper.is_alive():
        os.kill(child, signal.SIGKILL)
    assert status == {"code": 0}
    assert client.get(object_id) == b"value", "and the parent's goes on"


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", bytes(range(256)) * 64, b"\xff\0\0\0\0\0\0\0\1\x7f", b"\0"],
    ids=["http", "bytes", "half a greeting", "nothing much"],
)
def test_garbage_on_the_port_is_noticed_by_nobody(server, client, garbage):
    object_id = new_object_id()
    with socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2])), timeout=10.0) as stranger:
        stranger.sendall(garbage)
        client.put(object_id, OWNER, [b"value"])
    assert client.get(object_id) == b"value"


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["nonsense"], 2, "nonsense"),
        (["tcp://127.0.0.1:99999"], 2, "99999"),
        (["127.0.0.1:2346", "--insecure", "--key-file", "cluster.key"], 2, "exclude each other"),
        (["127.0.0.1:2346", "--key-file", "/nowhere/at/all.key"], 1, "/nowhere/at/all.key"),
        (["127.0.0.1:2346", "--memory-limit", "much"], 2, "much"),
        (["127.0.0.1:2346", "-lp", "/nowhere/at/all/log"], 2, "/nowhere/at/all/log"),
        ([], 2, "address"),
        (["tcp://203.0.113.7:2346", "--insecure"], 1, "203.0.113.7"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, code, expected):
    done = subprocess.run(
        [sys.executable, "-m", "scaler_storage", *arguments], capture_output=True, text=True, timeout=START_SECONDS
    )
    assert done.returncode == code
    assert expected in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_port_that_is_taken(server):
    done = subprocess.run(
        [sys.executable, "-m", "scaler_storage", server.address], capture_output=True, text=True, timeout=START_SECONDS
    )
    assert done.returncode == 1 and "already in use" in done.stderr and done.stderr.count("\n") == 1
