"""Processes are killed and stopped in the middle of work. Every future ends as it should, in time, and the tables of
the servers are empty afterwards."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from functools import partial
from pathlib import Path

import psutil
import pytest

from scaler import Client
from scaler.utility.exceptions import DisconnectedError, ProcessorDiedError, ScalerError
from tests.support import tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, assert_gone, until

#: Timers that find the dead sooner than the defaults would; one test measures with those.
QUICK = ("--heartbeat-seconds", "0.3")
QUICK_WORKERS = ("--heartbeat-interval", "0.3")

GO_ON_SECONDS = 10.0
"""Within this much of a fault the work goes on. In fact it takes a second or two; see the prints of a run with -s."""


@pytest.fixture(scope="module")
def shared(module_stage: Stage) -> Iterator[RealCluster]:
    """For tests that break nothing but processors."""
    cluster = RealCluster(module_stage, 1)
    yield cluster
    cluster.wait_until_empty()


# ---------------------------------------------------------------- processors


@pytest.mark.parametrize(
    ("task", "how"),
    [
        (tasks.exit_with_three, "exited with code 3"),
        (tasks.kill_itself, "SIGKILL"),
        (tasks.crash, "SIGSEGV"),
        (tasks.kill_its_parent, "SIGKILL"),
    ],
)
def test_a_task_that_kills_its_processor(shared: RealCluster, task: Callable[[], None], how: str) -> None:
    with Client(shared.address) as client:
        others = [client.submit(tasks.square, i) for i in range(20)]
        begun_at = time.monotonic()
        future = client.submit(task)
        later = [client.submit(tasks.square, i) for i in range(20)]
        with pytest.raises(ProcessorDiedError) as caught:
            future.result(WAIT)
        assert time.monotonic() - begun_at < GO_ON_SECONDS
        assert how in str(caught.value) and "memory" in str(caught.value)
        assert [one.result(WAIT) for one in [*others, *later]] == [i * i for i in range(20)] * 2


def test_a_processor_killed_from_outside(shared: RealCluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Client(shared.address) as client:
        future = client.submit(tasks.sleep_after_note, str(log), 100.0)
        for attempt in (1, 2, 3):
            process_id = lines_of(log, attempt)[-1]
            begun_at = time.monotonic()
            os.kill(int(process_id), signal.SIGKILL)
        with pytest.raises(ProcessorDiedError, match="3 attempts") as caught:
            future.result(WAIT)
        report("a killed processor is told of", begun_at)
        assert time.monotonic() - begun_at < GO_ON_SECONDS / 2
        assert str(caught.value).count("SIGKILL") == 3, "one line for each attempt"
        assert ["SIGKILL" in line for line in caught.value.attempts] == [True] * 3
        assert caught.value.peak > 2**20 and caught.value.exit_code == -signal.SIGKILL
        assert client.submit(tasks.square, 5).result(WAIT) == 25


def test_a_task_outlives_the_processor_that_somebody_kills(shared: RealCluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Client(shared.address) as client:
        future = client.submit(tasks.sleep_after_note, str(log), 1.0)
        (process_id,) = lines_of(log, 1)
        os.kill(int(process_id), signal.SIGKILL)
        assert future.result(WAIT) != int(process_id)
        assert len(lines_of(log, 2)) == 2


def test_dead_processors_are_outlived(shared: RealCluster, tmp_path: Path) -> None:
    """By calls, maps, graphs with links that are sent ahead of their time, and tasks within tasks."""
    with Client(shared.address) as client:
        saved = client.submit(tasks.die_until, str(tmp_path / "saved"), 3)
        once = client.submit_verbose(tasks.die_until, (str(tmp_path / "once"), 2), {}, lost_processors_limit=1)
        more = client.submit_verbose(tasks.die_until, (str(tmp_path / "more"), 4), {}, retries=1)
        nested = client.submit(tasks.die_within, client, str(tmp_path / "nested"))
        assert saved.result(WAIT) == 3
        with pytest.raises(ProcessorDiedError, match="signal 9"):
            once.result(WAIT)
        assert len(lines_of(tmp_path / "once", 1)) == 1
        with pytest.raises(ProcessorDiedError, match="signal 9"):
            client.map(tasks.die_until, [str(tmp_path / "once of a map")], [2], lost_processors_limit=1)
        assert len(lines_of(tmp_path / "once of a map", 1)) == 1
        assert more.result(WAIT) == 4, "a retry, where three attempts are not enough"
        assert nested.result(WAIT) == 2
        logs = [str(tmp_path / f"map{number}") for number in range(3)]
        assert client.map(tasks.die_until, logs, [2] * 3, timeout=WAIT) == [2] * 3
        first = partial(tasks.die_until, str(tmp_path / "graph"), 2)
        graph = {"a": (first,), "b": (tasks.square, "a"), "c": (tasks.square, "b")}
        assert client.get(graph, ["c"], timeout=WAIT) == {"c": 16}


# ---------------------------------------------------------------- workers


@pytest.mark.usefixtures("way")
def test_a_killed_worker(stage: Stage, tmp_path: Path) -> None:
    """What it ran and what it queued is done by the other one."""
    log = tmp_path / "log"
    cluster = RealCluster(stage, 2)
    with Client(cluster.address) as client:
        futures = [client.submit(tasks.logged_square, i, 0.2, str(log)) for i in range(16)]
        lines_of(log, 2)
        victim = psutil.Process(cluster.snapshot().workers[0].software.process_id)
        family = [victim, *victim.children(recursive=True)]
        assert len(family) >= 3, "agent, zygote, processor"
        begun_at = time.monotonic()
        victim.kill()
        assert_gone(family)
        report("nothing of the killed worker is left", begun_at)
        gone = {process.pid for process in family}
        until(lambda: gone.isdisjoint(worker_processes(cluster)), "the scheduler knows that it is gone", GO_ON_SECONDS)
        report("the scheduler knows that the worker is gone", begun_at)
        assert [future.result(WAIT) for future in futures] == [i * i for i in range(16)]
        report("all of its tasks are done", begun_at)
        cluster.wait_for_workers(2)
        report("another one is there in its place", begun_at)
        runs = Counter(line.split()[0] for line in lines_of(log, 16))
        assert 0 < sum(runs.values()) - 16 <= 2, "only what was running is run again"
    cluster.wait_until_empty()


def test_all_workers_killed_and_others_started(stage: Stage) -> None:
    cluster = RealCluster(stage, 2, scheduler=QUICK, workers=QUICK_WORKERS)
    with Client(cluster.address) as client:
        futures = [client.submit(tasks.slow_square, i, 0.05) for i in range(40)]
        futures[0].result(WAIT)
        family = stage.family(cluster.workers[0])
        for process in family:
            process.kill()  # the command first, so that nothing is started again
        cluster.wait_for_workers(0)
        assert not all(future.done() for future in futures)
        begun_at = time.monotonic()
        cluster.start_workers(2)
        assert [future.result(WAIT) for future in futures] == [i * i for i in range(40)]
        report("new workers did the tasks of the killed ones", begun_at)
    cluster.wait_until_empty()


def test_a_worker_stopped_for_longer_than_its_lease(stage: Stage, tmp_path: Path) -> None:
    log = tmp_path / "log"
    short = ("--worker-timeout-seconds", "1", "--heartbeat-seconds", "0.2")
    cluster = RealCluster(stage, 2, scheduler=short, workers=("--heartbeat-interval", "0.2"))
    delivered: list[object] = []
    with Client(cluster.address) as client:
        futures = [client.submit(tasks.logged_square, i, 0.1, str(log)) for i in range(30)]
        for future in futures:
            future.add_done_callback(delivered.append)
        lines_of(log, 3)
        victim = psutil.Process(cluster.snapshot().workers[0].software.process_id)
        begun_at = time.monotonic()
        victim.suspend()
        try:
            until(lambda: victim.pid not in worker_processes(cluster), "its lease has expired", GO_ON_SECONDS)
            report("a stopped worker is lost after its lease of 1 s", begun_at)
        finally:
            victim.resume()
        assert [future.result(WAIT) for future in futures] == [i * i for i in range(30)]
        until(lambda: victim.pid in worker_processes(cluster), "it has come back", GO_ON_SECONDS)
        assert client.map(tasks.square, range(100)) == [i * i for i in range(100)]
    assert len(delivered) == 30 and set(delivered) == set(futures)
    cluster.wait_until_empty()


# ---------------------------------------------------------------- the scheduler


@pytest.mark.usefixtures("way")
def test_a_killed_scheduler_has_a_successor(stage: Stage) -> None:
    cluster = RealCluster(stage, 2, scheduler=QUICK, workers=QUICK_WORKERS)
    data = os.urandom(300_000)
    with Client(cluster.address) as client:
        done = client.submit(tasks.megabytes, 1)
        wait([done], WAIT)
        futures = [client.submit(tasks.slow_square, i, 0.02) for i in range(100)]
        large = [client.submit(tasks.total, data + bytes(i)) for i in range(5)]
        graph = client.get({"a": (tasks.slow_square, 3, 0.5), "b": (tasks.square, "a")}, keys=["b"], block=False)
        futures[0].result(WAIT)
        cluster.scheduler.end(signal.SIGKILL)
        begun_at = time.monotonic()
        cluster.start_scheduler()
        cluster.wait_for_workers(2)
        report("the workers have come back to a new scheduler", begun_at)
        assert [future.result(WAIT) for future in futures] == [i * i for i in range(100)]
        assert [future.result(WAIT) for future in large] == [300_000 + i for i in range(5)]
        assert graph["b"].result(WAIT) == 81
        report("all tasks are done after the scheduler's death", begun_at)
        assert time.monotonic() - begun_at < 2 * GO_ON_SECONDS
        assert done.result(WAIT) == bytes(1 << 20), "what was stored before"
        assert client.submit(tasks.square, 7).result(WAIT) == 49
    cluster.wait_until_empty()


def test_a_scheduler_that_does_not_come_back(stage: Stage) -> None:
    cluster = RealCluster(stage, 1, scheduler=QUICK, workers=QUICK_WORKERS)
    client = Client(cluster.address, timeout_seconds=2.0)
    futures = [client.submit(tasks.slow_square, i, 100.0) for i in range(5)]
    graph = client.get({"a": (tasks.slow_square, 3, 100.0), "b": (tasks.square, "a")}, keys=["b"], block=False)
    cluster.wait_until(lambda status: status.workers[0].held_count > 0, "a task is with the worker")
    cluster.scheduler.end(signal.SIGKILL)
    begun_at = time.monotonic()
    for future in [*futures, *graph.values()]:
        with pytest.raises(DisconnectedError, match=cluster.address.rsplit(":", 1)[1]):
            future.result(GO_ON_SECONDS)
    report("with a timeout of 2 s all futures have failed", begun_at)
    assert time.monotonic() - begun_at < 2.0 + GO_ON_SECONDS / 2
    begun_at = time.monotonic()
    client.disconnect()
    assert time.monotonic() - begun_at < GO_ON_SECONDS


# ---------------------------------------------------------------- the storage


@pytest.mark.usefixtures("way")
def test_a_killed_storage_has_a_successor(stage: Stage) -> None:
    """What it held is gone. Each future ends with its value or with an error that says so; none hangs."""
    cluster = RealCluster(stage, 2, scheduler=QUICK, workers=QUICK_WORKERS)
    data = os.urandom(4 << 20)
    with Client(cluster.address, timeout_seconds=10.0) as client:
        reference = client.send_object(data)
        takers = [client.submit(tasks.total, reference, i) for i in range(10)]
        givers = [client.submit(tasks.megabytes, 2) for _ in range(10)]
        takers[0].result(WAIT)
        cluster.storage.end(signal.SIGKILL)
        begun_at = time.monotonic()
        cluster.start_storage()
        assert [future.result(WAIT) for future in takers] == [len(data)] * 10, "the client puts the argument again"
        outcomes = Counter(outcome_of(future) for future in givers)
        report(f"results after the storage's death: {dict(outcomes)}", begun_at)
        assert set(outcomes) <= {"success", "MissingObjects"}
        assert client.submit(tasks.total, data + b"x").result(WAIT) == len(data) + 1
        assert client.map(tasks.square, range(50)) == [i * i for i in range(50)]
        report("the cluster works again", begun_at)
    cluster.wait_until_empty()


def outcome_of(future: object) -> str:
    try:
        value = future.result(WAIT)  # type: ignore[attr-defined]
    except ScalerError as error:
        assert len(str(error)) > 20, "it says what happened"
        return type(error).__name__
    assert value == bytes(2 << 20)
    return "success"


# ---------------------------------------------------------------- the client


@pytest.mark.usefixtures("way")
def test_a_killed_client(stage: Stage, tmp_path: Path) -> None:
    """Its tasks are killed, its objects released; nobody waits for the end of its lease."""
    log = tmp_path / "log"
    cluster = RealCluster(stage, 1, scheduler=QUICK, workers=QUICK_WORKERS)
    program = stage.start_program(
        f"""if True:
        from scaler import Client
        from tests.support import tasks
        client = Client({cluster.address!r})
        reference = client.send_object(bytes(3 << 20))
        futures = [client.submit(tasks.sleep_after_note, {str(log)!r}, 100.0) for _ in range(20)]
        large = [client.submit(tasks.total, bytes(1 << 20)) for _ in range(5)]
        print("submitted", flush=True)
        futures[0].result()
        """
    )
    program.wait_for("submitted")
    lines_of(log, 1)
    assert cluster.storage_status().object_count >= 2
    begun_at = time.monotonic()
    program.end(signal.SIGKILL)
    cluster.wait_until_empty()
    report("nothing is left of a killed client", begun_at)
    with Client(cluster.address) as client:
        assert client.submit(tasks.square, 3).result(WAIT) == 9, "the only place is free again"
    assert time.monotonic() - begun_at < GO_ON_SECONDS
    assert len(log.read_text().splitlines()) == 1, "no other task of it was started"


# ---------------------------------------------------------------- helpers


def worker_processes(cluster: RealCluster) -> set[int]:
    return {worker.software.process_id for worker in cluster.snapshot().workers}


def lines_of(log: Path, count: int) -> list[str]:
    """When so many tasks have begun at least."""
    until(lambda: log.exists() and log.read_text().count("\n") >= count, f"{count} tasks have begun")
    return log.read_text().splitlines()


def report(what: str, begun_at: float) -> None:
    print(f"{time.monotonic() - begun_at:6.2f} s  {what}")
