"""Generators that run as tasks, with real processes. (WRK-58 to WRK-60, CLI-27 to CLI-29, CAN-14)"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import psutil
import pytest

from scaler import Client
from scaler.client.submitting import streams
from scaler.client.submitting.streams import ScalerStream
from scaler.utility.exceptions import (
    DisconnectedError,
    MissingObjects,
    ObjectStorageException,
    ProcessorDiedError,
    ResultNotSerializableError,
    WorkerDiedError,
)
from tests.support import stream_tasks, tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

QUICK = ("--heartbeat-seconds", "0.3", "--worker-timeout-seconds", "2")
PATIENT = ("--heartbeat-seconds", "0.3")
"""A successor waits a lease before it kills what no client has asked for."""
QUICK_WORKERS = ("--heartbeat-interval", "0.3")


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    """One worker with one place: whatever needs two would hang here."""
    cluster = RealCluster(module_stage, 1)
    yield cluster
    cluster.wait_until_empty()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def begins(log: Path) -> list[str]:
    return [line for line in lines(log) if line.startswith("begun")]


def has_ended(log: Path) -> float:
    return until(lambda: "ended" in lines(log), "the generator has ended, and its `finally` has run")


def is_clear(client: Client, cluster: RealCluster) -> float:
    """Nothing of any stream is stored, while the client is still there."""
    client.clear()
    return until(lambda: cluster.storage_status().object_count <= FUNCTIONS, "no value of a stream is stored")


FUNCTIONS = 12
"""What the client keeps of functions: fewer than a stream of these tests has values."""


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("window", [1, 2, 3, 16, 1_000])
def test_values_in_order_and_what_it_returns(client: Client, window: int) -> None:
    stream = client.stream(stream_tasks.numbers, 50, window=window)
    found = []
    while True:
        try:
            found.append(next(stream))
        except StopIteration as end:
            assert end.value == "50 numbers"
            break
    assert found == list(range(50))
    assert list(stream) == [], "it has ended"
    assert list(client.stream(stream_tasks.numbers, 0)) == []


def test_a_value_arrives_while_the_task_runs(client: Client, log: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    stream = client.stream(stream_tasks.gated, str(log), str(gate), 3)
    assert [next(stream), next(stream), next(stream)] == [0, 1, 2]
    assert "ended" not in lines(log)
    gate.touch()
    assert list(stream) == [3]


@pytest.mark.parametrize("window", [1, 4, 7])
def test_the_generator_is_no_further_ahead_than_its_window(client: Client, log: Path, window: int) -> None:
    with client.stream(stream_tasks.noted, str(log), 1_000, window=window) as stream:
        for taken in range(1, 40):
            assert next(stream) == taken - 1
            assert len([line for line in lines(log) if line.startswith("value")]) - taken <= window
    has_ended(log)


def test_a_function_with_a_parameter_of_that_name(client: Client) -> None:
    assert list(client.stream(stream_tasks.with_window, window=5, count=3)) == [5, 5, 5]
    assert list(client.stream_verbose(stream_tasks.with_window, (5,), {"count": 2}, window=1)) == [5, 5]


def test_any_iterable_and_any_function(client: Client) -> None:
    assert list(client.stream(range, 4)) == [0, 1, 2, 3]
    assert list(client.stream(lambda count: (number * number for number in range(count)), 4)) == [0, 1, 4, 9]
    future = client.submit(tasks.square, 3)
    assert len(list(client.stream(stream_tasks.numbers, future))) == 9, "futures stand for their values"


def test_large_values_go_through_the_storage(client: Client, cluster: RealCluster) -> None:
    sizes = [1, 70_000, 3_000_000]
    for size in sizes:
        found = list(client.stream(stream_tasks.blocks, 12, size, window=3))
        assert found == [bytes([number]) * size for number in range(12)]
    is_clear(client, cluster)


# ---------------------------------------------------------------- how it ends


def test_what_it_raises_comes_behind_its_values(client: Client) -> None:
    stream = client.stream(stream_tasks.failing, 3)
    assert [next(stream), next(stream), next(stream)] == [0, 1, 2]
    with pytest.raises(KeyError, match="behind the values"):
        next(stream)
    assert list(stream) == []


def test_a_value_that_cannot_be_serialized(client: Client) -> None:
    stream = client.stream(stream_tasks.unserializable)
    assert next(stream) == 1
    assert next(stream)()
    with pytest.raises(ResultNotSerializableError, match=r"value that the task has yielded.*not this one"):
        next(stream)


def test_a_call_that_is_none(client: Client) -> None:
    with pytest.raises(TypeError, match="numbers"):
        client.stream(stream_tasks.numbers, 1, 2)
    with pytest.raises(TypeError, match="async"):
        client.stream(stream_tasks.asynchronous)
    for window in (0, -1, 65_537):
        with pytest.raises(ValueError, match="window"):
            client.stream(stream_tasks.numbers, 1, window=window)
    with pytest.raises(TypeError, match="returns an iterator, and square has returned a int"):
        next(client.stream(tasks.square, 2))


def test_a_processor_that_dies(client: Client) -> None:
    stream = client.stream(stream_tasks.dying, 3)
    assert [next(stream), next(stream), next(stream)] == [0, 1, 2]
    with pytest.raises(ProcessorDiedError, match="code 3"):
        next(stream)


def test_no_more_streams_than_the_bound(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_STREAMS", 3)
    opened = [client.stream(stream_tasks.numbers, 10**9, window=1) for _ in range(3)]
    with pytest.raises(RuntimeError, match="3 streams of this client are open"):
        client.stream(stream_tasks.numbers, 1)
    for stream in opened:
        stream.cancel()
    connection = client._ready().connection
    until(lambda: not connection.streams, "the streams have ended")
    assert list(client.stream(stream_tasks.numbers, 2)) == [0, 1]


# ---------------------------------------------------------------- ending it


def ended_by_cancel(stream: ScalerStream[int]) -> None:
    stream.cancel()
    with pytest.raises(CancelledError):
        next(stream)


def ended_by_leaving(stream: ScalerStream[int]) -> None:
    with stream:
        pass
    assert list(stream) == []


@pytest.mark.parametrize("end", [ended_by_cancel, ended_by_leaving, ScalerStream.close])
@pytest.mark.parametrize("window", [1, 16])
def test_the_generator_is_stopped(client: Client, cluster: RealCluster, log: Path, end: object, window: int) -> None:
    stream = client.stream(stream_tasks.noted, str(log), 10**9, window=window)
    assert [next(stream) for _ in range(20)] == list(range(20))
    end(stream)
    has_ended(log)
    is_clear(client, cluster)


def test_a_stream_that_is_dropped(client: Client, cluster: RealCluster, log: Path) -> None:
    stream = client.stream(stream_tasks.noted, str(log), 10**9)
    assert next(stream) == 0
    del stream
    gc.collect()
    has_ended(log)
    for value in client.stream(stream_tasks.noted, str(log), 10**9):
        if value == 5:
            break
    until(lambda: lines(log).count("ended") == 2, "the loop has dropped it")
    is_clear(client, cluster)


def test_streams_whose_futures_are_canceled(client: Client, cluster: RealCluster) -> None:
    """The future ends here and now, and the generator stores values until it is stopped: they stayed."""
    for number in range(12):
        stream = client.stream(stream_tasks.blocks, 10**6, 200_000)
        if number % 2:
            assert next(stream)
        assert stream.future.cancel() and stream.future.cancelled()
        del stream
    gc.collect()
    is_clear(client, cluster)


def test_a_stream_that_is_dropped_unread(client: Client, cluster: RealCluster) -> None:
    stream = client.stream(stream_tasks.blocks, 14, 1_000)
    until(stream.future.done, "the task has ended")
    del stream
    gc.collect()
    is_clear(client, cluster)


def test_code_that_is_interrupted_in_the_middle(client: Client, log: Path) -> None:
    stream = client.stream(stream_tasks.sleeping, str(log))
    assert next(stream) == 0
    until(lambda: "sleeps" in lines(log), "it sleeps")
    stream.cancel()
    has_ended(log)


def test_a_thread_that_waits_is_woken(client: Client, log: Path) -> None:
    stream = client.stream(stream_tasks.sleeping, str(log))
    assert next(stream) == 0
    caught: list[BaseException] = []

    def wait_for_it() -> None:
        try:
            next(stream)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=wait_for_it)
    thread.start()
    until(lambda: stream._open.pending is not None, "it waits")
    stream.cancel()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert type(caught[0]) is CancelledError


def test_leaving_the_client(cluster: RealCluster, log: Path) -> None:
    with Client(cluster.address) as client:
        stream = client.stream(stream_tasks.noted, str(log), 10**9)
        assert next(stream) == 0
    has_ended(log)
    with pytest.raises((CancelledError, ObjectStorageException)):
        list(stream)


def test_a_time_limit(client: Client, log: Path) -> None:
    stream = client.stream_verbose(stream_tasks.sleeping, (str(log),), {}, timeout=0.5)
    with pytest.raises(TimeoutError):
        list(stream)
    has_ended(log)


# ---------------------------------------------------------------- together with other tasks


def test_a_task_for_each_value_of_a_full_stream(client: Client) -> None:
    """There is one place, and the generator is in it: it lends the place while it waits for its client."""
    found = [
        client.submit(tasks.square, number).result(WAIT) for number in client.stream(stream_tasks.numbers, 8, window=1)
    ]
    assert found == [number * number for number in range(8)]


def test_two_streams_in_turns(client: Client) -> None:
    pairs = zip(
        client.stream(stream_tasks.numbers, 30, window=2),
        client.stream(stream_tasks.numbers, 30, window=2),
        strict=True,
    )
    assert list(pairs) == [(number, number) for number in range(30)]


def test_a_stream_inside_a_task(client: Client) -> None:
    assert client.submit(stream_tasks.sum_of_stream, client, 20).result(WAIT) == sum(range(20))


def test_an_event_loop_inside_a_task(client: Client) -> None:
    assert client.submit(stream_tasks.values_in_a_loop, client, 10).result(WAIT) == [*range(10, 0, -1), 0, 1, 9]


def test_in_an_event_loop(cluster: RealCluster) -> None:
    async def run() -> tuple[list[int], list[int]]:
        async with await Client.open(cluster.address) as client:
            every = [value async for value in client.stream(stream_tasks.numbers, 20, window=3)]
            some = []
            async with client.stream(stream_tasks.numbers, 10**9) as stream:
                async for value in stream:
                    some.append(value)
                    if len(some) == 5:
                        break
            return every, some

    assert asyncio.run(run()) == (list(range(20)), list(range(5)))


def test_forty_streams_side_by_side_in_an_event_loop(cluster: RealCluster, log: Path, tmp_path: Path) -> None:
    """All of them wait while the first has the only place, and the loop's own executor has a thread for others."""
    gate = tmp_path / "gate"

    async def collected(stream: ScalerStream[int]) -> list[int]:
        return [value async for value in stream]

    async def run() -> list[list[int]]:
        asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
        async with await Client.open(cluster.address) as client:
            first = client.stream(stream_tasks.gated, str(log), str(gate), 3)
            assert [await anext(first) for _ in range(3)] == [0, 1, 2]
            others = [client.stream(stream_tasks.numbers, 2) for _ in range(39)]
            waiting = [asyncio.ensure_future(collected(stream)) for stream in (first, *others)]
            while not all(stream._open.pending is not None for stream in (first, *others)):
                await asyncio.sleep(0.001)
            await asyncio.to_thread(gate.touch)
            return await asyncio.gather(*waiting)

    assert asyncio.run(asyncio.wait_for(run(), WAIT)) == [[3], *[[0, 1]] * 39]


