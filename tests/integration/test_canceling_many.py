"""Many futures are canceled, one after another: what had not begun never begins."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from tests.support import tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

PLACES = 4
COUNT = 600
SECONDS = 100.0


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    cluster = RealCluster(module_stage, PLACES)
    yield cluster
    cluster.wait_until_empty()


class Begun:
    """Which tasks have begun: each leaves a line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def count(self) -> int:
        return self.path.read_text().count("\n") if self.path.exists() else 0

    def are_all_places_taken(self) -> None:
        until(lambda: self.count() == PLACES, "every place is taken")


@pytest.fixture
def begun(tmp_path: Path) -> Begun:
    return Begun(tmp_path / "begun")


def submit(client: Client, begun: Begun) -> list[Any]:
    return [client.submit(tasks.sleep_after_note, str(begun.path), SECONDS) for _ in range(COUNT)]


def from_the_front(futures: list[Any]) -> None:
    for future in futures:
        assert future.cancel()


def from_the_back(futures: list[Any]) -> None:
    for future in reversed(futures):
        assert future.cancel()


def at_random(futures: list[Any]) -> None:
    for future in random.Random(2).sample(futures, len(futures)):
        assert future.cancel()


def by_threads(futures: list[Any]) -> None:
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        assert all(threads.map(lambda future: future.cancel(), futures))


def around_a_standstill(futures: list[Any]) -> None:
    """Of the whole process: as in a collection of garbage, no other thread of it runs meanwhile."""
    for number, future in enumerate(futures):
        if number == COUNT // 2:
            ctypes.PyDLL(None).usleep(500_000)
        assert future.cancel()


def by_asyncio(futures: list[Any]) -> None:
    async def main() -> None:
        waiting = [asyncio.ensure_future(asyncio.wrap_future(future)) for future in futures]
        await asyncio.sleep(0)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(main())


def when_one_has_failed(futures: list[Any]) -> None:
    """As a loop over `wait` does."""
    concurrent.futures.wait(futures, 0.01, concurrent.futures.FIRST_EXCEPTION)
    assert not [future for future in futures if not future.cancel()]


ORDERS = [from_the_front, from_the_back, at_random, by_threads, around_a_standstill, by_asyncio, when_one_has_failed]


@pytest.mark.parametrize("cancel", ORDERS)
def test_none_begins_because_another_is_canceled(
    client: Client, cluster: RealCluster, begun: Begun, cancel: Callable[[list[Any]], None]
) -> None:
    futures = submit(client, begun)
    begun.are_all_places_taken()
    cancel(futures)
    assert all(future.cancelled() for future in futures)
    after = [client.submit(tasks.square, number) for number in range(2 * PLACES)]
    assert [one.result(WAIT) for one in after] == [number**2 for number in range(2 * PLACES)]
    cluster.wait_until(lambda status: not sum(one.held_count for one in status.workers), "nothing runs any more")
    assert begun.count() == PLACES


@pytest.mark.parametrize("end", ["shutdown", "exception", "clear"])
def test_none_begins_because_a_client_ends(cluster: RealCluster, begun: Begun, end: str) -> None:
    with pytest.raises(LookupError), Client(cluster.address) as client:
        futures = submit(client, begun)
        begun.are_all_places_taken()
        if end == "shutdown":
            client.shutdown(wait=True, cancel_futures=True)
        elif end == "clear":
            client.clear()
        raise LookupError
    assert all(future.cancelled() for future in futures)
    with Client(cluster.address) as client:
        assert client.submit(tasks.square, 3).result(WAIT) == 9
    cluster.wait_until_empty()
    assert begun.count() == PLACES


def test_calls_on_the_values_of_canceled_ones(client: Client, cluster: RealCluster, begun: Begun) -> None:
    first = submit(client, begun)
    second = [client.submit(tasks.note, str(begun.path), future) for future in first]
    begun.are_all_places_taken()
    from_the_front([future for pair in zip(first, second, strict=True) for future in pair])
    cluster.wait_until(lambda status: not sum(one.held_count for one in status.workers), "nothing runs any more")
    assert begun.count() == PLACES


def test_several_graphs(client: Client, cluster: RealCluster, begun: Begun) -> None:
    graph = {
        "log": str(begun.path),
        "seconds": SECONDS,
        "a": (tasks.sleep_after_note, "log", "seconds"),
        "b": (tasks.note, "log", "a"),
    }
    graphs = [client.get(graph, ["a", "b"], block=False) for _ in range(100)]
    begun.are_all_places_taken()
    for futures in graphs:
        assert futures["b"].cancel()
    for futures in graphs:
        until(futures["a"].cancelled, "the other node of the graph is canceled too")
    cluster.wait_until(lambda status: not sum(one.held_count for one in status.workers), "nothing runs any more")
    assert begun.count() == PLACES
