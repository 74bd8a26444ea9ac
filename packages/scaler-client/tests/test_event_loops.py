"""Clients, futures and iterators in event loops, against a fake cluster on the real wire: the loop is never blocked."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client, ScalerFuture
from scaler.client.futures import looping
from scaler.client.futures.looping import Threads
from scaler.utility.exceptions import ClientQuitException

T = TypeVar("T")

_gate = threading.Event()
_readers: list[int] = []
"""The threads that have begun to unpickle a value."""


def _read_at_the_gate(value: Any) -> Any:
    _readers.append(threading.get_ident())
    assert _gate.wait(WAIT), "the gate stays closed"
    return value


class Gated:
    """Unpickling it waits for the gate, and gives the value."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> Any:
        return _read_at_the_gate, (self._value,)


def gated(size: int) -> Any:
    return Gated(bytes(size))


def divided(value: int) -> float:
    return 1 / value


def raising(error: BaseException) -> None:
    raise error


@pytest.fixture(autouse=True)
def gate() -> Iterator[threading.Event]:
    _gate.clear()
    _readers.clear()
    yield _gate
    _gate.set()


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, WAIT))


async def turns_until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


# ---------------------------------------------------------------- futures


@pytest.mark.parametrize("size", [20_000, 200_000], ids=["inline", "in the storage"])
@pytest.mark.parametrize("has_ended", [True, False])
def test_a_large_result_is_read_in_a_thread(client: Client, gate: threading.Event, size: int, has_ended: bool) -> None:
    async def work() -> bytes:
        future = client.submit(gated, size)
        if has_ended:
            await turns_until(future.done)
        waiting = asyncio.ensure_future(future)
        await turns_until(lambda: _readers)  # so the loop turns while another thread unpickles
        assert _readers[0] != threading.get_ident() and not waiting.done()
        gate.set()
        return await waiting

    assert run(work()) == bytes(size)


def test_a_wait_is_canceled_while_its_result_is_read(client: Client, gate: threading.Event) -> None:
    async def work(future: ScalerFuture[bytes]) -> None:
        waiting = asyncio.ensure_future(future)
        await turns_until(lambda: _readers)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.set()
        assert await future == bytes(200_000), "the task had ended, so its result stands"

    future = client.submit(gated, 200_000)
    run(work(future))
    assert not future.cancelled() and future.result(WAIT) == bytes(200_000)
    assert len(_readers) == 1, "it is read once"


def test_a_loop_is_closed_while_a_result_is_read(client: Client, gate: threading.Event) -> None:
    loop = asyncio.new_event_loop()
    future = client.submit(gated, 200_000)

    async def begin() -> Any:
        waiting = asyncio.ensure_future(future)
        await turns_until(lambda: _readers)
        return waiting

    waiting = loop.run_until_complete(asyncio.wait_for(begin(), WAIT))
    waiting.cancel()
    loop.run_until_complete(asyncio.wait([waiting]))
    loop.close()
    gate.set()
    assert future.result(WAIT) == bytes(200_000)
    eventually(lambda: looping.reading._count == 0, "the thread has ended")


def test_a_storage_that_does_not_answer_does_not_block_the_loop(client: Client, cluster: FakeCluster) -> None:
    async def work() -> bytes:
        future = client.submit(bytes, 200_000)
        await turns_until(future.done)
        with cluster.stuck():
            waiting = asyncio.ensure_future(future)
            for _ in range(100):
                await asyncio.sleep(0)
            assert not waiting.done()
        return await waiting

    assert run(work()) == bytes(200_000)


def test_how_tasks_end_is_told_to_each_that_waits(client: Client, cluster: FakeCluster) -> None:
    async def work() -> None:
        for error in (ValueError("bad"), ValueError("x" * 200_000), concurrent.futures.CancelledError("its own")):
            future = client.submit(raising, error)
            first, second = await asyncio.gather(future, future, return_exceptions=True)
            assert first is second and type(first) is type(error) and first.args == error.args
        with pytest.raises(RuntimeError, match="StopIteration"):
            await client.submit(raising, StopIteration(3))
        small = client.submit(abs, -3)
        assert await asyncio.gather(small, small) == [3, 3] and await small == 3
        cluster.hold()
        held = client.submit(abs, -4)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(held, 0.01)
        assert held.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await held
        kept = client.submit(abs, -5)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(kept), 0.01)
        await asyncio.to_thread(cluster.release)
        assert await kept == 5, "what is shielded goes on"

    run(work())


