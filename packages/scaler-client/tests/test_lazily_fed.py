"""The law of lazily fed calls, for every way in: inputs are read a bounded window ahead of the tasks that have ended,
and an input lives no longer than until it has been sent, or its call has ended. Counted, with a cluster that holds its
tasks: no clock decides.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import importlib
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client

WINDOW = 40
BATCH = 8
COUNT = 5 * WINDOW


class Item:
    """An input that can be watched. What a worker reads is its number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return int, (self.number,)


ended: list[int] = []
"""What the tasks of the present test have returned: the cluster of a test runs them in its own thread."""


def first(number: int, *_others: int) -> int:
    ended.append(number)
    return number


class Feed:
    """Makes the inputs of a call, and counts them."""

    def __init__(self) -> None:
        self._living: weakref.WeakSet[Item] = weakref.WeakSet()
        self.furthest = 0  #: the most items that were read and had not ended
        self.most_living = 0

    def __iter__(self) -> Iterator[Item]:
        for number in range(COUNT):
            self.furthest = max(self.furthest, number + 1 - len(ended))
            item = Item(number)
            self._living.add(item)
            self.most_living = max(self.most_living, len(self._living))
            yield item
            del item

    def living(self) -> int:
        gc.collect()
        return len(self._living)


def by_map(client: Client, feed: Feed) -> list[Any]:
    return client.map(first, iter(feed))


def by_map_of_two(client: Client, feed: Feed) -> list[Any]:
    return client.map(first, iter(feed), itertools.count())


def by_starmap(client: Client, feed: Feed) -> list[Any]:
    return client.starmap(first, ((item, 0) for item in feed))


def by_imap(client: Client, feed: Feed) -> list[Any]:
    return list(client.imap(first, iter(feed), window=WINDOW))


def by_imap_as_they_come(client: Client, feed: Feed) -> list[Any]:
    return sorted(client.imap(first, iter(feed), window=WINDOW, ordered=False))


def by_async_imap(client: Client, feed: Feed) -> list[Any]:
    async def taken() -> list[Any]:
        return [value async for value in client.imap(first, iter(feed), window=WINDOW)]

    return asyncio.run(taken())


def by_joblib(client: Client, feed: Feed, **options: Any) -> list[Any]:
    joblib = pytest.importorskip("joblib")
    importlib.import_module("scaler.joblib")  # it registers the backend
    with joblib.parallel_config(backend="scaler", client=client):
        # joblib sends two batches for each of them, and has read another.
        parallel = joblib.Parallel(n_jobs=WINDOW // 3, batch_size=1, **options)
        return sorted(parallel(joblib.delayed(first)(item) for item in feed))


def by_joblib_as_generator(client: Client, feed: Feed) -> list[Any]:
    return by_joblib(client, feed, return_as="generator")


def by_joblib_as_they_come(client: Client, feed: Feed) -> list[Any]:
    return by_joblib(client, feed, return_as="generator_unordered")


LAZY_WAYS = (
    by_map,
    by_map_of_two,
    by_starmap,
    by_imap,
    by_imap_as_they_come,
    by_async_imap,
    by_joblib,
    by_joblib_as_generator,
    by_joblib_as_they_come,
)


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    ended.clear()
    monkeypatch.setattr("scaler.client.submitting.mapping.WINDOW_TASKS", WINDOW)
    monkeypatch.setattr("scaler.client.submitting.mapping.LARGEST_BATCH", BATCH)
    monkeypatch.setattr("scaler.client.submitting.mapping.FIRST_BATCH", BATCH)


@pytest.mark.parametrize("way", LAZY_WAYS)
def test_inputs_are_read_a_window_ahead(client: Client, cluster: FakeCluster, way: Callable[..., list[Any]]) -> None:
    feed = Feed()
    cluster.hold()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        results = pool.submit(way, client, feed)
        while not results.done():
            expected = min(WINDOW // 2, COUNT - len(ended))
            eventually(lambda: results.done() or cluster.held_count() >= expected, "the window is full")  # noqa: B023
            cluster.release()
            cluster.hold()
        assert results.result(WAIT) == list(range(COUNT))
    assert WINDOW // 2 <= feed.furthest <= WINDOW + BATCH
    assert feed.most_living <= WINDOW + BATCH
    assert not feed.living()


def get_graph(client: Client, graph: dict[str, Any], keys: list[str]) -> list[Any]:
    return list(client.get(graph, keys).values())


def dask_get(client: Client, graph: dict[str, Any], keys: list[str]) -> list[Any]:
    dask = pytest.importorskip("dask")
    values = [dask.delayed(first)(task[1]) for task in graph.values()]
    return list(dask.compute(*values, scheduler=client))


@pytest.mark.parametrize("way", [get_graph, dask_get])
def test_inputs_of_a_graph_live_as_long_as_the_graph(client: Client, way: Callable[..., list[Any]]) -> None:
    """A graph is whole when it is sent, so nothing of it is read ahead. When it has been, only the program has it."""
    feed = Feed()
    graph = {f"key {item.number}": (first, item) for item in feed}
    assert feed.living() == COUNT
    assert way(client, graph, list(graph)) == list(range(COUNT))
    del graph
    assert not feed.living()


def test_inputs_of_a_graph_are_not_kept_until_it_has_ended(client: Client, cluster: FakeCluster) -> None:
    feed = Feed()
    graph = {f"key {item.number}": (first, item) for item in feed}
    cluster.hold()
    futures = client.get(graph, list(graph), block=False)
    eventually(lambda: cluster.held_count() == COUNT, "the whole graph was sent")
    del graph
    assert not feed.living()
    cluster.release()
    assert [future.result(WAIT) for future in futures.values()] == list(range(COUNT))
