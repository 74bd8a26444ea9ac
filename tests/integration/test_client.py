"""The client with real roles: the programs of the documents, and what only real processes can show."""

from __future__ import annotations

import concurrent.futures
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from scaler import Client, SchedulerClusterCombo, Serializer
from scaler.client.serializer.default import DefaultSerializer
from scaler.utility.exceptions import ProcessorDiedError, RemoteTraceback

WAIT = 60.0


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """One worker: whatever needs two would hang here."""
    cluster = SchedulerClusterCombo(n_workers=1, logging_level="WARNING")
    yield cluster.get_address()
    cluster.shutdown()


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address=address) as client:
        yield client


def square(value: int) -> int:
    return value * value


def inc(i: int) -> int:
    return i + 1


def add(a: int, b: int) -> int:
    return a + b


def minus(a: int, b: int) -> int:
    return a - b


def fibonacci(client: Client, n: int) -> int:
    if n == 0:
        return 0
    elif n == 1:
        return 1
    else:
        a = client.submit(fibonacci, client, n - 1)
        b = client.submit(fibonacci, client, n - 2)
        result: int = a.result() + b.result()
        return result


def fibonacci_by_graph(client: Client, n: int) -> int:
    if n in (0, 1):
        return n
    graph = {"n": n, "one": 1, "two": 2, "n_minus_one": (minus, "n", "one"), "n_minus_two": (minus, "n", "two")}
    found = client.get(graph, keys=["n_minus_one", "n_minus_two"])
    a = client.submit(fibonacci_by_graph, client, found["n_minus_one"])
    b = client.submit(fibonacci_by_graph, client, found["n_minus_two"])
    done, _ = concurrent.futures.wait([a, b], WAIT)
    assert done == {a, b}
    result: int = a.result() + b.result()
    return result


def factorial(n: int) -> int:
    """Finds its cluster by itself."""
    if n == 0:
        return 1
    with Client() as client:
        result: int = n * client.submit(factorial, n - 1).result()
        return result


def test_quick_start(client: Client) -> None:
    assert client.submit(math.sqrt, 16).result(WAIT) == 4.0
    assert client.submit(square, 4).result(WAIT) == 16
    assert round(sum(one.result(WAIT) for one in [client.submit(math.sqrt, i) for i in range(100)]), 2) == 661.46
    assert client.map(square, range(100)) == [i * i for i in range(100)]
    with pytest.warns(DeprecationWarning):
        assert round(sum(client.map(math.sqrt, [(i,) for i in range(100)])), 2) == 661.46


def test_graphs(client: Client) -> None:
    graph = {"a": 2, "b": 2, "c": (inc, "a"), "d": (add, "a", "b"), "e": (minus, "d", "c"), "f": add}
    assert client.get(graph, keys=["e"]) == {"e": 1}
    result = client.get(graph, keys=["a", "b", "c", "d", "e", "f"])
    assert result == {"a": 2, "b": 2, "c": 3, "d": 4, "e": 1, "f": add}


def test_nested_tasks_with_one_worker(client: Client) -> None:
    assert client.submit(fibonacci, client, 8).result(WAIT) == 21


def test_a_graph_built_within_a_task(client: Client) -> None:
    assert client.submit(fibonacci_by_graph, client, 5).result(WAIT) == 5


def test_tasks_find_their_cluster(client: Client) -> None:
    assert client.submit(factorial, 12).result(WAIT) == math.factorial(12)


def test_objects_sent_once(client: Client) -> None:
    reference = client.send_object([1, 2, 3, 4, 5], name="large_object")
    assert [client.submit(lambda one, i: one[i], reference, i).result(WAIT) for i in range(2)] == [1, 2]


def test_arrays_go_both_ways_and_arrive_writable(client: Client) -> None:
    numpy = pytest.importorskip("numpy")

    def doubled(array: Any) -> Any:
        array *= 2
        return array

    array = numpy.arange(2_000_000.0)
    result = client.submit(doubled, array).result(WAIT)
    assert (result == array * 2).all()
    result[0] = 1


def test_profiles(client: Client) -> None:
    future = client.submit(time.sleep, 0.05, profiling=True)
    future.result(WAIT)
    profile = future.profiling_info()
    assert 0.05 <= profile.duration_s < 5 and profile.duration_us == pytest.approx(profile.duration_s * 1e6)
    assert profile.peak_memory >= 0 and profile.cpu_time_s < 0.05


def fail() -> None:
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise ValueError("outer") from error


def test_errors_keep_their_type_cause_and_frames(client: Client) -> None:
    with pytest.raises(ValueError, match="outer") as caught:
        client.submit(fail).result(WAIT)
    cause = caught.value.__cause__
    assert isinstance(cause, KeyError)
    assert isinstance(cause.__cause__, RemoteTraceback) and "in fail" in str(cause.__cause__)


def test_a_running_task_can_be_canceled(client: Client) -> None:
    future = client.submit(time.sleep, 100)
    quick = client.submit(square, 1)
    begin = time.monotonic()
    assert future.cancel()
    assert time.monotonic() - begin < 20
    assert quick.result(WAIT) == 1


def test_a_dead_processor_is_told_of(client: Client) -> None:
    with pytest.raises(ProcessorDiedError, match="3"):
        client.submit(os._exit, 3).result(WAIT)
    assert client.submit(square, 3).result(WAIT) == 9


class Tagging(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return b"T" + DefaultSerializer.serialize(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        assert payload[:1] == b"T"
        return DefaultSerializer.deserialize(payload[1:])


def test_a_programs_own_serializer(address: str) -> None:
    with Client(address, serializer=Tagging()) as client:
        assert client.submit(add, 1, b=2).result(WAIT) == 3
        assert client.map(square, range(5)) == [0, 1, 4, 9, 16]


def test_two_clients_at_once(address: str) -> None:
    with Client(address) as one, Client(address) as other:
        assert one.submit(square, 2).result(WAIT) + other.submit(square, 3).result(WAIT) == 13


def test_ten_thousand_tiny_tasks(client: Client) -> None:
    assert client.map(square, range(10_000)) == [i * i for i in range(10_000)]


def test_an_unprotected_cluster_stops_when_asked(tmp_path: Any) -> None:
    cluster = SchedulerClusterCombo(n_workers=1, protected=False, logging_level="WARNING")
    try:
        Client(cluster.get_address()).shutdown()
        assert cluster._children[1]._process.wait(WAIT) == 0
    finally:
        cluster.shutdown()


def test_nothing_survives_a_killed_parent() -> None:
    program = """
        import os
        from scaler import Client, SchedulerClusterCombo
        cluster = SchedulerClusterCombo(n_workers=1, logging_level="WARNING")
        with Client(cluster.get_address()) as client:
            client.submit(abs, -1).result()
        print("ready", flush=True)
        input()
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdin is not None and parent.stdout is not None
    with parent.stdin, parent.stdout:
        for line in parent.stdout:
            if line == "ready\n":
                break
        family = psutil.Process(parent.pid).children(recursive=True)
        assert len(family) >= 3
        parent.send_signal(signal.SIGKILL)
        parent.wait(WAIT)
    _, alive = psutil.wait_procs(family, timeout=WAIT)
    assert not alive, f"still there: {[one.cmdline() for one in alive]}"


def test_a_port_that_is_taken_is_said_so(address: str) -> None:
    with pytest.raises(Exception, match=address.rsplit(":", 1)[1]):
        SchedulerClusterCombo(n_workers=1, address=address, logging_level="WARNING")


def test_missing_parts_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'scaler-client\[cluster\]'"):
        SchedulerClusterCombo(n_workers=1)
