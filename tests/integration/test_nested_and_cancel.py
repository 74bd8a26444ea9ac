"""Tasks that wait for tasks, through one worker with one place; and tasks that are told to stop."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from tests.support import api_tasks, tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

ANSWER_SECONDS = 10.0
"""A canceled task is over within the grace of 1 s and the time it takes to kill a processor, on a busy machine."""


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    """One worker: whatever needs two would hang here."""
    cluster = RealCluster(module_stage, 1)
    yield cluster
    cluster.wait_until_empty()


# ---------------------------------------------------------------- nested


def test_fibonacci(client: Client) -> None:
    assert client.submit(tasks.fibonacci, client, 8).result(WAIT) == 21


def test_factorial_fifty_deep(client: Client) -> None:
    assert client.submit(tasks.factorial, client, 50).result(WAIT) == math.factorial(50)


WAYS = [tasks.wait_for_three, tasks.take_as_completed, tasks.poll_for_three, tasks.map_three, tasks.graph_of_three]


@pytest.mark.parametrize("parent", WAYS)
def test_ways_to_wait_for_children(client: Client, parent: Callable[[Any, int], int]) -> None:
    assert client.submit(parent, client, 5).result(WAIT) == 25 + 36 + 49


def test_many_parents_at_once(client: Client) -> None:
    parents = [client.submit(tasks.wait_for_three, client, i) for i in range(8)]
    assert [one.result(WAIT) for one in parents] == [i * i + (i + 1) ** 2 + (i + 2) ** 2 for i in range(8)]


def test_an_imap_of_a_client_that_is_dropped(client: Client) -> None:
    assert client.submit(api_tasks.values_of_a_dropped_client, 6).result(WAIT) == [0, 1, 2, 3, 4, 5]


MOST_PROCESSORS = 24
"""Far fewer than parents that wait. How many it takes depends on how busy the machine is."""


def squares(count: int) -> int:
    return sum(i * i for i in range(count))


def test_three_hundred_parents_that_wait(cluster: RealCluster, client: Client) -> None:
    before = cluster.processors()
    parents = [client.submit(tasks.wait_for_one, client, i) for i in range(300)]
    assert sum(parent.result(WAIT) for parent in parents) == squares(300)
    assert sum(client.map(tasks.wait_for_one, [client] * 200, range(200))) == squares(200)
    assert cluster.processors() - before <= MOST_PROCESSORS


def test_a_root_with_three_hundred_parents_that_wait(client: Client) -> None:
    assert client.submit(tasks.spawn_parents, client, 300).result(WAIT) == squares(300)


def test_a_tree_of_five_by_five_by_five(client: Client) -> None:
    assert client.submit(tasks.branch, client, 5, 3).result(WAIT) == 125


def test_the_failure_of_a_child_reaches_the_root(client: Client) -> None:
    with pytest.raises(LookupError, match="nothing down here"):
        client.submit(tasks.fail_below, client, 4).result(WAIT)


def test_the_children_of_a_canceled_parent(cluster: RealCluster, client: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    parent = client.submit(tasks.parent_of_sleepers, client, str(log))
    has_begun(log, 2)  # the parent, and one of the children in its place
    is_canceled(parent)
    cluster.wait_until(lambda status: all(not worker.held_count for worker in status.workers), "the children are gone")
    assert client.submit(tasks.square, 4).result(WAIT) == 16
    assert len(log.read_text().splitlines()) == 2, "the other child never began"


# ---------------------------------------------------------------- cancel


def test_a_queued_task(client: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    running = client.submit(tasks.sleep_after_note, str(log), 100.0)
    has_begun(log)
    queued = client.submit(tasks.note, str(log), "queued")
    is_canceled(queued)
    is_canceled(running)
    assert client.submit(tasks.square, 2).result(WAIT) == 4
    assert "queued" not in log.read_text()


def test_a_task_that_sleeps(client: Client, tmp_path: Path) -> None:
    runs_until_canceled(client, tmp_path / "log", lambda log: client.submit(tasks.sleep_after_note, log, 100.0))


def test_a_task_that_computes(client: Client, tmp_path: Path) -> None:
    runs_until_canceled(client, tmp_path / "log", lambda log: client.submit(tasks.spin_after_note, log))


def test_a_task_that_swallows_everything(client: Client, tmp_path: Path) -> None:
    """It is killed after the grace."""
    seconds = runs_until_canceled(client, tmp_path / "log", lambda log: client.submit(tasks.swallow_after_note, log))
    print(f"{seconds:6.2f} s  until the place of a task that cannot be interrupted is free")
    assert seconds >= 0.9, "it had its grace"


def test_a_graph(cluster: RealCluster, client: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    graph = {
        "log": str(log),
        "seconds": 100.0,
        "a": (tasks.sleep_after_note, "log", "seconds"),
        "b": (tasks.square, "a"),
        "c": (tasks.square, "b"),
    }
    futures = client.get(graph, keys=["b", "c"], block=False)
    has_begun(log)
    for future in futures.values():
        is_canceled(future)
    until(lambda: not sum(worker.held_count for worker in cluster.snapshot().workers), "its first task is stopped too")
    assert client.submit(tasks.square, 3).result(WAIT) == 9


def test_what_has_ended_cannot_be_canceled(client: Client) -> None:
    future = client.submit(tasks.square, 6)
    assert future.result(WAIT) == 36
    assert not future.cancel() and not future.cancelled() and future.result() == 36


def test_canceled_while_a_scheduler_is_away(stage: Stage, tmp_path: Path) -> None:
    """Nobody can answer. What the successor is told of runs no more: the cancel holds as soon as it is there."""
    cluster = RealCluster(stage, 0)
    with Client(cluster.address) as client, ThreadPoolExecutor(1) as aside:
        log = tmp_path / "log"
        future = client.submit(tasks.note, str(log), "canceled")
        cluster.wait_until(lambda status: bool(status.clients and status.clients[0].task_count), "it is submitted")
        cluster.scheduler.end(signal.SIGKILL)
        answer = aside.submit(future.cancel)
        cluster.start_scheduler()
        assert answer.result(WAIT) and future.cancelled()
        cluster.start_workers()
        assert client.submit(tasks.square, 2).result(WAIT) == 4
        assert not log.exists()
    cluster.wait_until_empty()


def is_canceled(future: Any) -> None:
    assert future.cancel() and future.cancelled() and future.done()
    with pytest.raises(CancelledError):
        future.result(0)


def runs_until_canceled(client: Client, log: Path, start: Callable[[str], Any]) -> float:
    future = start(str(log))
    has_begun(log)
    begun_at = time.monotonic()
    is_canceled(future)
    assert client.submit(tasks.square, 5).result(ANSWER_SECONDS) == 25, "the only place is free again"
    return time.monotonic() - begun_at


def has_begun(log: Path, count: int = 1) -> None:
    until(lambda: log.exists() and log.read_text().count("\n") >= count, f"{count} tasks have begun")
