"""Shared memory between real processes: used where it can be, and never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from tests.support.storage_server import Server, memory_files_of

from scaler_protocol.codes import ROLE_SCHEDULER
from scaler_protocol.errors import ObjectNotFound
from scaler_protocol.ids import new_object_id, new_peer_id
from scaler_protocol.keys import find_pass
from scaler_protocol.messages import MemoryFile
from scaler_protocol.objects import ObjectClient, memory_files
from scaler_protocol.objects.client import SHARED_BYTES, TOGETHER_BYTES
from scaler_protocol.process.ports import free_ports
from scaler_storage.core import CoreLimits

pytestmark = pytest.mark.skipif(not memory_files.FEATURES, reason="memory files are Linux's")

MIB = 1024 * 1024
OWNER = new_peer_id()
DATA = os.urandom(MIB)


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start_one(*, port: int = 0, descriptors: int = 0) -> Server:
        servers.append(Server(port or free_ports(1), descriptors=descriptors))
        return servers[-1]

    yield start_one
    for server in servers:
        server.end(signal.SIGKILL)


def connected(server: Server, role: int = ROLE_SCHEDULER) -> contextlib.closing[ObjectClient]:
    return contextlib.closing(
        ObjectClient(server.address, role, "test", timeout_seconds=20.0, shown=find_pass(server.address))
    )


def test_large_values_lie_in_files_and_small_ones_do_not(start):
    server = start()
    before = memory_files_of(os.getpid())  # a test that interrupts destructors may have left one
    with connected(server) as client:
        small, large = new_object_id(), new_object_id()
        client.put(small, OWNER, [b"small"])
        client.put(large, OWNER, [DATA])
        assert memory_files_of(server.process.pid) == [MIB] and memory_files_of(os.getpid()) == before
        assert client.get(small) == b"small" and client.get(large) == DATA
        client.release(OWNER, [large])
        assert client.status().memory_bytes == 5 + CoreLimits().entry_bytes
        assert memory_files_of(server.process.pid) == []


def test_a_shared_value_costs_two_messages_whatever_its_size(start):
    """A guard: no chunk, no probe, and nobody asks where it is."""
    server = start()
    for size in (SHARED_BYTES, 40 * MIB):
        with connected(server) as client:
            object_id = new_object_id()
            client.put(object_id, OWNER, [bytes(size)])
            assert len(client.get(object_id)) == size
            endpoint = client._link().endpoint
            sent, received = endpoint.sent_counts, endpoint.received_counts
            assert (sent["PutShared"], "Get" in sent, "Put" in sent) == (1, False, False)
            assert (received["ObjectReply"], "SharedValue" in received, "Value" in received) == (1, False, False)


def test_small_puts_are_told_together_and_large_ones_at_once(start):
    """A guard: the storage is woken once for them. It is told at the latest when somebody waits."""
    server = start()
    with connected(server) as client:
        client.put(new_object_id(), OWNER, [DATA])
        endpoint = client._link().endpoint
        pending = [client.start_put(new_object_id(), OWNER, [DATA]) for _ in range(TOGETHER_BYTES // MIB - 2)]
        assert endpoint.sent_counts["PutShared"] == 1
        large = client.start_put(new_object_id(), OWNER, [bytes(TOGETHER_BYTES)])
        assert endpoint.sent_counts["PutShared"] == 2 + len(pending)
        pending.append(client.start_put(new_object_id(), OWNER, [DATA]))
        for put in (large, *pending):
            put.finish()
        assert client.status().object_count == 2 + len(pending)


def test_who_finds_an_object_in_the_directory_need_not_ask(start):
    server = start()
    with connected(server) as writer, connected(server, ROLE_SCHEDULER) as reader:
        one, other, copy = new_object_id(), new_object_id(), new_object_id()
        for object_id in (one, other):
            writer.put(object_id, OWNER, [object_id, DATA])
        writer.duplicate(one, copy, OWNER)
        assert reader.get(one) == one + DATA  # which connects
        assert reader.get(other) == other + DATA and reader.get(copy) == one + DATA
        endpoint = reader._link().endpoint
        assert endpoint.sent_counts["Get"] == 2  # the first, and the one of another name
        writer.release(OWNER, [other])
        with pytest.raises(ObjectNotFound):
            reader.get(other)
        assert reader.get(one) == one + DATA and endpoint.sent_counts["Get"] == 3


PUT_AND_WAIT = """
import sys
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.keys import find_pass
from scaler_protocol.objects import ObjectClient
client = ObjectClient(sys.argv[1], 3, "test", timeout_seconds=20.0, shown=find_pass(sys.argv[1]))
client.put(ObjectId(bytes.fromhex(sys.argv[2])), PeerId(bytes.fromhex(sys.argv[3])), [b"x" * 1048576])
kept = client.get(ObjectId(bytes.fromhex(sys.argv[2])))
print("put", flush=True)
sys.stdin.read()
"""


def test_a_killed_client_leaves_its_objects_and_nothing_else(start):
    server = start()
    object_id = new_object_id()
    command = [sys.executable, "-c", PUT_AND_WAIT, server.address, object_id.hex(), OWNER.hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "put\n"
        process.kill()
        process.wait(20)
    with connected(server, ROLE_SCHEDULER) as worker:
        assert worker.get(object_id) == b"x" * MIB
        worker.release(OWNER, [object_id])
        assert worker.status().memory_bytes == 0
    assert memory_files_of(server.process.pid) == []


def test_a_killed_storage_takes_nothing_from_its_readers(start):
    port = free_ports(1)
    first = start(port=port)
    with connected(first) as client:
        object_id = new_object_id()
        client.put(object_id, OWNER, [DATA])
        value = client.get(object_id)
        first.end(signal.SIGKILL)
        second = start(port=port)
        assert value == DATA
        client.put(object_id, OWNER, [DATA])  # offered to the first, and sent to the second
        assert client.get(object_id) == DATA and memory_files_of(second.process.pid) == []
        client.put(new_object_id(), OWNER, [DATA])
        assert memory_files_of(second.process.pid) == [MIB]


def test_whose_files_cannot_be_opened_sends_and_receives_chunks(start, monkeypatch):
    """As from another host, or from a container with process ids of its own."""
    server = start()
    with connected(server) as near, connected(server, ROLE_SCHEDULER) as far:
        ours, theirs = new_object_id(), new_object_id()
        near.put(ours, OWNER, [DATA])
        monkeypatch.setattr(
            memory_files.OpenedFile, "reference", lambda self: MemoryFile(1, self.descriptor, self.name)
        )
        far.put(theirs, OWNER, [DATA[::-1]])
        assert memory_files_of(server.process.pid) == [MIB]
        assert far.get(ours) == DATA and far.get(theirs) == DATA[::-1]
        assert near.get(theirs) == DATA[::-1]


def test_a_reader_that_cannot_open_the_storages_files_is_sent_chunks(start, monkeypatch):
    server = start()
    with connected(server) as client:
        object_id = new_object_id()
        client.put(object_id, OWNER, [DATA])

        def refuse(file: MemoryFile, size: int) -> memory_files.OpenedFile:
            raise memory_files.Unreadable("permission denied")

        monkeypatch.setattr(memory_files, "open_file", refuse)
        assert client.get(object_id) == DATA


def test_a_storage_that_may_have_few_files_takes_the_rest_in_chunks(start):
    """A quarter of those that it may open are memory files (LIM-32): of 80, of which 10 are kept for other uses, 17."""
    server = start(descriptors=80)
    with connected(server) as client:
        ids = [new_object_id() for _ in range(20)]
        for number, object_id in enumerate(ids):
            client.put(object_id, OWNER, [bytes([number]) * MIB])
        assert memory_files_of(server.process.pid) == [MIB] * 17
        assert [client.get(object_id)[5] for object_id in ids] == list(range(20))
        client.release(OWNER, ids[:1])
        client.put(ids[0], OWNER, [DATA])
        assert memory_files_of(server.process.pid) == [MIB] * 17