def test_an_interrupt_of_next_loses_nothing(client: Client, log: Path, tmp_path: Path) -> None:
    """The value that was waited for comes with the next call. Until there is the file, there is no value, so each
    interrupt comes while `next` waits."""
    gate = tmp_path / "gate"
    stream = client.stream(stream_tasks.gated, str(log), str(gate), 3)
    assert [next(stream) for _ in range(3)] == [0, 1, 2]

    main = threading.get_ident()

    def interrupt() -> None:
        until(lambda: stream._open.pending is not None, "it waits")
        signal.pthread_kill(main, signal.SIGINT)

    for _ in range(10):
        thread = threading.Thread(target=interrupt)
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            next(stream)
        thread.join()
    gate.touch()
    assert list(stream) == [3]


# ---------------------------------------------------------------- machines that die


def test_a_worker_that_dies_and_another_is_there(stage: Stage, log: Path, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 1, scheduler=QUICK, workers=QUICK_WORKERS)
    with Client(cluster.address) as client:
        stream = client.stream(stream_tasks.gated, str(log), str(tmp_path / "never"), 10)
        assert [next(stream) for _ in range(4)] == [0, 1, 2, 3]
        until(lambda: "waits" in lines(log), "all that it yields is stored")
        kill(cluster, log)
        cluster.start_workers(1)
        assert [next(stream) for _ in range(6)] == [4, 5, 6, 7, 8, 9]
        with pytest.raises(WorkerDiedError, match="not begun"):
            next(stream)
        assert len(begins(log)) == 1
        assert list(client.stream(stream_tasks.numbers, 3)) == [0, 1, 2]
    cluster.wait_until_empty()