def test_ten_thousand_awaits_at_once_take_no_thread_each(client: Client, cluster: FakeCluster) -> None:
    count = 10_000

    async def work() -> tuple[list[int], int]:
        futures = [client.submit(abs, -number) for number in range(count)]
        waiting = asyncio.gather(*futures)
        await asyncio.sleep(0)  # all of them wait now
        await asyncio.sleep(0)
        most = threading.active_count()
        await asyncio.to_thread(cluster.release)
        return await waiting, most

    cluster.hold()
    before = threading.active_count()
    found, most = run(work())
    assert found == list(range(count))
    assert most <= before + 4, "no thread for each await"


def test_a_future_that_has_ended_keeps_no_callback(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    future, called = client.submit(abs, -3), threading.Semaphore(0)
    future.add_done_callback(lambda _: called.release())
    cluster.release()
    assert called.acquire(timeout=WAIT)
    eventually(lambda: not future._done_callbacks, "the callback is dropped")
    future.add_done_callback(lambda _: called.release())
    assert called.acquire(blocking=False), "it has ended, so it calls at once"
    assert not future._done_callbacks


# ---------------------------------------------------------------- iterators


def with_one_thread(loop: asyncio.AbstractEventLoop) -> None:
    """What else a program does in the default executor of its loop then takes this thread."""
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1))


async def collected(values: AsyncIterator[T]) -> list[T]:
    return [value async for value in values]


@pytest.mark.parametrize("is_ordered", [True, False])
def test_forty_iterations_side_by_side_take_no_thread_while_they_wait(
    client: Client, cluster: FakeCluster, is_ordered: bool
) -> None:
    async def work() -> list[list[int]]:
        with_one_thread(asyncio.get_running_loop())
        rows = [client.imap(abs, range(-number, 0), ordered=is_ordered, window=4) for number in range(40)]
        waiting = [asyncio.ensure_future(collected(results)) for results in rows]
        await turns_until(lambda: sum(results._gathering.wake is not None for results in rows) == 39)
        await turns_until(lambda: looping.iterating._count == 0)
        await asyncio.to_thread(cluster.release)
        return await asyncio.gather(*waiting)

    cluster.hold()
    found = run(work())
    assert [sorted(row) for row in found] == [list(range(1, number + 1)) for number in range(40)]
    if is_ordered:
        assert all(row == sorted(row, reverse=True) for row in found)


def test_iterables_that_block_keep_no_others_waiting(client: Client, gate: threading.Event) -> None:
    def items() -> Iterator[int]:
        yield 1
        assert gate.wait(WAIT), "the gate stays closed"
        yield 2

    async def work() -> None:
        with_one_thread(asyncio.get_running_loop())
        blocked = [client.imap(abs, items(), window=1) for _ in range(40)]
        assert [await anext(results) for results in blocked] == [1] * 40
        waiting = [asyncio.ensure_future(anext(results)) for results in blocked]
        await turns_until(lambda: looping.iterating._count == 40)
        assert await collected(client.imap(abs, range(-100, 0), window=8)) == list(range(100, 0, -1))
        assert len(await client.submit(bytes, 200_000)) == 200_000
        await asyncio.to_thread(gate.set)
        assert await asyncio.gather(*waiting) == [2] * 40

    run(work())


def test_what_is_read_after_the_iteration_was_closed_is_canceled(
    client: Client, cluster: FakeCluster, gate: threading.Event
) -> None:
    def items() -> Iterator[int]:
        yield 1
        assert gate.wait(WAIT), "the gate stays closed"
        yield 2

    async def work() -> None:
        results = client.imap(abs, items(), window=1)
        assert await anext(results) == 1
        cluster.hold()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(results), 0.05)
        with pytest.raises(StopAsyncIteration):
            await anext(results)

    run(work())
    gate.set()
    eventually(lambda: looping.iterating._count == 0, "the thread has ended")
    behind = client.submit(abs, -3).task_id
    eventually(lambda: any(task.task_id == behind for _, _, tasks in cluster._held for task in tasks), "the next task")
    eventually(lambda: cluster.held_count() == 1, "nothing else is left")


