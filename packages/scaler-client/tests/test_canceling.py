"""Canceling many futures, in every order, and what becomes of results that are on their way."""

from __future__ import annotations

import concurrent.futures
import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import eventually

from scaler import Client
from scaler.client.core import canceling
from scaler.client.future import ScalerFuture
from scaler_protocol import columns

WAIT = 10.0
COUNT = 2_000

Futures = list[ScalerFuture]


def large(number: int) -> bytes:
    return bytes(200_000)


def from_the_front(futures: Futures) -> None:
    assert all(future.cancel() for future in futures)


def from_the_back(futures: Futures) -> None:
    assert all(future.cancel() for future in reversed(futures))


def at_random(futures: Futures) -> None:
    assert all(future.cancel() for future in random.Random(1).sample(futures, len(futures)))


def by_several_threads(futures: Futures) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert all(threads.map(ScalerFuture.cancel, futures))


def twice(futures: Futures) -> None:
    assert all(future.cancel() and future.cancel() for future in futures)


def in_callbacks(futures: Futures) -> None:
    """Each one's end cancels the next."""
    for future, following in itertools.pairwise(futures):
        future.add_done_callback(lambda _, following=following: following.cancel())
    assert futures[0].cancel()
    concurrent.futures.wait(futures, WAIT)


EVERY_ORDER = [from_the_front, from_the_back, at_random, by_several_threads, twice, in_callbacks]


@pytest.mark.parametrize("cancel", EVERY_ORDER)
def test_a_burst_of_cancels_leaves_at_once(
    client: Client, cluster: FakeCluster, cancel: Callable[[Futures], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the place that the first one frees is given to the second, which begins, and so on."""
    quiet_seconds = ("LONE_QUIET_SECONDS", "QUIET_SECONDS", "LONGEST_SECONDS")
    for name in quiet_seconds:
        monkeypatch.setattr(canceling, name, 3 * WAIT)  # however slowly they are asked for, it is one burst
    cluster.hold()
    futures = [client.submit(abs, -number) for number in range(COUNT)]
    eventually(lambda: cluster.held_count() == COUNT, "the cluster has all of them")
    cancel(futures)
    assert all(future.cancelled() for future in futures)
    connection = client._ready().connection
    eventually(lambda: len(connection._core._cancels.waiting) == COUNT, "all are asked for")
    assert not cluster.cancels
    for name in quiet_seconds:
        monkeypatch.setattr(canceling, name, 0.0)
    connection.driver.watch.wake()
    eventually(lambda: cluster.held_count() == 0, "all are canceled")
    named = [task_id for one in cluster.cancels for task_id in columns.split_ids(one.ids)]
    assert len(named) == len(set(named)) == COUNT, "each is named once"
    assert len(cluster.cancels) == 1
    cluster.release()
    assert client.submit(abs, -1).result(WAIT) == 1


def test_calls_that_wait_for_canceled_ones_are_never_sent(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    chain = [client.submit(abs, -1)]
    for _ in range(200):
        chain.append(client.submit(abs, chain[-1]))
    eventually(lambda: cluster.held_count() == 1, "the first one is with the cluster")
    assert all(future.cancel() for future in chain) and all(future.cancelled() for future in chain)
    eventually(lambda: cluster.held_count() == 0, "the first one is canceled")
    # The IO thread may be about to end the last one, whose future this thread has ended already.
    eventually(lambda: not client._ready().connection.deferred, "none of the calls waits")
    assert sum(len(one.ids) // 16 for one in cluster.submits) == 1


@pytest.fixture
def slow_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster ends the task before the Cancel leaves."""
    monkeypatch.setattr(canceling, "LONE_QUIET_SECONDS", 1.0)


def held_task(client: Client, cluster: FakeCluster, function: Callable[[int], Any]) -> ScalerFuture:
    cluster.hold()
    future = client.submit(function, -1)
    eventually(lambda: cluster.held_count() == 1, "the task is with the cluster")
    return future


@pytest.mark.usefixtures("slow_cancels")
def test_a_result_that_was_on_its_way_is_dropped_and_released(client: Client, cluster: FakeCluster) -> None:
    cluster.inline_bytes = 1000
    future = held_task(client, cluster, large)
    stored = set(cluster.objects)
    assert future.cancel()
    cluster.release()
    eventually(lambda: "0 unfinished" in repr(client), "its result has come")
    assert future.cancelled() and future.cancel() and future.done()
    with pytest.raises(concurrent.futures.CancelledError, match=r"^the task was canceled$"):
        future.result(0)
    eventually(lambda: set(cluster.objects) <= stored, "it is never fetched, so it is released")


@pytest.mark.usefixtures("slow_cancels")
def test_a_cancel_with_a_timeout_lets_a_result_stand_that_comes_first(client: Client, cluster: FakeCluster) -> None:
    future = held_task(client, cluster, abs)
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(future.cancel(timeout=WAIT)))
    asking.start()
    eventually(lambda: bool(client._ready().connection._core._cancels.waiting), "it is asked for")
    assert not future.done()
    cluster.release()
    asking.join(WAIT)
    assert answers == [False] and future.result(0) == 1


def test_a_cancel_with_a_timeout_waits_for_the_answer(client: Client, cluster: FakeCluster) -> None:
    future = held_task(client, cluster, abs)
    assert future.cancel(timeout=WAIT) and future.cancelled() and cluster.held_count() == 0
    held = held_task(client, cluster, abs)
    assert not held.cancel(timeout=0.0) and not held.done()
    assert held.cancel()


def test_a_stuck_callback_holds_up_no_cancel(client: Client, cluster: FakeCluster) -> None:
    go_on = threading.Event()
    cluster.hold()
    futures = [client.submit(abs, -number) for number in range(100)]
    futures[0].add_done_callback(lambda _: go_on.wait(WAIT))
    called: list[ScalerFuture] = []
    for future in futures[1:]:
        future.add_done_callback(called.append)  # type: ignore[arg-type]
    assert all(future.cancel() for future in futures)
    done, _ = concurrent.futures.wait(futures, WAIT)
    assert done == set(futures)
    cluster.is_holding = False
    assert client.submit(abs, -1).result(WAIT) == 1
    go_on.set()
    eventually(lambda: len(called) == 99, "every callback is called, once")


def test_callbacks_that_cancel_submit_and_raise(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    first, second = client.submit(abs, -1), client.submit(abs, -2)
    later: list[ScalerFuture] = []

    def callback(_: concurrent.futures.Future[Any]) -> None:
        second.cancel()
        later.append(client.submit(abs, -3))
        raise ValueError("in a callback")

    first.add_done_callback(callback)
    assert first.cancel()
    eventually(lambda: bool(later), "the callback was called")
    assert second.cancelled()
    cluster.release()
    assert later[0].result(WAIT) == 3


@pytest.mark.parametrize("cancel", [from_the_front, by_several_threads])
def test_the_end_of_a_client_with_cancels_on_their_way(cluster: FakeCluster, cancel: Callable[[Futures], None]) -> None:
    cluster.hold()
    with Client(cluster.address, timeout_seconds=10) as client:
        futures = [client.submit(abs, -number) for number in range(100)]
        rest = [client.submit(abs, -number) for number in range(100)]
        cancel(futures)
    assert all(future.cancelled() for future in (*futures, *rest))
