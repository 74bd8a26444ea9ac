"""What one large value costs on its way there and back: messages, and calls of the system (decision 0014).

The bounds are what was counted: who exceeds one has made large values slower, and says here what it is worth.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler_protocol import values
from scaler_protocol.codes import ROLE_SCHEDULER
from scaler_protocol.ids import new_object_id, new_peer_id
from scaler_protocol.keys import find_pass
from scaler_protocol.objects import ObjectClient, memory_files
from scaler_protocol.process.ports import free_ports
from tests.costs.test_steps import counted, expect_at_most
from tests.support.storage_server import Server

pytestmark = pytest.mark.skipif(not memory_files.FEATURES, reason="memory files are Linux's")

OWNER = new_peer_id()
DATA = os.urandom(1 << 20)
PUT_CALLS, GET_CALLS, RELEASE_CALLS = 185, 19, 165
"""159, 16 and 140 were counted at most: how many turns they take depends on how soon the answers come."""
_SYSTEM = frozenset({"posix", "fcntl", "mmap"})
_NO_CALLS = frozenset({"getpid"})


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(free_ports(1))
    yield server
    server.end(signal.SIGKILL)


def connected(server: Server) -> contextlib.closing[ObjectClient]:
    """After a first value: by then everything has been met."""
    client = ObjectClient(server.address, ROLE_SCHEDULER, "test", timeout_seconds=20.0, shown=find_pass(server.address))
    object_id = new_object_id()
    client.put(object_id, OWNER, [DATA])
    client.get(object_id)
    client.release(OWNER, [object_id])
    return contextlib.closing(client)


def messages(*clients: ObjectClient) -> Counter[str]:
    found: Counter[str] = Counter()
    for client in clients:
        endpoint = client._link().endpoint
        found.update(endpoint.sent_counts)
        found.update(endpoint.received_counts)
    return found


def calls_of(function: Callable[..., Any], *arguments: Any) -> tuple[Any, list[str]]:
    """What it returns, and which functions of the system it called for that, by name."""
    called: list[str] = []

    def note(_frame: object, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__module__ in _SYSTEM and argument.__name__ not in _NO_CALLS:
            called.append(argument.__name__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = function(*arguments)
    finally:
        sys.setprofile(before)
    return result, called


def test_messages_of_an_echo(server):
    """An argument from the client to the worker, and the same back: the storage is told of two values, and asked for
    none."""
    with connected(server) as client, connected(server) as worker:
        before = messages(client, worker)
        argument, result = new_object_id(), new_object_id()
        client.put(argument, OWNER, [DATA])
        worker.put(result, OWNER, [worker.get(argument)])
        assert client.get(result) == DATA
        client.release(OWNER, [argument, result])
        assert messages(client, worker) - before == {"PutShared": 2, "Release": 1, "ObjectReply": 3}


def test_steps_of_an_echo(server):
    """In the thread that waits. The key is read for a session and not for a value: its derivation takes longer than
    to copy a mebibyte."""
    with connected(server) as client:
        object_id = new_object_id()
        _, put = counted(client.put, object_id, OWNER, [DATA])
        _, got = counted(client.get, object_id)
        _, released = counted(client.release, OWNER, [object_id])
    expect_at_most(PUT_CALLS, put)
    expect_at_most(GET_CALLS, got)
    expect_at_most(RELEASE_CALLS, released)


def test_calls_of_the_system():
    """Each is a microsecond or more. Mapping is a call of a type, which is not counted."""
    first = memory_files.create(new_object_id())
    memory_files.open_file(first.reference(), 0)  # after which it knows the device of memory files
    file, written = calls_of(memory_files.create, new_object_id(), [DATA])
    assert written == ["memfd_create", "writev", "fchmod", "fcntl"]
    opened, found = calls_of(memory_files.open_file, file.reference(), len(DATA))
    assert found == ["open", "fstat", "readlink", "open", "close", "fcntl", "fstat"]
    assert calls_of(opened.content)[1] == []


@pytest.mark.parametrize("dump", (values.dumps, lambda value: values.dumps_call((value,), {})), ids=("value", "call"))
def test_large_bytes_are_pickled_by_nobody(dump):
    """cloudpickle makes a pickler of its own for each value, which took as long as to copy half a mebibyte."""
    pieces, calls = counted(dump, DATA)
    assert sum(map(len, pieces)) < len(DATA) + 256 and calls <= 5, f"{calls} calls"
