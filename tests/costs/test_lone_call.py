"""Steps of a lone call outside of the cores: sessions and sockets of a server and of a dialer, the client's core, and
what the program's own thread does.

`test_steps` has the codec and the cores of scheduler and worker. Each safety that looks at every message costs a
few of them, and without a close bound they add up unseen (decision 0017).
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from scaler.client.core import actions, events
from scaler.client.core.core import ClientCore
from scaler.client.core.records import Outcomes, Submission
from scaler.client.objects.functions import StoredFunctions
from scaler.client.objects.garbage import Garbage
from scaler.client.submitting.calls import Calls
from scaler.client.submitting.surface import Submitting
from scaler_protocol import codes
from scaler_protocol.codec.registry import registry
from scaler_protocol.ids import Salt, task_id_source
from scaler_protocol.keys import Keyring, new_secret
from scaler_protocol.messages import Results, Submit
from scaler_protocol.session import Received
from scaler_protocol.session.bounds import Quota
from scaler_protocol.transport import lane
from tests.costs.test_steps import RESULTS, ROUNDS, SUBMIT, counted, expect_at_most
from tests.support.client_core import call, opened, succeeded, task
from tests.support.endpoints import Bench

SERVER_TURN, DIALER_SEND, DIALER_TURN = 54, 25, 30
CLIENT_SUBMIT, CLIENT_RESULT = 37, 17
PROGRAM_SUBMIT, PROGRAM_RESULT = 20, 8
"""What was counted, and two: Pythons differ a little."""


@pytest.fixture
def bench() -> Iterator[Bench]:
    registry.cache_clear()
    bench = Bench()
    yield bench
    bench.close()
    registry.cache_clear()


@pytest.mark.skipif(not lane.is_offered(), reason="the local lane is Linux's")
def test_a_message_and_its_answer_through_sockets_and_sessions(bench: Bench) -> None:
    """Of a server with a key, and of its dialer: a Submit there and Results back, each as one turn of the driver."""
    server = bench.server(keyring=Keyring([new_secret()]), sessions=Quota(first=0, further=10))
    dialer = bench.dialer(server.address, shown=server._server.admission.keyring.own_pass())
    bench.open(dialer)
    found = dict.fromkeys(("server", "send", "dialer"), 0)

    def served() -> None:
        now = time.monotonic()
        for event in server.poll(now):
            server.send(event.peer_id, RESULTS)
        server.settle(now)
        server.next_deadline()

    def asked() -> None:
        dialer.send(SUBMIT)
        dialer.settle(time.monotonic())
        dialer.next_deadline()

    def heard() -> list[Any]:
        now = time.monotonic()
        arrived = dialer.poll(now)
        dialer.settle(now)
        return arrived

    for _ in range(5 * ROUNDS):  # of which some have a look or an acknowledgement besides
        _, found["send"] = least(found["send"], asked)
        _, found["server"] = least(found["server"], served)
        arrived, found["dialer"] = least(found["dialer"], heard)
        assert [type(event.message) for event in arrived] == [Results], "at once: the lane is in the kernel"
    expect_at_most(SERVER_TURN, found["server"])
    expect_at_most(DIALER_SEND, found["send"])
    expect_at_most(DIALER_TURN, found["dialer"])


def least(known: int, function: Callable[[], Any]) -> tuple[Any, int]:
    result, calls = counted(function)
    return result, min(known, calls) if known else calls


def test_the_client() -> None:
    """A program waits for each call before it submits the next one: nothing is grouped, and no deadline is due."""
    core = ClientCore(timeout_seconds=60.0)
    core.handle(opened(), 0.0)

    def submit(number: int) -> list[Any]:
        core.handle(call(number), 0.0)
        todo = core.handle(events.Flush(), 0.0)
        core.handle(events.Numbered(number, task(number)), 0.0)
        core.next_deadline()
        return todo

    def receive(arrived: Received) -> list[Any]:
        todo = core.handle(arrived, 0.0)
        core.performed()
        core.next_deadline()
        return todo

    for number in range(1, ROUNDS):
        (sent,), submit_calls = counted(submit, number)
        assert type(sent.message) is Submit
        (ended,), result_calls = counted(receive, succeeded(number))
        assert type(ended) is actions.Complete
    expect_at_most(CLIENT_SUBMIT, submit_calls)
    expect_at_most(CLIENT_RESULT, result_calls)


class Unsent:
    """As much of a connection as the program's own thread needs: what is posted stays here."""

    trusts_results, is_closed, inline_bytes, result_salt = True, False, 65_536, Salt(bytes(16))

    def __init__(self) -> None:
        self.new_task_ids = task_id_source()
        self.storage = SimpleNamespace(functions=StoredFunctions(lambda *_: None, Garbage()))
        self.posted: list[Submission] = []
        self.wait_for_prints = lambda: None

    def post(self, *posted: Any, is_batch: bool = False) -> None:
        self.posted += [one for one in posted if type(one) is Submission]

    def fetch_one(self, outcomes: Outcomes, end_at: float) -> Any:
        return outcomes.payload


class Program(Submitting):
    _serializer = _named = None

    def __init__(self, connection: Any) -> None:
        self.calls = Calls(connection, None, codes.FLAG_PROFILING, owner=self)

    def _ready(self) -> Calls:
        return self.calls


def test_the_program() -> None:
    """It submits calls of a function that workers import, and takes the results when all have ended."""
    connection = Unsent()
    program = Program(connection)
    for number in range(ROUNDS):
        future, submit_calls = counted(program.submit, os.path.basename, str(number))
    (task_id,) = connection.posted[-1].ids
    value = pickle.dumps(5)
    future.complete(Outcomes((task_id,), b"", b"", (len(value),), value, bytes(24)))
    result, result_calls = counted(future.result)
    assert result == 5
    expect_at_most(PROGRAM_SUBMIT, submit_calls)
    expect_at_most(PROGRAM_RESULT, result_calls)


FAULTS = """
import resource
from scaler_worker.channel import RECEIVE_BYTES, channel_pair

agent_end, processor_end = channel_pair()
for number in range(200):
    if number == 100:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    processor_end.send(b"frame")
    assert agent_end.recv(RECEIVE_BYTES) == b"frame"
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults as Linux does")
def test_a_small_frame_of_a_processor_maps_no_pages() -> None:
    """A buffer of 256 KiB for each read was mapped and unmapped each time: 13 of 15 microseconds, twice a call. In a
    process of its own, because malloc maps less in one that has freed large buffers."""
    done = subprocess.run([sys.executable, "-c", FAULTS], stdout=subprocess.PIPE, check=True, timeout=60)
    assert int(done.stdout) < 50, "page faults of 100 frames"
