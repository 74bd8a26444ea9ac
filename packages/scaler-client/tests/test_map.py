"""Client.map and starmap, against a fake cluster on the real wire."""

from __future__ import annotations

import concurrent.futures
import itertools
import math
import operator
import threading
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client


def test_map_as_the_builtin(client: Client) -> None:
    assert client.map(operator.mul, range(5), itertools.count()) == [0, 1, 4, 9, 16]
    assert client.map(abs, []) == [] == client.map(abs, iter([]))
    assert client.map(abs, range(-3, 0)) == [3, 2, 1] == client.map(abs, iter(range(-3, 0)))
    assert client.map(len, {"ab": 1}) == [2]
    assert client.map(str, [1, (2,)]) == ["1", "(2,)"]
    with pytest.raises(TypeError, match="at least one iterable"):
        client.map(abs)


def test_options_of_other_executors_have_no_effect(client: Client) -> None:
    assert client.map(str, [1, 2], chunksize=100, buffersize=1) == ["1", "2"]


def test_map_over_tuples_unpacks_them_as_in_earlier_days(client: Client) -> None:
    with pytest.warns(DeprecationWarning, match="starmap"):
        results = client.map(math.sqrt, [(i,) for i in range(100)])
    assert round(sum(results), 2) == 661.46
    with pytest.warns(DeprecationWarning):
        assert client.map(operator.sub, ((i, 1) for i in range(3))) == [-1, 0, 1]
    with pytest.warns(DeprecationWarning), pytest.raises(TypeError, match="item 1"):
        client.map(abs, iter([(1,), 2]))


class Row:
    def __init__(self, cells: list[int]) -> None:
        self.cells = cells


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "function, rows, results",
    [
        (len, [[1], [2, 3]], [1, 2]),
        (len, [[1, 2], (3, 4)], [2, 2]),
        (sorted, [[2, 1], [4, 3]], [[1, 2], [3, 4]]),
        (sum, [[1, 2, 3], [4]], [6, 4]),
        (list, [(1, 2)], [[1, 2]]),
        (operator.itemgetter(0), [], []),
    ],
)
def test_map_gives_each_row_as_a_whole_where_not_all_can_be_taken_apart(
    client: Client, function: Any, rows: list[Any], results: list[Any]
) -> None:
    assert client.map(function, rows) == results
    assert client.map(lambda row: len(row), rows) == [len(row) for row in rows]
    assert [row.cells for row in client.map(Row, [[1, 2], [3]])] == [[1, 2], [3]]


def test_starmap(client: Client) -> None:
    assert client.starmap(pow, [(2, 3), [3, 2]]) == [8, 9]
    assert client.starmap(pow, []) == []


def test_map_makes_large_batches(client: Client, cluster: FakeCluster) -> None:
    assert client.map(operator.neg, range(20_000)) == [-number for number in range(20_000)]
    assert len(cluster.submits) < 20


def test_map_reads_its_iterable_as_it_goes(client: Client, cluster: FakeCluster, monkeypatch: Any) -> None:
    monkeypatch.setattr("scaler.client.submitting.mapping.WINDOW_TASKS", 100)
    monkeypatch.setattr("scaler.client.submitting.mapping.LARGEST_BATCH", 20)
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


def test_map_reads_no_more_large_arguments_than_the_storage_is_to_hold(
    client: Client, cluster: FakeCluster, monkeypatch: Any
) -> None:
    monkeypatch.setattr("scaler.client.submitting.mapping.WINDOW_STORED_BYTES", 40 * 100_000)
    furthest = 0

    def arrays() -> Any:
        nonlocal furthest
        for number in range(100):
            furthest = number
            yield bytes(100_000)

    cluster.hold()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        mapped = pool.submit(client.map, len, arrays())
        eventually(lambda: cluster.held_count() >= 39, "the window is full")
        assert furthest < 40, "and nothing was read beyond it"
        cluster.release()
        assert mapped.result(WAIT) == [100_000] * 100


def test_the_first_failing_item_raises_and_the_client_lives(client: Client, cluster: FakeCluster) -> None:
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
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


@pytest.mark.parametrize("end", ["clear", "disconnect"])
@pytest.mark.parametrize("is_scheduler_gone", [False, True])
def test_a_map_whose_tasks_another_thread_cancels(
    client: Client, cluster: FakeCluster, end: str, is_scheduler_gone: bool
) -> None:
    """It ends as a future does. Also when the scheduler answers no Cancel any more, because it is another one."""
    cluster.hold()
    raised: list[BaseException] = []

    def run() -> None:
        try:
            client.map(abs, range(3))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: cluster.held_count() == 3, "the tasks are there")
    if is_scheduler_gone:
        cluster.lose_clients()
    getattr(client, end)()
    thread.join(WAIT)
    (error,) = raised
    assert isinstance(error, concurrent.futures.CancelledError) and "canceled" in str(error)


def test_what_imap_gives_of_canceled_tasks(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    results = client.imap(abs, range(3))
    eventually(lambda: cluster.held_count() == 3, "the tasks are there")
    client.clear()
    with pytest.raises(concurrent.futures.CancelledError, match="canceled"):
        next(results)


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
    with pytest.raises(concurrent.futures.TimeoutError, match="3 tasks"):
        client.map(abs, range(3), timeout=0.05)
    eventually(lambda: cluster.held_count() == 0, "its tasks are canceled")


def test_map_over_many_values_of_sixty_kilobytes(client: Client, cluster: FakeCluster) -> None:
    """All of it once left in one message that no scheduler takes."""
    arguments = [number.to_bytes(2, "little") * 30_000 for number in range(3_000)]
    assert client.map(len, arguments) == [60_000] * 3_000
    assert max(len(submit.payload) for submit in cluster.submits) <= 8 << 20
    small_then_large = [b"" for _ in range(3_000)] + arguments[:500]
    assert sum(client.map(len, small_then_large)) == 500 * 60_000
    assert max(len(submit.payload) for submit in cluster.submits) <= 8 << 20
