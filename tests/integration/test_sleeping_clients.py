"""A program that is stopped for longer than its lease, as on a laptop that sleeps, and then goes on. (CLI-8)"""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

LEASE_SECONDS = "1.5"

PROGRAM = """
import os, signal, sys, time
import numpy
from scaler import Client
from scaler.utility.exceptions import MissingObjects

def size(x): return len(x)
def same(x): return x
def slow(x):
    import time
    time.sleep(1)
    return len(x)

with Client({address!r}, timeout_seconds=40) as client:
    data, array = b"x" * (8 << 20), numpy.zeros(1 << 20)
    assert client.submit(abs, -1).result(30) == 1
    reference, other = client.send_object(data), client.send_object(array)
    held = [client.submit(same, data[:-1] + bytes([number])) for number in range(3)]
    held += [client.submit(same, array), client.submit(numpy.ones, 1 << 20)]
    while not all(future.done() for future in held):
        time.sleep(0.01)
    waiting = [client.submit(slow, one) for one in (data, array, reference, other) for _ in range(2)]
    print("ready", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    {call}
    assert [future.result(60) for future in waiting] == [8 << 20] * 2 + [1 << 20] * 2 + [8 << 20] * 2 + [1 << 20] * 2
    assert [len(future.result(60)) for future in held] == [8 << 20] * 3 + [1 << 20] * 2
    assert held[2].result()[-1] == 2
    assert client.submit(size, reference).result(30) == 8 << 20
    print("all is well", flush=True)
"""

CALLS = {
    "submit": "assert client.submit(size, data).result(30) == 8 << 20",
    "map": "assert client.map(size, [data[:-1] + bytes([n]) for n in range(20)]) == [8 << 20] * 20",
    "graph": 'assert client.get({"a": (size, data), "b": (abs, "a")}, keys=["b"])["b"] == 8 << 20',
    "send_object": "assert client.submit(size, client.send_object(data)).result(30) == 8 << 20",
    "new_function": "assert client.submit(lambda: 5).result(30) == 5",
    "nothing": "",
}


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> RealCluster:
    options = ("--client-timeout-seconds", LEASE_SECONDS, "--heartbeat-seconds", "0.3")
    return RealCluster(module_stage, 2, scheduler=options)


@pytest.mark.parametrize("call", CALLS)
def test_a_program_that_was_stopped_goes_on(module_stage: Stage, cluster: RealCluster, call: str) -> None:
    text = PROGRAM.replace("{address!r}", repr(cluster.address)).replace("{call}", CALLS[call])
    program = module_stage.start_program(text)
    program.wait_for("ready")
    until(lambda: not cluster.snapshot().clients, "the scheduler has taken it for lost")
    until(lambda: not cluster.storage_status().object_count, "the storage has released all that it had")
    program.send(signal.SIGCONT)
    assert program.wait(WAIT * 2) == 0, program.text
    assert "all is well" in program.text
    cluster.wait_until_empty()


MAP = """
import time
from scaler import Client

def slow(x):
    import time
    time.sleep(0.2)
    return len(x)

with Client({address!r}, timeout_seconds=40) as client:
    print("ready", flush=True)
    assert client.map(slow, (b"x" * (8 << 20) + bytes([n]) for n in range(40))) == [(8 << 20) + 1] * 40
    print("all is well", flush=True)
"""


def test_a_map_of_large_values_survives_a_sleep(module_stage: Stage, cluster: RealCluster) -> None:
    program = module_stage.start_program(MAP.replace("{address!r}", repr(cluster.address)))
    program.wait_for("ready")
    until(lambda: cluster.storage_status().object_count > 10, "it is under way")
    os.kill(program.pid, signal.SIGSTOP)
    until(lambda: not cluster.snapshot().clients, "the scheduler has taken it for lost")
    program.send(signal.SIGCONT)
    assert program.wait(WAIT * 2) == 0, program.text
    assert "all is well" in program.text
    cluster.wait_until_empty()
