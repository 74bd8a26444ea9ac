"""The client as programs use it, against a fake cluster on the real wire."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import graphlib
import itertools
import math
import operator
import pickle
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster

from scaler import Client, ObjectReference, ScalerFuture, Serializer
from scaler.client.serializer.default import DefaultSerializer
from scaler.utility.exceptions import (
    ClientQuitException,
    DisconnectedError,
    MissingObjects,
    RemoteTraceback,
    ScalerError,
    TaskExceptionNotSerializableError,
)
from scaler_protocol import codes, columns

WAIT = 20.0
"""No wait in this file is expected to take noticeable time; this is when it counts as stuck."""


def eventually(is_true: Callable[[], bool], what: str) -> None:
    """For what another thread does and no event tells of; bounded."""
    end_at = time.monotonic() + WAIT
    tick = threading.Event()
    while not is_true():
        assert time.monotonic() < end_at, f"waited in vain until {what}"
        tick.wait(0.005)


def keyword_only(a: int, *, b: int = 1) -> tuple[int, int]:
    return a, b


def any_keywords(**kw: int) -> dict[str, int]:
    return kw


def fail(message: str) -> None:
    raise KeyError(message)


class Unpicklable(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("not this one")


def raise_unpicklable() -> None:
    raise Unpicklable("a story")


# ---------------------------------------------------------------- submit


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "result"),
    [
        (math.sqrt, (16,), {}, 4.0),
        (max, (1, 2), {}, 2),
        (int, ("7",), {}, 7),
        (keyword_only, (1,), {"b": 5}, (1, 5)),
        (keyword_only, (1,), {}, (1, 1)),
        (any_keywords, (), {"x": 1, "fn": 2, "self": 3}, {"x": 1, "fn": 2, "self": 3}),
        (lambda x: x + 1, (1,), {}, 2),
        (functools.partial(operator.add, 1), (2,), {}, 3),
        ("a b".split, (), {}, ["a", "b"]),
    ],
)
def test_any_callable_and_any_arguments(
    client: Client, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> None:
    assert client.submit(function, *args, **kwargs).result(WAIT) == result
    assert client.submit_verbose(function, args, kwargs).result(WAIT) == result


def test_profiling_is_taken_off_unless_the_function_has_it(client: Client) -> None:
    future = client.submit(math.sqrt, 4, profiling=True)
    assert future.result(WAIT) == 2.0
    profile = future.profiling_info()
    assert (profile.duration_s, profile.cpu_time_s, profile.memory_peak) == (0.0015, 0.0005, 4096)
    assert (profile.duration_us, profile.peak_memory) == (1500.0, 4096)
    assert client.submit(lambda profiling: profiling, profiling="mine").result(WAIT) == "mine"


def test_options_travel_in_the_header(client: Client, cluster: FakeCluster) -> None:
    client.submit_verbose(
        round, (3.15,), {}, capabilities={"gpu": -1, "cpu": 2}, priority=3, retries=2, timeout=1.5
    ).result(WAIT)
    header = cluster.submits[-1].header
    assert [(one.name, one.amount) for one in header.capabilities] == [("cpu", 2), ("gpu", -1)]
    assert (header.priority, header.retries, header.timeout_seconds) == (3, 2, 1.5)
    with pytest.raises(ValueError, match="negative"):
        client.submit_verbose(round, (1,), {}, retries=-1)


def test_calls_that_pile_up_travel_together(client: Client, cluster: FakeCluster) -> None:
    futures = [client.submit(operator.neg, number) for number in range(2000)]
    assert [future.result(WAIT) for future in futures] == [-number for number in range(2000)]
    assert len(cluster.submits) < 500, "natural batching: far fewer messages than calls"


def test_a_function_is_stored_once_and_anew_when_it_changes(client: Client, cluster: FakeCluster) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec("factor = 2\ndef times(x): return x * helper()\ndef helper(): return factor", scope)
    for _ in range(3):
        assert client.submit(scope["times"], 5).result(WAIT) == 10
    assert len(cluster.objects) == 1
    exec("factor = 3", scope)
    assert client.submit(scope["times"], 5).result(WAIT) == 15
    exec("def helper(): return 100", scope)
    assert client.submit(scope["times"], 5).result(WAIT) == 500


def test_state_inside_a_function_is_never_taken_from_before(client: Client) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec("seen = []\ndef count(): return len(seen)", scope)
    assert client.submit(scope["count"]).result(WAIT) == 0
    scope["seen"].append(1)
    assert client.submit(scope["count"]).result(WAIT) == 1


def test_large_arguments_and_results_go_through_the_storage(client: Client, cluster: FakeCluster) -> None:
    data = bytes(3_000_000)
    future = client.submit(bytes.__add__, data, b"1")
    assert future.result(WAIT) == data + b"1"
    assert len(cluster.submits[-1].payload) == 16
    eventually(lambda: all(len(one) < 1000 for one in list(cluster.objects.values())), "large objects are released")


def test_a_large_result_nobody_asks_for_is_released(client: Client, cluster: FakeCluster) -> None:
    future = client.submit(bytes, 1_000_000)
    concurrent.futures.wait([future], WAIT)
    assert any(len(one) > 1_000_000 for one in cluster.objects.values())
    del future
    client.submit(abs, 1).result(WAIT)
    eventually(lambda: all(len(one) < 1000 for one in list(cluster.objects.values())), "the result is released")


@pytest.mark.parametrize(
    ("args", "kwargs", "name"),
    [((1, threading.Lock()), {}, "argument 2"), ((1,), {"key": threading.Lock()}, "argument 'key'")],
)
def test_what_cannot_be_serialized_fails_in_the_callers_line(
    client: Client, args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> None:
    with pytest.raises(TypeError, match=name):
        client.submit(print, *args, **kwargs)
    lock = threading.Lock()
    with pytest.raises(TypeError, match="function"):
        client.submit(lambda: lock.locked())
    with pytest.raises(TypeError, match="callable"):
        client.submit(3)  # type: ignore[arg-type]
    assert client.submit(abs, -1).result(WAIT) == 1


def test_large_functions_are_warned_of_once(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("scaler.client.calls.LARGE_BYTES", 1000)
    data = bytes(2000)
    for _ in range(2):
        client.submit(lambda: len(data)).result(WAIT)
    (record,) = caplog.records
    assert "send_object" in record.message and "<lambda>" in record.message


# ---------------------------------------------------------------- futures


def test_a_client_is_an_executor_and_its_futures_are_futures(client: Client) -> None:
    assert isinstance(client, concurrent.futures.Executor)
    future = client.submit(abs, -1)
    assert isinstance(future, concurrent.futures.Future) and isinstance(future, ScalerFuture)
    futures = [client.submit(abs, -number) for number in range(5)] + [future]
    done, not_done = concurrent.futures.wait(futures, WAIT)
    assert done == set(futures) and not not_done
    assert sorted(one.result() for one in concurrent.futures.as_completed(futures, WAIT)) == [0, 1, 1, 2, 3, 4]


def test_waits_tell_failures_and_cancellations_apart(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    held = client.submit(abs, 1)
    eventually(lambda: cluster.held_count() == 1, "the task is held")
    cluster.is_holding = False
    failing = client.submit(fail, "x")
    done, _ = concurrent.futures.wait([held, failing], WAIT, return_when=concurrent.futures.FIRST_EXCEPTION)
    assert done == {failing}
    assert held.cancel()
    assert concurrent.futures.wait([held], WAIT).done == {held}


def test_two_clients_futures_can_be_waited_for_together(client: Client, cluster: FakeCluster) -> None:
    with Client(cluster.address) as other:
        futures = [client.submit(abs, -1), other.submit(abs, -2)]
        assert {one.result() for one in concurrent.futures.as_completed(futures, WAIT)} == {1, 2}
        assert client.identity != other.identity


def test_a_future_counts_as_running_at_once(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    future = client.submit(abs, -1)
    assert future.running() and not future.done()
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0.01)
    with pytest.raises(ValueError, match="not finished"):
        future.profiling_info()
    cluster.release()
    assert future.result(WAIT) == 1
    assert not future.running() and future.done() and not future.cancel()


def test_cancel_ends_a_task_that_is_at_the_cluster(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    future = client.submit(abs, -1)
    eventually(lambda: cluster.held_count() == 1, "the cluster has the task")
    assert future.cancel() and future.cancelled() and future.done()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(WAIT)
    assert future.cancel()


def test_callbacks_may_submit_and_wait(client: Client) -> None:
    results: list[int] = []
    over = threading.Event()

    def callback(future: concurrent.futures.Future[int]) -> None:
        assert threading.current_thread().name != "scaler-client", "never in the IO thread"
        results.append(future.result() + client.submit(abs, -10).result(WAIT))
        over.set()

    client.submit(abs, -1).add_done_callback(callback)
    assert over.wait(WAIT), "the callback was not called"
    assert results == [11]


def test_a_broken_callback_harms_nobody(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Event()
    future = client.submit(abs, -1)
    future.add_done_callback(lambda one: 1 / 0)
    future.add_done_callback(lambda one: called.set())
    assert called.wait(WAIT), "the second callback was not called"
    assert client.submit(abs, -2).result(WAIT) == 2


def test_futures_can_be_awaited(client: Client) -> None:
    async def main() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        return await client.submit(abs, -1), await loop.run_in_executor(client, abs, -2)

    assert asyncio.run(main()) == (1, 2)


# ---------------------------------------------------------------- errors


def test_a_tasks_exception_is_raised_with_its_remote_frames(client: Client) -> None:
    with pytest.raises(KeyError, match="gone") as caught:
        client.submit(fail, "gone").result(WAIT)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in fail" in str(caught.value.__cause__)
    assert isinstance(client.submit(fail, "gone").exception(WAIT), KeyError)


def test_an_exception_that_cannot_be_pickled_tells_its_story(client: Client) -> None:
    with pytest.raises(TaskExceptionNotSerializableError, match="a story") as caught:
        client.submit(raise_unpicklable).result(WAIT)
    assert caught.value.type_name.endswith("Unpicklable")
    assert "raise_unpicklable" in caught.value.text
    assert isinstance(caught.value, ScalerError)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.type_name, copy.message) == (caught.value.type_name, caught.value.message)


def test_a_failure_belongs_to_its_future_only(client: Client) -> None:
    good, bad = client.submit(abs, -1), client.submit(fail, "x")
    with pytest.raises(KeyError):
        bad.result(WAIT)
    assert good.result(WAIT) == 1 and client.submit(abs, -2).result(WAIT) == 2


# ---------------------------------------------------------------- map


def test_map_as_the_builtin(client: Client) -> None:
    assert client.map(operator.mul, range(5), itertools.count()) == [0, 1, 4, 9, 16]
    assert client.map(abs, []) == [] == client.map(abs, iter([]))
    assert client.map(abs, range(-3, 0)) == [3, 2, 1] == client.map(abs, iter(range(-3, 0)))
    assert client.map(len, {"ab": 1}) == [2]
    assert client.map(str, [1, (2,)]) == ["1", "(2,)"]
    with pytest.raises(TypeError, match="at least one iterable"):
        client.map(abs)


def test_map_over_tuples_unpacks_them_as_in_earlier_days(client: Client) -> None:
    with pytest.warns(DeprecationWarning, match="starmap"):
        results = client.map(math.sqrt, [(i,) for i in range(100)])
    assert round(sum(results), 2) == 661.46
    with pytest.warns(DeprecationWarning):
        assert client.map(operator.sub, ((i, 1) for i in range(3))) == [-1, 0, 1]
    with pytest.warns(DeprecationWarning), pytest.raises(TypeError, match="item 1"):
        client.map(abs, iter([(1,), 2]))


def test_starmap(client: Client) -> None:
    assert client.starmap(pow, [(2, 3), [3, 2]]) == [8, 9]
    assert client.starmap(pow, []) == []


def test_map_makes_large_batches(client: Client, cluster: FakeCluster) -> None:
    assert client.map(operator.neg, range(20_000)) == [-number for number in range(20_000)]
    assert len(cluster.submits) < 20


def test_map_reads_its_iterable_as_it_goes(client: Client, cluster: FakeCluster, monkeypatch: Any) -> None:
    monkeypatch.setattr("scaler.client.mapping.WINDOW_TASKS", 100)
    monkeypatch.setattr("scaler.client.mapping.LARGEST_BATCH", 20)
    furthest = 0

    def numbers() -> Any:
        nonlocal furthest
        for number in range(1000):
            furthest = number
            yield number

    cluster.hold()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        mapped = pool.submit(client.map, operator.neg, numbers())
        eventually(lambda: cluster.held_count() >= 100, "the window is full")
        assert furthest < 200, "and nothing was read beyond it"
        cluster.release()
        assert mapped.result(WAIT) == [-number for number in range(1000)]


def test_the_first_failing_item_raises_and_the_client_lives(client: Client, cluster: FakeCluster) -> None:
    with pytest.raises(ValueError, match="math domain error"):
        client.map(math.sqrt, [1, 4, -1, 9])
    assert client.map(math.sqrt, [1, 4]) == [1, 2]


def test_a_failing_map_cancels_its_other_items(client: Client, cluster: FakeCluster) -> None:
    def numbers() -> Any:
        yield from range(20)
        cluster.hold()
        yield from range(20, 40)
        yield -1
        cluster.is_holding = False

    def fail_later() -> Any:
        yield from numbers()
        raise RuntimeError("the iterable failed")

    with pytest.raises(RuntimeError, match="the iterable failed"):
        client.map(math.sqrt, fail_later())
    eventually(lambda: cluster.held_count() == 0, "what was held is canceled")
    cluster.is_holding = False
    assert client.submit(abs, -1).result(WAIT) == 1


def test_map_names_the_item_that_cannot_be_serialized(client: Client) -> None:
    with pytest.raises(TypeError, match="item 2"):
        client.map(print, [1, 2, threading.Lock()])


def test_map_with_large_items_and_references(client: Client) -> None:
    reference = client.send_object([1, 2, 3])
    assert client.map(operator.getitem, [reference] * 3, range(3)) == [1, 2, 3]
    assert client.map(len, [bytes(200_000), b"1"]) == [200_000, 1]
    assert [len(one) for one in client.map(bytes, [200_000, 1])] == [200_000, 1]


def test_map_stops_waiting_at_its_timeout(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    with pytest.raises(TimeoutError, match="3 tasks"):
        client.map(abs, range(3), timeout=0.05)
    eventually(lambda: cluster.held_count() == 0, "its tasks are canceled")


# ---------------------------------------------------------------- graphs


def inc(i: int) -> int:
    return i + 1


def add(a: int, b: int) -> int:
    return a + b


def minus(a: int, b: int) -> int:
    return a - b


SEED_GRAPH = {"a": 2, "b": 2, "c": (inc, "a"), "d": (add, "a", "b"), "e": (minus, "d", "c"), "f": add}


def test_the_graph_of_the_documents(client: Client) -> None:
    assert client.get(SEED_GRAPH, keys=["e"]) == {"e": 1}
    result = client.get(SEED_GRAPH, keys=["a", "b", "c", "d", "e", "f"])
    assert result == {"a": 2, "b": 2, "c": 3, "d": 4, "e": 1, "f": add}
    assert list(result) == ["a", "b", "c", "d", "e", "f"]


def test_only_what_is_needed_is_run_and_only_what_is_wanted_comes_back(client: Client, cluster: FakeCluster) -> None:
    client.get(SEED_GRAPH, keys=["c"])
    (submit,) = cluster.submits
    assert len(columns.split_ids(submit.ids)) == 1 and submit.is_graph_sealed and submit.header.graph_id
    client.get(SEED_GRAPH, keys=["e"])
    assert sorted(cluster.submits[-1].task_flags) == [0, codes.TASK_UNWANTED, codes.TASK_UNWANTED]


def test_any_hashable_key_and_any_literal(client: Client) -> None:
    graph = {("x", 0): 5, 1: (add, ("x", 0), 10), None: (len, [1, 2]), "doubled": (add, 1, 1)}
    assert client.get(graph, keys=[1, None, "doubled"]) == {1: 15, None: 2, "doubled": 30}


def test_graphs_that_cannot_be(client: Client) -> None:
    with pytest.raises(KeyError, match="more than once"):
        client.get(SEED_GRAPH, keys=["a", "a"])
    with pytest.raises(KeyError, match="nope"):
        client.get(SEED_GRAPH, keys=["nope"])
    with pytest.raises(KeyError, match="missing"):
        client.get({"a": (inc, "missing")}, keys=["a"])
    with pytest.raises(graphlib.CycleError):
        client.get({"a": (inc, "b"), "b": (inc, "a")}, keys=["a"])
    assert client.get({}, keys=[]) == {}


def test_get_without_waiting_gives_futures(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    futures = client.get(SEED_GRAPH, keys=["a", "e"], block=False)
    assert futures["a"].done() and futures["a"].result() == 2 and not futures["e"].done()
    assert futures["a"].profiling_info().duration_s == 0
    cluster.release()
    assert futures["e"].result(WAIT) == 1


def test_a_failing_node_fails_what_depends_on_it(client: Client) -> None:
    graph = {"bad": (fail, "text"), "text": "oh", "after": (inc, "bad"), "good": (abs, -1)}
    with pytest.raises(KeyError):
        client.get(graph, keys=["bad", "good"])
    with pytest.raises(RuntimeError, match="depends on"):
        client.get(graph, keys=["after"])
    assert client.submit(abs, -1).result(WAIT) == 1


def test_data_that_many_nodes_use_is_stored_once(client: Client, cluster: FakeCluster) -> None:
    data = list(range(50_000))
    graph: dict[str, Any] = {"data": data, **{f"n{i}": (operator.getitem, "data", i) for i in range(20)}}
    assert client.get(graph, keys=["n3", "n19"]) == {"n3": 3, "n19": 19}
    assert sum(len(submit.payload) for submit in cluster.submits) < 10_000
    eventually(lambda: all(len(one) < 1000 for one in list(cluster.objects.values())), "it is released")


def test_a_dependency_used_twice(client: Client) -> None:
    assert client.get({"a": (inc, 1), "b": (add, "a", "a")}, keys=["b"]) == {"b": 4}


# ---------------------------------------------------------------- objects


def test_objects_are_sent_once_and_used_by_reference(client: Client, cluster: FakeCluster) -> None:
    reference = client.send_object([1, 2, 3], name="numbers")
    assert isinstance(reference, ObjectReference) and reference.name == b"numbers"
    assert client.submit(operator.getitem, reference, 1).result(WAIT) == 2
    assert client.submit(any_keywords, x=reference).result(WAIT) == {"x": [1, 2, 3]}
    assert client.get({"data": reference, "sum": (sum, "data")}, keys=["sum"]) == {"sum": 6}
    assert client.submit(isinstance, [reference], list).result(WAIT), "inside a container it is not resolved"


def test_clear_cancels_and_invalidates_and_the_client_goes_on(client: Client, cluster: FakeCluster) -> None:
    reference = client.send_object([1])
    finished = client.submit(abs, -1)
    assert finished.result(WAIT) == 1
    cluster.hold()
    held = client.submit(abs, -2)
    client.clear()
    assert held.cancelled() and finished.result() == 1
    with pytest.raises(MissingObjects):
        client.submit(len, reference)
    cluster.release()
    assert client.submit(abs, -3).result(WAIT) == 3


def test_another_clients_reference_is_not_ours(client: Client, cluster: FakeCluster) -> None:
    with Client(cluster.address) as other, pytest.raises(MissingObjects):
        client.submit(len, other.send_object([1]))


class Tagging(Serializer):
    """Tags what it serializes, so that a test sees who has done it."""

    @staticmethod
    def serialize(obj: Any) -> bytes:
        return b"T" + DefaultSerializer.serialize(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        assert type(payload) is bytes and payload[0] == ord("T")
        return DefaultSerializer.deserialize(payload[1:])


# ---------------------------------------------------------------- leaving


def test_a_disconnected_client_says_so(cluster: FakeCluster) -> None:
    client = Client(cluster.address)
    client.disconnect()
    client.disconnect()
    for use in (lambda: client.submit(abs, 1), lambda: client.map(abs, [1]), client.clear, lambda: client.identity):
        with pytest.raises(ClientQuitException, match="new one"):
            use()


def test_disconnecting_cancels_what_is_unfinished(cluster: FakeCluster) -> None:
    client = Client(cluster.address)
    cluster.hold()
    future = client.submit(abs, -1)
    client.disconnect()
    assert future.cancelled()


def test_shutdown_without_arguments_asks_the_cluster(cluster: FakeCluster) -> None:
    client = Client(cluster.address)
    with pytest.raises(ValueError, match="protected"):
        client.shutdown()
    with pytest.raises(ClientQuitException):
        client.submit(abs, 1)
    cluster.is_protected = False
    Client(cluster.address).shutdown()


def test_shutdown_of_an_executor_closes_this_client(cluster: FakeCluster) -> None:
    client = Client(cluster.address)
    future = client.submit(abs, -1)
    client.shutdown(wait=True)
    assert future.result(0) == 1
    with pytest.raises(ClientQuitException):
        client.submit(abs, 1)
    client.shutdown(wait=True)
    cluster.hold()
    other = Client(cluster.address)
    future = other.submit(abs, -1)
    other.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(WAIT)


def test_a_client_that_is_dropped_leaves_and_one_with_work_stays(cluster: FakeCluster) -> None:
    cluster.hold()
    client = Client(cluster.address)
    connection = weakref.ref(client._ready().connection)
    future = client.submit(abs, -1)
    del client
    cluster.release()
    assert future.result(WAIT) == 1
    del future
    eventually(lambda: (found := connection()) is None or found.is_closed, "the connection has ended")


def test_opening_and_closing_is_quick_and_thread_safe(cluster: FakeCluster) -> None:
    def session(number: int) -> int:
        with Client(cluster.address) as client:
            result: int = client.submit(abs, -number).result(WAIT)
            return result

    session(0)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert list(pool.map(session, range(60))) == list(range(60))
    durations = []
    for _ in range(10):
        begin = time.perf_counter()
        Client(cluster.address).disconnect()
        durations.append(time.perf_counter() - begin)
    assert min(durations) < 0.1
    assert not [one for one in threading.enumerate() if one.name == "scaler-client"], "no thread is left"


# ---------------------------------------------------------------- not there, not wanted


def test_an_unreachable_scheduler_is_a_timeout_that_names_it(unused_address: str) -> None:
    with pytest.raises(TimeoutError, match=f"{unused_address}.*check"):
        Client(unused_address, timeout_seconds=0.2)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "tcp://nowhere", "http://x:1", ""])
def test_a_wrong_address_is_said_so(address: str) -> None:
    with pytest.raises(ValueError):
        Client(address)


def test_without_an_address_outside_of_a_task() -> None:
    with pytest.raises(ValueError, match="no scheduler address"):
        Client()


@pytest.fixture
def unused_address() -> str:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def test_a_successor_at_the_same_address_gets_the_unfinished_tasks() -> None:
    first = FakeCluster()
    first.hold()
    with Client(first.address, timeout_seconds=30, heartbeat_interval_seconds=0.1) as client:
        futures = [client.submit(abs, -number) for number in range(10)]
        eventually(lambda: first.held_count() == 10, "the first scheduler has the tasks")
        first.stop()
        second = FakeCluster(first.address)
        second.objects.update(first.objects)
        assert [future.result(WAIT) for future in futures] == list(range(10))
    second.stop()


def test_when_nobody_comes_back_futures_fail() -> None:
    cluster = FakeCluster()
    cluster.hold()
    with Client(cluster.address, timeout_seconds=0.5, heartbeat_interval_seconds=0.1) as client:
        future = client.submit(abs, -1)
        eventually(lambda: cluster.held_count() == 1, "the scheduler has the task")
        cluster.stop()
        with pytest.raises(DisconnectedError):
            future.result(WAIT)


# ---------------------------------------------------------------- serializers


def test_a_programs_own_serializer_makes_every_part(cluster: FakeCluster, tmp_path: Path) -> None:
    calls: list[Any] = []

    class Counting(Tagging):
        @staticmethod
        def serialize(obj: Any) -> bytes:
            calls.append(obj)
            return Tagging.serialize(obj)

    with Client(cluster.address, serializer=Counting()) as client:
        cluster.is_holding = True
        client.submit(keyword_only, 1, b=2)
        assert calls == [keyword_only, 1, 2]
        header = cluster.submits[-1].header if cluster.submits else None
        assert header is None or header.call_format == codes.CALL_SEPARATE
        client.clear()


def test_what_a_task_prints_appears_here(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    with Client(cluster.address, stream_output=True) as client:
        client.submit(abs, -1).result(WAIT)
        assert client._ready().connection.callbacks.wait(WAIT)
    assert "printed by the task" in capsys.readouterr().out