def test_a_worker_that_dies_and_no_other_is_there(
    stage: Stage, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "WAIT_SECONDS", 1.0)
    cluster = RealCluster(stage, 1, scheduler=QUICK, workers=QUICK_WORKERS)
    with Client(cluster.address) as client:
        stream = client.stream(stream_tasks.gated, str(log), str(tmp_path / "never"), 3)
        assert [next(stream) for _ in range(3)] == [0, 1, 2]
        kill(cluster, log)
        with pytest.raises(WorkerDiedError, match="not begun again"):
            next(stream)
    cluster.wait_until_empty()


def kill(cluster: RealCluster, log: Path) -> None:
    """The worker with all of its processes, as when its machine fails."""
    (command,) = cluster.workers
    family = cluster.stage.family(command)
    cluster.workers.clear()
    for process in family:
        process.suspend()
    for process in family:
        process.kill()
    psutil.wait_procs(family, WAIT)


def test_the_scheduler_dies(stage: Stage, log: Path) -> None:
    cluster = RealCluster(stage, 1, scheduler=PATIENT, workers=QUICK_WORKERS)
    with Client(cluster.address) as client:
        stream = client.stream(stream_tasks.noted, str(log), 10**9, window=3)
        assert next(stream) == 0
        waiting = client.stream(stream_tasks.numbers, 3)
        cluster.scheduler.end(signal.SIGKILL)
        cluster.start_scheduler()
        with pytest.raises(DisconnectedError, match="not begun a second time"):
            while True:
                next(stream)
        has_ended(log)
        assert len(begins(log)) == 1
        with pytest.raises(DisconnectedError):
            list(waiting)
        assert list(client.stream(stream_tasks.numbers, 3)) == [0, 1, 2]
        is_clear(client, cluster)
    cluster.wait_until_empty()


def test_the_storage_is_restarted(stage: Stage, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "WAIT_SECONDS", 1.0)
    cluster = RealCluster(stage, 1, scheduler=QUICK, workers=QUICK_WORKERS)
    with Client(cluster.address) as client:
        stream = client.stream(stream_tasks.gated, str(log), str(tmp_path / "never"), 3)
        assert next(stream) == 0
        cluster.storage.end(signal.SIGKILL)
        cluster.start_storage()
        with pytest.raises(MissingObjects, match="restarted"):
            while True:
                next(stream)
        has_ended(log)
        assert list(client.stream(stream_tasks.numbers, 3)) == [0, 1, 2]
    cluster.wait_until_empty()