def test_an_iteration_is_closed_while_another_coroutine_waits_for_it(client: Client, cluster: FakeCluster) -> None:
    async def work() -> None:
        results = client.imap(abs, range(10))
        waiting = asyncio.ensure_future(collected(results))
        await turns_until(lambda: results._gathering.wake is not None)
        results.close()
        assert await waiting == []

    cluster.hold()
    run(work())
    eventually(lambda: cluster.held_count() == 0, "nothing is left")


def test_an_iteration_goes_on_while_its_client_leaves(cluster: FakeCluster) -> None:
    """What is in flight is waited for, and no further item is sent. (As without a loop: test_leaving.py)"""

    async def work() -> None:
        results = client.imap(abs, range(10), window=8)
        first = asyncio.ensure_future(anext(results))
        await turns_until(lambda: results._gathering.wake is not None)
        left = asyncio.ensure_future(asyncio.to_thread(client.shutdown, wait=True))
        await turns_until(lambda: results._gathering.is_leaving)
        assert not left.done()
        await asyncio.to_thread(cluster.release)
        await left
        assert [await first, *[await anext(results) for _ in range(7)]] == list(range(8))
        with pytest.raises(ClientQuitException, match="no further item"):
            await anext(results)

    client = Client(cluster.address)
    cluster.hold()
    run(work())


def test_failures_and_the_end_of_the_time_come_up_in_a_loop(client: Client, cluster: FakeCluster) -> None:
    async def work() -> None:
        results = client.imap(divided, [1, 2, 0, 4])
        assert [await anext(results), await anext(results)] == [1.0, 0.5]
        with pytest.raises(ZeroDivisionError):
            await anext(results)
        with pytest.raises(StopAsyncIteration):
            await anext(results)
        cluster.hold()
        with pytest.raises(concurrent.futures.TimeoutError, match="10 tasks have not ended in time"):
            await anext(client.imap(abs, range(10), timeout=0.05))

    run(work())


def test_values_that_are_at_hand_let_others_have_their_turn(client: Client) -> None:
    async def work() -> None:
        results = client.imap(abs, range(-500, 0))
        turns = [0]

        async def others() -> None:
            while True:
                turns[0] += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(others())
        assert len(await collected(results)) == 500
        other.cancel()
        assert turns[0] >= 500

    run(work())


# ---------------------------------------------------------------- threads


def test_threads_are_bounded_and_end() -> None:
    threads, gate = Threads(2), threading.Event()
    begun: list[int] = []
    ended = threading.Semaphore(0)

    def job() -> None:
        begun.append(threading.get_ident())
        gate.wait(WAIT)
        ended.release()

    for _ in range(5):
        threads.run(job)
    eventually(lambda: len(begun) == 2, "two of them have begun")
    gate.set()
    for _ in range(5):
        assert ended.acquire(timeout=WAIT)
    assert len(set(begun)) == 2
    eventually(lambda: threads._count == 0, "no thread is left")


def test_without_another_thread_jobs_are_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, gate, done = Threads(8), threading.Event(), threading.Semaphore(0)
    threads.run(lambda: bool(gate.wait(WAIT)))

    def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", refused)
    threads.run(done.release)
    assert not done.acquire(blocking=False), "it waits for the thread that there is"
    gate.set()
    assert done.acquire(timeout=WAIT)
    eventually(lambda: threads._count == 0, "no thread is left")
    threads.run(done.release)
    assert done.acquire(blocking=False), "the caller has done it"


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_await_behind_a_callback_that_raises(
    client: Client, cluster: FakeCluster, kind: type[BaseException]
) -> None:
    def fail(_future: object) -> None:
        raise kind("of a callback")

    async def behind() -> int:
        cluster.hold()
        future = client.submit(abs, -3)
        future.add_done_callback(fail)
        waiting = asyncio.ensure_future(future)
        await asyncio.sleep(0)  # it has added its own callback
        cluster.release()
        return await asyncio.wait_for(waiting, WAIT)

    assert asyncio.run(behind()) == 3
