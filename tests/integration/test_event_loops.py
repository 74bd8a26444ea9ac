"""Futures in event loops, with real processes: several loops, canceled waits, failures, and a client that leaves."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import logging
import weakref
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from scaler import Client, ScalerFuture
from tests.support import tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

T = TypeVar("T")


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    """One worker with one place: a task that was not stopped would keep all others waiting."""
    cluster = RealCluster(module_stage, 1)
    yield cluster
    cluster.wait_until_empty()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, WAIT))


async def turns_until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.001)


def waits(future: ScalerFuture[Any]) -> int:
    """How many callbacks it keeps."""
    return len(future._done_callbacks)


def no_waits(*futures: ScalerFuture[Any]) -> float:
    """The callbacks run in a thread, which may be a moment behind the loop."""
    return until(lambda: not any(map(waits, futures)), "no future keeps a callback")


# ---------------------------------------------------------------- several loops


@pytest.mark.parametrize("size", [10, 20_000, 200_000], ids=["small", "inline", "in the storage"])
def test_loops_of_two_threads_await_one_future(client: Client, gate: Path, size: int) -> None:
    async def awaited() -> bytes:
        return await future

    future = client.submit(tasks.bytes_after, str(gate), size)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [pool.submit(run, awaited()) for _ in range(2)]
        until(lambda: waits(future) == 2, "both loops wait")
        gate.touch()
        assert [len(one.result(WAIT)) for one in found] == [size, size]
    assert len(run(awaited())) == size, "and a third one, after the end"
    no_waits(future)


def test_a_wait_that_is_canceled_in_one_loop_ends_that_of_another(client: Client, log: Path) -> None:
    """Because the task is canceled with it."""

    async def given_up() -> None:
        await turns_until(lambda: waits(future) == 1 and log.exists())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(future, 0.01)

    async def awaited() -> None:
        with pytest.raises(asyncio.CancelledError):
            await future

    future = client.submit(tasks.sleep_after_note, str(log), 2 * WAIT)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        other = pool.submit(run, awaited())
        run(given_up())
        other.result(WAIT)
    assert client.submit(abs, -3).result(WAIT) == 3, "the place is free"
    no_waits(future)


# ---------------------------------------------------------------- canceled waits


async def canceled_by_timeout(future: ScalerFuture[int]) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(future, 0.01)


async def canceled_as_a_task(future: ScalerFuture[int]) -> None:
    async def awaited() -> int:
        return await future

    task = asyncio.ensure_future(awaited())
    await turns_until(lambda: waits(future) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def canceled_with_a_gather(future: ScalerFuture[int]) -> None:
    together = asyncio.gather(future, asyncio.sleep(2 * WAIT))
    await turns_until(lambda: waits(future) == 1)
    together.cancel()
    with pytest.raises(asyncio.CancelledError):
        await together


@pytest.mark.parametrize("cancel", [canceled_by_timeout, canceled_as_a_task, canceled_with_a_gather])
def test_a_wait_that_is_canceled_stops_its_task(client: Client, log: Path, cancel: Any) -> None:
    async def work() -> None:
        await turns_until(log.exists)
        await cancel(future)
        assert future.cancelled()
        assert await client.submit(abs, -3) == 3, "the place is free"

    future = client.submit(tasks.sleep_after_note, str(log), 2 * WAIT)
    run(work())
    no_waits(future)


def test_one_wait_that_is_shielded_again_and_again_stays_one(client: Client, gate: Path) -> None:
    async def work() -> int:
        waiting = asyncio.ensure_future(future)
        for _ in range(50):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(waiting), 0.001)
        assert waits(future) == 1 and len(asyncio.all_tasks()) < 5
        gate.touch()
        return len(await waiting)

    future = client.submit(tasks.bytes_after, str(gate), 10)
    assert run(work()) == 10
    no_waits(future)


# ---------------------------------------------------------------- failures


def test_the_first_failure_of_a_gather_lets_the_others_go_on(client: Client, gate: Path) -> None:
    async def work() -> None:
        failing, behind = client.submit(divided, 0), client.submit(tasks.bytes_after, str(gate), 10)
        with pytest.raises(ZeroDivisionError):
            await asyncio.gather(failing, behind)
        assert not behind.done()
        gate.touch()
        assert await behind == bytes(10)
        no_waits(failing, behind)

    run(work())


def test_failures_of_a_gather_come_in_their_places_and_are_not_kept(client: Client) -> None:
    """The program keeps its futures, and they keep neither the loop nor the waits."""

    async def work() -> list[Any]:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        return await asyncio.gather(*futures, return_exceptions=True)

    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []
    futures = [client.submit(divided, number % 3) for number in range(300)]
    found = run(work())
    assert [type(one) for one in found] == [ZeroDivisionError, float, float] * 100
    no_waits(*futures)
    del found
    gc.collect()
    assert loops[0]() is None
    assert futures[1].result(WAIT) == 1.0 and isinstance(futures[0].exception(WAIT), ZeroDivisionError)


def divided(value: int) -> float:
    return 1 / value


# ---------------------------------------------------------------- a client that leaves


def test_leaving_cancels_what_has_not_ended_and_its_waits(
    cluster: RealCluster, client: Client, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with await Client.open(cluster.address) as leaving:
            futures = [leaving.submit(tasks.sleep_after_note, str(log), 2 * WAIT) for _ in range(3)]
            waiting = asyncio.ensure_future(futures[0])
            iterating = asyncio.ensure_future(anext(leaving.imap(abs, range(10))))
            await turns_until(log.exists)
        results = await asyncio.gather(waiting, *futures, return_exceptions=True)
        assert [type(one) for one in results] == [asyncio.CancelledError] * 4
        with pytest.raises(concurrent.futures.CancelledError):  # as without a loop
            await iterating
        assert await client.submit(abs, -3) == 3, "the place is free"

    with caplog.at_level(logging.WARNING, "scaler"):
        run(work())
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1 and "canceled 3 tasks that had not ended" in told[0]


def test_leaving_waits_if_the_client_was_made_so_and_the_loop_goes_on(cluster: RealCluster, gate: Path) -> None:
    async def left(leaving: Client) -> list[ScalerFuture[bytes]]:
        async with leaving:
            return [leaving.submit(tasks.bytes_after, str(gate), size) for size in (10, 20_000)]

    async def work() -> list[int]:
        leaving = await Client.open(cluster.address, on_exit="wait")
        leaves = asyncio.ensure_future(left(leaving))
        await turns_until(lambda: leaving._is_refusing)  # so the loop turns while the client waits
        assert not leaves.done()
        gate.touch()
        return [len(await future) for future in await leaves]

    assert run(work()) == [10, 20_000]
