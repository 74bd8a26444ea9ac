"""A future that the program has dropped dies at once, without a cyclic collection: its value stays stored until then.

Python's collector runs by itself in any program that allocates, so it is off here: what hangs in a cycle stays.
"""

from __future__ import annotations

import concurrent.futures
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler_protocol.ids import PeerId

LARGE = 100_000
"""Bytes that do not ride along."""

Futures = list[concurrent.futures.Future[Any]]


def large(number: int) -> bytes:
    return bytes([number]) * LARGE


def fail(*_: object) -> bytes:
    raise KeyError("on purpose")


def first(value: bytes) -> bytes:
    return value[:1] * LARGE


def calls(client: Client, function: Callable[..., bytes]) -> Futures:
    return [client.submit(function, number) for number in range(3)]


def calls_with_options(client: Client, function: Callable[..., bytes]) -> Futures:
    return [client.submit_verbose(function, (number,), {}, priority=1) for number in range(3)]


def calls_of_futures(client: Client, function: Callable[..., bytes]) -> Futures:
    value = client.submit(function, 1)
    return [value, client.submit(first, value)]


def calls_of_references(client: Client, function: Callable[..., bytes]) -> Futures:
    reference = client.send_object(5, name="five")
    return [client.submit(function, reference), client.submit(function, large(1)[0])]


def a_graph(client: Client, function: Callable[..., bytes]) -> Futures:
    graph = {"a": (function, 1), "b": (first, "a"), "c": (function, 2)}
    return list(client.get(graph, ["a", "b", "c"], block=False).values())


def a_part_of_a_graph(client: Client, function: Callable[..., bytes]) -> Futures:
    """Requests one key of a graph. The scheduler releases the results that are not requested."""
    graph = {"a": (abs, -1), "b": (function, "a"), "c": (function, 2)}
    return [client.get(graph, "b", block=False)]


WAYS = (calls, calls_with_options, calls_of_futures, calls_of_references, a_graph, a_part_of_a_graph)


def ended(client: Client, cluster: FakeCluster, futures: Futures) -> None:
    cluster.release()
    concurrent.futures.wait(futures, WAIT)


def fetched(client: Client, cluster: FakeCluster, futures: Futures) -> None:
    cluster.release()
    while futures:
        with suppress(KeyError):
            read(futures)


def read(futures: Futures) -> object:
    """An exception refers to the frames that it came through. This one shall not refer to the future, nor may ours."""
    return futures.pop().result(WAIT)


def dropped_at_once(client: Client, cluster: FakeCluster, futures: Futures) -> None:
    futures.clear()
    cluster.release()


def canceled(client: Client, cluster: FakeCluster, futures: Futures) -> None:
    for future in futures:
        future.cancel()
    cluster.release()
    concurrent.futures.wait(futures, WAIT)


def cleared(client: Client, cluster: FakeCluster, futures: Futures) -> None:
    client.clear()
    cluster.release()


def left(client: Client, cluster: FakeCluster, futures: Futures) -> None:
    client.disconnect()


def lost(client: Client, cluster: FakeCluster, futures: Futures) -> None:
    """They are sent again."""
    cluster.lose_clients()
    cluster.release()
    concurrent.futures.wait(futures, WAIT)


ENDS = (ended, fetched, dropped_at_once, canceled, cleared, left, lost)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("function", (large, fail))
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("way", WAYS)
def test_a_dropped_future_dies(
    client: Client,
    cluster: FakeCluster,
    way: Callable[[Client, Callable[..., bytes]], Futures],
    end: Callable[[Client, FakeCluster, Futures], None],
    function: Callable[..., bytes],
) -> None:
    cluster.hold()
    futures = way(client, function)
    alive = [weakref.ref(future) for future in futures]
    identity = client.identity
    end(client, cluster, futures)
    del futures
    eventually(lambda: not any(one() is not None for one in alive), "no future that was dropped lives")
    if end is not left:
        # An ended call releases what it took, and another one sends that.
        eventually(lambda: _is_empty(client, cluster, identity), "no value that was dropped is stored")


def _is_empty(client: Client, cluster: FakeCluster, identity: PeerId) -> bool:
    client.submit(abs, -1).result(WAIT)
    return not cluster.values_of(identity) and not cluster.values_of(client.identity)


@pytest.mark.parametrize("function", (large, fail))
def test_what_waits_by_itself_leaves_nothing(client: Client, cluster: FakeCluster, function: Any) -> None:
    graph = {"a": (abs, -1), "b": (function, "a"), "c": (function, 2)}
    for ask in (
        lambda: client.map(function, range(3)),
        lambda: list(client.imap(function, range(3))),
        lambda: next(client.imap(function, range(3))),
        lambda: client.get(graph, ["b", "c"]),
        lambda: client.get(graph, "b"),
    ):
        with suppress(KeyError):
            ask()
    eventually(lambda: _is_empty(client, cluster, client.identity), "no value is stored")
