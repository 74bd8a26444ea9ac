"""Client.submit, its futures and their errors, against a fake cluster on the real wire."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import math
import operator
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client, ScalerFuture
from scaler.client.io import background
from scaler.utility.exceptions import (
    RemoteTraceback,
    ScalerError,
    TaskExceptionNotSerializableError,
)
from scaler_protocol import values


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
        round,
        (3.15,),
        {},
        capabilities={"gpu": -1, "cpu": 2},
        priority=3,
        retries=2,
        timeout=1.5,
        lost_processors_limit=5,
    ).result(WAIT)
    header = cluster.submits[-1].header
    assert [(one.name, one.amount) for one in header.capabilities] == [("cpu", 2), ("gpu", -1)]
    assert (header.priority, header.retries, header.timeout_seconds) == (3, 2, 1.5)
    assert header.lost_processors_limit == 5


def test_each_way_to_call_takes_the_limit_of_dead_processors(client: Client, cluster: FakeCluster) -> None:
    client.map(abs, [-1], lost_processors_limit=1)
    client.starmap(abs, [(-1,)], lost_processors_limit=2)
    list(client.imap(abs, [-1], lost_processors_limit=3))
    client.get({"a": (abs, -1), "b": (abs, "a")}, "b", lost_processors_limit=4)
    client.submit_named("nothing", lost_processors_limit=5).cancel(WAIT)
    assert [submit.header.lost_processors_limit for submit in cluster.submits] == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="1 or more"):
        client.map(abs, [-1], lost_processors_limit=0)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"retries": -1}, ValueError, "negative"),
        ({"timeout": -0.5}, ValueError, "negative"),
        ({"timeout": math.nan}, ValueError, "timeout must be a number of seconds, got nan"),
        ({"lost_processors_limit": 0}, ValueError, "1 or more"),
        ({"lost_processors_limit": 1.5}, TypeError, "whole number"),
        ({"lost_processors_limit": 1 << 16}, ValueError, "below 65,536"),
        ({"retries": 1 << 16}, ValueError, "retries must be below 65,536"),
        ({"retries": 65_535}, ValueError, "retries must be below 65,535, the number of the last attempt"),
        ({"priority": 1 << 31}, ValueError, "priority must be below"),
        ({"priority": "high"}, TypeError, "priority must be a whole number, got 'high'"),
        ({"priority": 1.5}, TypeError, "whole number"),
        ({"capabilities": "gpu"}, TypeError, '{"gpu": -1}'),
        ({"capabilities": {"gpu": -2}}, ValueError, "-1, for none in particular"),
        ({"capabilities": {"gpu": "two"}}, TypeError, "amount of capability 'gpu'"),
        ({"capabilities": {1: 2}}, TypeError, "must be a text, got 1"),
    ],
)
def test_options_that_cannot_be_fail_in_the_callers_line(
    client: Client, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        client.submit_verbose(round, (1,), {}, **options)
    assert client.submit(round, 1.2).result(WAIT) == 1


def test_a_function_may_be_said_to_have_changed(client: Client, cluster: FakeCluster) -> None:
    for _ in range(2):
        assert client.submit_verbose(abs, (-1,), {}, reserialize=True).result(WAIT) == 1
        assert client.map(abs, [-1], reserialize=True) == client.starmap(abs, [(-1,)], reserialize=True) == [1]
    assert len(cluster.objects) == 1, "it had not"


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


def test_a_partial_is_serialized_again_only_when_what_it_holds_may_differ(client: Client, monkeypatch: Any) -> None:
    serialized: list[object] = []
    dumps = values.dumps

    def noted(value: object) -> Any:
        serialized.append(value)
        return dumps(value)

    monkeypatch.setattr(values, "dumps", noted)
    constant = functools.partial(operator.add, 1)
    by_keyword = functools.partial(keyword_only, b=1)
    for number in range(3):
        assert client.submit(constant, number).result(WAIT) == number + 1
        assert client.submit(by_keyword, number).result(WAIT) == (number, 1)
    assert [one for one in serialized if type(one) is functools.partial] == [constant, by_keyword]
    by_keyword.keywords["b"] = 2
    assert client.submit(by_keyword, 0).result(WAIT) == (0, 2)
    changing = [1]
    holds_a_list = functools.partial(operator.add, changing)
    assert client.submit(holds_a_list, [2]).result(WAIT) == [1, 2]
    changing.append(5)
    assert client.submit(holds_a_list, [2]).result(WAIT) == [1, 5, 2]


class Heavy:
    def __init__(self) -> None:
        self.data = bytes(1_000_000)

    def size(self, more: int) -> int:
        return len(self.data) + more


def test_a_method_of_a_heavy_object_is_sent_once(client: Client, cluster: FakeCluster) -> None:
    heavy = Heavy()
    assert [client.submit(heavy.size, n).result(WAIT) for n in range(3)] == [1_000_000 + n for n in range(3)]
    assert client.map(heavy.size, range(3)) == [1_000_000 + n for n in range(3)]
    assert len(cluster.objects) == 1 and all(len(submit.payload) < 1000 for submit in cluster.submits)


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


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_no_line_of_python_runs_where_a_future_dies(client: Client, size: int) -> None:
    """Ctrl-C would be lost there: what is raised in a destructor is printed and ignored."""
    future = client.submit(bytes, size)
    concurrent.futures.wait([future], WAIT)
    ran: list[str] = []
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_name) if event == "call" else None)
    del future
    sys.setprofile(None)
    assert ran == []


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
    monkeypatch.setattr("scaler.client.submitting.calls.LARGE_BYTES", 1000)
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


def test_an_event_loop_does_not_stand_still_for_a_cancel(
    client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def main(future: ScalerFuture) -> bool:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(future, 0.01)
        return future.cancel()

    cluster.hold()
    future = client.submit(abs, -1)
    with monkeypatch.context() as patch:
        patch.setattr(client._ready().connection, "cancel", asked.append)  # nobody answers
        assert asyncio.run(asyncio.wait_for(main(future), WAIT))
    assert asked == [(future.task_id,)] and future.cancelled()


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


def test_a_client_that_has_left_has_called_its_callbacks(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an executor's shutdown: what they tell, such as the end of a span, is told when the block is left."""
    monkeypatch.setattr(background, "FINISH_SECONDS", WAIT)
    has_left = threading.Event()
    told: list[bool] = []
    with Client(cluster.address) as client:
        future = client.submit(abs, -1)
        future.add_done_callback(lambda _: told.append(has_left.wait(0.2)))
        assert future.result(WAIT) == 1
    has_left.set()
    assert told == [False]
