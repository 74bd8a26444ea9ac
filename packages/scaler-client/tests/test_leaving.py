"""What becomes of tasks that have not ended when a program leaves its client's `with` block."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import math
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client, ScalerFuture
from scaler.client.futures import leaving
from scaler.client.io.connection import Connection
from scaler.client.submitting.mapping import FIRST_BATCH, Gathering
from scaler.client.submitting.streaming import Streaming
from scaler.utility.exceptions import ClientQuitException, ObjectStorageException


@pytest.mark.parametrize(("count", "told"), [(1, "canceled 1 task that had"), (3, "canceled 3 tasks that had")])
def test_leaving_says_once_how_many_it_canceled(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, count: int, told: str
) -> None:
    with Client(cluster.address) as client:
        client.submit(abs, -1).result(WAIT)
        cluster.hold()
        futures = [client.submit(abs, number) for number in range(count)]
    assert all(future.cancelled() for future in futures)
    assert [told in record.getMessage() for record in caplog.records] == [True]


def test_nothing_is_said_where_nothing_was_lost(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    with Client(cluster.address) as client:
        client.submit(abs, -1).result(WAIT)
    with pytest.raises(ZeroDivisionError), Client(cluster.address) as client:
        cluster.hold()
        client.submit(abs, -1)
        client.submit(lambda: 1 / 0, 1 // 0)  # an exception says enough
    with Client(cluster.address) as client:
        client.submit(abs, -1)
        client.disconnect()
    with Client(cluster.address) as client:
        client.submit(abs, -1).cancel()  # the program knows, although the cluster may not have answered
    assert caplog.records == []


def test_on_request_it_waits_as_executors_do(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_end = ScalerFuture.wait_for_end

    def released(future: ScalerFuture[int], end_at: float = math.inf) -> None:
        cluster.release()
        wait_for_end(future, end_at)

    monkeypatch.setattr(ScalerFuture, "wait_for_end", released)
    with pytest.raises(ValueError, match='on_exit must be "cancel" or "wait"'):
        Client(cluster.address, on_exit="leave")  # type: ignore[arg-type]
    cluster.hold()
    with Client(cluster.address, on_exit="wait") as client:
        futures = [client.submit(abs, -number) for number in range(3)]
        eventually(lambda: cluster.held_count() == 3, "all are submitted")
        again = pickle.loads(pickle.dumps(client))
        assert again._on_exit == "wait", "also as an argument of a task"
    assert [future.result(0) for future in futures] == [0, 1, 2]
    assert caplog.records == []


def leave(client: Client, how: str) -> None:
    if how == "with":
        with client:
            pass
    else:
        client.shutdown(wait=how == "wait")


@pytest.mark.parametrize("how", ["with", "wait", "later"])
@pytest.mark.parametrize("sent", [1, FIRST_BATCH])
def test_a_map_in_another_thread_is_waited_for_to_its_end(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, how: str, sent: int
) -> None:
    """Also when none of its tasks is in flight: its iterable goes on when the client is being left."""
    client = Client(cluster.address, on_exit="wait")
    is_left, wait_for_end = threading.Event(), Gathering.wait_for_end

    def items() -> Iterator[int]:
        yield from range(sent)
        assert is_left.wait(WAIT)
        yield from range(sent, 100)

    def released(gathering: Gathering) -> None:
        if not is_left.is_set():  # it may be asked once more, when the cluster of this test has ended
            is_left.set()
            cluster.release()
        wait_for_end(gathering)

    monkeypatch.setattr(Gathering, "wait_for_end", released)
    cluster.hold()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        mapped = pool.submit(client.map, abs, items())
        maps = client._ready().maps
        eventually(lambda: bool(maps) and (sent == 1 or cluster.held_count() > 0), "it runs")
        leave(client, how)
        assert mapped.result(WAIT) == list(range(100))
    assert not maps
    with pytest.raises(ClientQuitException):
        client.submit(abs, -1)


def test_a_map_whose_own_thread_leaves_is_not_waited_for(cluster: FakeCluster) -> None:
    client = Client(cluster.address)

    def items() -> Iterator[int]:
        yield from range(100)
        client.shutdown(wait=True)
        yield 100

    with pytest.raises(CancelledError):
        client.map(abs, items())


def test_of_an_imap_what_is_in_flight_is_waited_for(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the thread that takes its results, which it therefore cannot do meanwhile."""
    wait_for_end = Streaming.wait_for_end

    def released(gathering: Streaming) -> None:
        cluster.release()
        wait_for_end(gathering)

    monkeypatch.setattr(Streaming, "wait_for_end", released)
    cluster.hold()
    with Client(cluster.address, on_exit="wait") as client:
        endless, short = client.imap(abs, itertools.count(), window=4), client.imap(abs, range(3))
        eventually(lambda: cluster.held_count() == 1 + 3, "the first batches are in flight")
    assert [next(endless)] == [0]
    with pytest.raises(ClientQuitException, match="no further item"):
        next(endless)
    assert list(short) == [0, 1, 2] and list(endless) == []


