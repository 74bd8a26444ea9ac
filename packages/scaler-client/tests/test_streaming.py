"""Client.imap and as_completed, against a fake cluster on the real wire."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import gc
import itertools
import math
import operator
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler.client.submitting.streaming import AsTheyCome, InOrder


class Counted:
    """An iterable that knows how far it was read."""

    def __init__(self, end: int | None = None) -> None:
        self.read = 0
        self._end = end

    def __iter__(self) -> Iterator[int]:
        for number in itertools.count():
            if number == self._end:
                return
            self.read += 1
            yield number


def test_the_results_of_map_one_by_one(client: Client) -> None:
    results = client.imap(operator.mul, range(5), itertools.count())
    assert next(results) == 0
    assert list(results) == [1, 4, 9, 16]
    assert list(results) == [], "it has ended"
    assert list(client.imap(abs, [])) == []
    assert list(client.imap(operator.neg, range(20_000))) == [-number for number in range(20_000)]
    assert sorted(client.imap(abs, range(-300, 0), ordered=False)) == list(range(1, 301))


class Item:
    """An argument that can be watched."""


@pytest.mark.parametrize("is_ordered", [True, False])
def test_no_more_items_and_results_live_than_the_window_holds(client: Client, is_ordered: bool) -> None:
    living: weakref.WeakSet[Item] = weakref.WeakSet()

    def items() -> Iterator[Item]:
        for _ in range(400):
            item = Item()
            living.add(item)
            yield item

    window, most = 8, 0
    for result in client.imap(copy.copy, items(), window=window, ordered=is_ordered):
        living.add(result)
        most = max(most, len(living))
    assert most <= 4 * window, "of each task its item, and its result once more"


@pytest.mark.parametrize("window", [1, 2, 3, 7, 100, None])
@pytest.mark.parametrize("is_ordered", [True, False])
def test_an_iterable_without_end_is_read_no_further_than_the_window(
    client: Client, window: int | None, is_ordered: bool
) -> None:
    numbers, most = Counted(), window or 1_024
    results = client.imap(abs, numbers, window=window, ordered=is_ordered)
    for taken in range(1, 30):
        next(results)
        assert numbers.read - taken <= most
    assert numbers.read > 29 or window == 1
    results.close()
    assert list(results) == []


def test_all_of_the_window_is_in_flight_at_once(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    numbers = Counted()
    results = client.imap(abs, numbers, window=8)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, results)
        eventually(lambda: cluster.held_count() == 8, "the window is full")
        cluster.release()
        assert first.result(WAIT) == 0


def test_a_failure_comes_in_its_place_and_ends_it(client: Client, cluster: FakeCluster) -> None:
    results = client.imap(math.sqrt, [1, 4, -1, 9])
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        next(results)
    assert list(results) == []
    assert client.submit(abs, -1).result(WAIT) == 1


def test_what_has_not_ended_is_canceled(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    for end in ("close", "drop", "timeout", "iterable"):
        items: Any = (1 / (8 - number) for number in range(9)) if end == "iterable" else range(100)
        if end == "iterable":
            with pytest.raises(ZeroDivisionError):
                list(client.imap(abs, items))
        else:
            results = client.imap(abs, items, window=20, timeout=0.05 if end == "timeout" else None)
            eventually(lambda: cluster.held_count() > 0, "the first batch is there")
            if end == "close":
                results.close()
            elif end == "timeout":
                with pytest.raises(concurrent.futures.TimeoutError):
                    next(results)
            del results
            gc.collect()
        eventually(lambda: cluster.held_count() == 0, f"nothing is left after: {end}")


def test_wrong_arguments_are_told_in_the_callers_line(client: Client) -> None:
    for window in (0, -1):
        with pytest.raises(ValueError, match="window must be 1 or more"):
            client.imap(abs, [1], window=window)
    with pytest.raises(TypeError, match="window must be a whole number"):
        client.imap(abs, [1], window=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="at least one iterable"):
        client.imap(abs)
    with pytest.raises(TypeError, match="positional"):
        client.imap(lambda one: one, [1], [2])


def test_large_values_and_references(client: Client) -> None:
    reference = client.send_object([1, 2, 3])
    assert list(client.imap(operator.getitem, [reference] * 3, range(3))) == [1, 2, 3]
    assert [len(one) for one in client.imap(bytes, [200_000, 1, 300_000], window=1)] == [200_000, 1, 300_000]


def test_as_completed(client: Client) -> None:
    futures = [client.submit(abs, -number) for number in range(10)]
    assert sorted(future.result() for future in client.as_completed(futures, timeout=WAIT)) == list(range(10))


@given(st.permutations(range(12)))
@settings(max_examples=50)
def test_places_give_each_value_once(arrivals: list[int]) -> None:
    in_order, as_they_come = InOrder(), AsTheyCome()
    ordered, unordered = [], []
    for position in arrivals:
        in_order[position] = as_they_come[position] = position
        while in_order.has_next():
            ordered.append(in_order.take())
        while as_they_come.has_next():
            unordered.append(as_they_come.take())
    assert ordered == sorted(arrivals)
    assert unordered == arrivals
    assert len(in_order) == len(as_they_come) == 0


# ---------------------------------------------------------------- in an event loop


def ticks_while(work: Any) -> tuple[Any, int]:
    """What the coroutine returns, and how often the loop came round meanwhile."""

    async def run() -> tuple[Any, int]:
        task, ticks = asyncio.ensure_future(work), 0
        while not task.done():
            ticks += 1
            await asyncio.sleep(0)
        return task.result(), ticks

    return asyncio.run(run())


def test_in_a_loop_results_come_without_blocking_it(client: Client, cluster: FakeCluster) -> None:
    async def collected() -> list[int]:
        return [value async for value in client.imap(abs, range(-50, 0), window=8)]

    found, ticks = ticks_while(collected())
    assert found == list(range(50, 0, -1)) and ticks > 50


def test_a_client_in_a_loop(cluster: FakeCluster) -> None:
    async def work() -> list[int]:
        async with await Client.open(cluster.address, timeout_seconds=10) as client:
            return await asyncio.gather(*(client.submit(abs, -number) for number in range(1_000)))

    before = threading.active_count()
    found, ticks = ticks_while(work())
    assert found == list(range(1_000)) and ticks > 1
    assert threading.active_count() <= before + 4, "no thread for each await"


def test_a_wait_that_is_canceled_leaves_no_thread_behind(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()

    async def work() -> None:
        results = client.imap(abs, range(100), window=8)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(results), 0.05)
        assert [value async for value in results] == []

    asyncio.run(work())  # ends only when the threads of its executor have
    eventually(lambda: cluster.held_count() == 0, "nothing is left")