def test_an_imap_goes_on_in_its_thread_while_what_is_in_flight_is_waited_for(cluster: FakeCluster) -> None:
    client = Client(cluster.address)
    cluster.hold()
    results = client.imap(abs, range(10), window=8)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(next, results)
        eventually(lambda: cluster.held_count() == 8, "the window is full")
        left = pool.submit(client.shutdown, wait=True)
        eventually(lambda: results._gathering.is_leaving, "it waits")
        assert not left.done()
        cluster.release()
        left.result(WAIT)
        assert first.result(WAIT) == 0
    assert [next(results) for _ in range(7)] == list(range(1, 8))
    with pytest.raises(ClientQuitException):
        next(results)


LARGE = 100_000


def stop(client: Client) -> None:
    with pytest.raises(ValueError, match="protected"):  # this cluster does not stop, and the client leaves it
        client.shutdown()


#: how a program leaves its client, when all tasks have ended
LEAVING: dict[str, Callable[[Client], object]] = {
    "with": lambda client: client.__exit__(None, None, None),
    "with an exception": lambda client: client.__exit__(ValueError, ValueError(), None),
    "disconnect": lambda client: client.disconnect(),
    "shutdown(wait=True)": lambda client: client.shutdown(wait=True),
    "shutdown(cancel_futures=True)": lambda client: client.shutdown(cancel_futures=True),
    "shutdown()": lambda client: stop(client),
    "async with": lambda client: asyncio.run(client.__aexit__(None, None, None)),
}

#: how it reads results after that: each gives the value of bytes(LARGE)
READING: dict[str, Callable[[Client], Callable[[], object]]] = {
    "result": lambda client: partial(ended(client.submit(bytes, LARGE)).result, 0),
    "await": lambda client: partial(run, awaited, ended(client.submit(bytes, LARGE))),
    "exception and result": lambda client: partial(both, ended(client.submit(bytes, LARGE))),
    "get": lambda client: partial(ended(client.get({"a": (bytes, LARGE)}, ["a"], block=False)["a"]).result, 0),
    "imap": lambda client: partial(next, arrived(client.imap(bytes, [LARGE]))),
    "imap in an event loop": lambda client: partial(run, anext_of, arrived(client.imap(bytes, [LARGE]))),
    "map": lambda client: partial(next, iter(client.map(bytes, [LARGE]))),
}


def ended(future: Any) -> Any:
    concurrent.futures.wait([future], WAIT)
    return future


def arrived(results: Any) -> Any:
    eventually(lambda: bool(results._gathering._arrived), "it has ended")
    return results


def both(future: Any) -> object:
    assert future.exception(0) is None
    return future.result(0)


def run(step: Callable[[Any], Any], found: Any) -> object:
    return asyncio.run(step(found))


async def awaited(future: Any) -> object:
    return await future


async def anext_of(results: Any) -> object:
    return await results.__anext__()


@pytest.mark.parametrize("how", LEAVING)
def test_large_results_are_read_afterwards_as_small_ones_are(cluster: FakeCluster, how: str) -> None:
    client = Client(cluster.address)
    reads = {name: begin(client) for name, begin in READING.items()}
    LEAVING[how](client)
    assert {name for name, read in reads.items() if read() != bytes(LARGE)} == set()


def test_what_is_waited_for_can_be_read_afterwards(cluster: FakeCluster) -> None:
    with Client(cluster.address, on_exit="wait") as client:
        future, results = client.submit(bytes, LARGE), client.imap(bytes, [LARGE, 3, LARGE])
    assert future.result(0) == bytes(LARGE)
    assert list(results) == [bytes(LARGE), bytes(3), bytes(LARGE)]


def test_what_is_read_or_dropped_is_not_fetched_once_more(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[object] = []
    client = Client(cluster.address)
    read, dropped, held = (ended(client.submit(bytes, LARGE)) for _ in range(3))
    small = ended(client.submit(bytes, 3))
    read.result(0)
    held_id = held.task_id
    del dropped
    fetch_one = Connection.fetch_one
    monkeypatch.setattr(
        Connection, "fetch_one", lambda self, one, end_at: fetched.append(one.ids[0]) or fetch_one(self, one, end_at)
    )
    client.disconnect()
    assert fetched == [held_id]
    assert held.result(0) == bytes(LARGE) and small.result(0) == bytes(3)


def test_leaving_fetches_no_more_than_its_bound(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leaving, "MOST_BYTES", 2 * LARGE)
    with Client(cluster.address) as client:
        futures = [ended(client.submit(bytes, LARGE)) for _ in range(5)]
    assert "large results of 3 futures cannot be read from now on" in caplog.text
    errors = [future.exception(0) for future in futures]
    assert errors[:2] == [None, None]
    assert all(isinstance(error, ObjectStorageException) for error in errors[2:])


def test_leaving_does_not_wait_for_a_storage_that_is_silent(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(cluster.address, timeout_seconds=0.5)
    futures = [ended(client.submit(bytes, LARGE)) for _ in range(3)]
    with cluster.silent_storage():
        client.disconnect()
    assert "large results of 3 futures cannot be read from now on" in caplog.text
    assert all(isinstance(future.exception(0), ObjectStorageException) for future in futures)


def test_after_ctrl_c_nothing_is_waited_for(cluster: FakeCluster) -> None:
    with pytest.raises(KeyboardInterrupt), Client(cluster.address) as client:
        future = ended(client.submit(bytes, LARGE))
        raise KeyboardInterrupt
    assert isinstance(future.exception(0), ObjectStorageException)
