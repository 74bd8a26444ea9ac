"""The scheduler dies while a graph runs: nodes that have ended are not run again. (SCH-51 to SCH-54, CLI-17, CLI-18)"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from tests.support import graph_tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

QUICK = ("--heartbeat-seconds", "0.3")
QUICK_WORKERS = ("--heartbeat-interval", "0.3")
SIZES = (10, 200_000)
"""Of values that ride along, and of values that lie in the storage."""
LEAVES = 30


@pytest.fixture
def cluster(stage: Stage) -> RealCluster:
    return RealCluster(stage, 2, scheduler=QUICK, workers=QUICK_WORKERS)


def known_count(client: Client) -> int:
    """Of how many ended nodes this client knows the result."""
    calls = client._calls
    assert calls is not None
    return sum(len(graph.known) for graph in calls.connection._core._table.graphs.values())


def layered(log: Path, gate: Path) -> dict[str, Any]:
    """Leaves, and a node that runs until there is a gate; all of them go into one."""
    graph: dict[str, Any] = {
        f"leaf{number}": (partial(graph_tasks.noted_zeros, str(log), f"leaf{number}", SIZES[number % 2]),)
        for number in range(LEAVES)
    }
    graph["gate"] = (partial(graph_tasks.noted_wait, str(log), "gate", str(gate)),)
    graph["all"] = (
        partial(graph_tasks.noted_total, str(log), "all"),
        "gate",
        *[f"leaf{number}" for number in range(LEAVES)],
    )
    return graph


TOTAL = sum(SIZES) * LEAVES // 2


def begins(log: Path) -> Counter[str]:
    return Counter(log.read_text().split()) if log.exists() else Counter()


@contextmanager
def held_graph(cluster: RealCluster, log: Path, gate: Path) -> Iterator[None]:
    """While the leaves of a graph are known to its client, and its last node waits for the gate. It ends right."""
    with Client(cluster.address) as client:
        future = client.get(layered(log, gate), ["all"], block=False)["all"]
        until(lambda: known_count(client) == LEAVES, "the client knows of all leaves")
        yield
        gate.touch()
        assert future.result(WAIT) == TOTAL


def test_a_successor_runs_only_what_is_left(cluster: RealCluster, tmp_path: Path) -> None:
    """Twice: what is given to one scheduler is given to the next as well."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    with held_graph(cluster, log, gate):
        until(lambda: begins(log)["gate"] == 1, "the gate is waited for")
        for _ in range(2):
            cluster.scheduler.end(signal.SIGKILL)
            cluster.start_scheduler()
            cluster.wait_for_workers(2)
    assert set(begins(log).values()) == {1}, "the node that ran goes on, and every other one has ended"
    cluster.wait_until_empty()


def test_wanted_nodes_are_not_run_again_either(cluster: RealCluster, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    keys = ["all", *[f"leaf{number}" for number in range(LEAVES)]]
    with Client(cluster.address) as client:
        futures = client.get(layered(log, gate), keys, block=False)
        until(lambda: sum(future.done() for future in futures.values()) == LEAVES, "the leaves have ended")
        read = [futures[f"leaf{number}"].result(WAIT) for number in range(LEAVES // 2)]
        cluster.scheduler.end(signal.SIGKILL)
        cluster.start_scheduler()
        cluster.wait_for_workers(2)
        gate.touch()
        assert futures["all"].result(WAIT) == TOTAL
        unread = [futures[f"leaf{number}"].result(WAIT) for number in range(LEAVES // 2, LEAVES)]
        assert [len(value) for value in (*read, *unread)] == [SIZES[number % 2] for number in range(LEAVES)]
    counts = begins(log)
    assert 1 <= counts.pop("gate") <= 2
    assert set(counts.values()) == {1}
    cluster.wait_until_empty()


def test_what_the_storage_lost_runs_again(cluster: RealCluster, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    with held_graph(cluster, log, gate):
        cluster.scheduler.end(signal.SIGKILL)
        cluster.storage.end(signal.SIGKILL)
        cluster.start_storage()
        cluster.start_scheduler()
        cluster.wait_for_workers(2)
    counts = begins(log)
    small = {counts[f"leaf{number}"] for number in range(0, LEAVES, 2)}
    large = {counts[f"leaf{number}"] for number in range(1, LEAVES, 2)}
    assert (small, large) == ({1}, {2})
    cluster.wait_until_empty()


def test_a_graph_goes_on_when_only_the_storage_dies(cluster: RealCluster, tmp_path: Path) -> None:
    """Its scheduler lives, and would have the lost values looked for until 30 s are over. (CLI-23)"""
    log, gate = tmp_path / "log", tmp_path / "gate"
    with held_graph(cluster, log, gate):
        cluster.storage.end(signal.SIGKILL)
        cluster.start_storage()
        until(lambda: begins(log)["gate"] == 2, "the graph begins again")
    counts = begins(log)
    small = {counts[f"leaf{number}"] for number in range(0, LEAVES, 2)}
    large = {counts[f"leaf{number}"] for number in range(1, LEAVES, 2)}
    assert (small, large) == ({1}, {2})
    cluster.wait_until_empty()


def test_a_graph_goes_on_with_what_a_restarted_storage_has_kept(stage: Stage, tmp_path: Path) -> None:
    """The client asks for it, and nothing is run again. (STO-41, STO-42)"""
    log, gate = tmp_path / "log", tmp_path / "gate"
    options = ("--data-directory", str(tmp_path / "data"))
    cluster = RealCluster(stage, 2, scheduler=QUICK, workers=QUICK_WORKERS, storage=options)
    with held_graph(cluster, log, gate):
        cluster.storage.end(signal.SIGTERM)
        cluster.start_storage()
        cluster.wait_until(lambda status: status.storage.object_count > 0, "the scheduler has found it")
    assert set(begins(log).values()) == {1}
    cluster.wait_until_empty()


def test_calls_that_take_futures_begin_once(cluster: RealCluster, tmp_path: Path) -> None:
    """Outside of a graph the client passes the values on itself."""
    log, gate = tmp_path / "log", tmp_path / "gate"
    with Client(cluster.address) as client:
        leaves = [
            client.submit(graph_tasks.noted_zeros, str(log), f"leaf{number}", SIZES[number % 2]) for number in range(4)
        ]
        gated = client.submit(graph_tasks.noted_wait, str(log), "gate", str(gate))
        total = client.submit(graph_tasks.noted_total, str(log), "all", gated, *leaves)
        until(lambda: all(leaf.done() for leaf in leaves), "the leaves have ended")
        cluster.scheduler.end(signal.SIGKILL)
        cluster.start_scheduler()
        cluster.wait_for_workers(2)
        gate.touch()
        assert total.result(WAIT) == sum(SIZES) * 2
    counts = begins(log)
    counts.pop("gate")
    assert set(counts.values()) == {1}
    cluster.wait_until_empty()


def test_a_long_graph_gets_on_though_its_scheduler_dies_again_and_again(cluster: RealCluster, tmp_path: Path) -> None:
    """Chains that end in a sum: each death costs what ran, and what ended in the second before."""
    log = tmp_path / "log"
    chains, links, kills = 4, 60, 3
    node = partial(partial, graph_tasks.noted_sum, str(log))
    graph: dict[str, Any] = {}
    for chain in range(chains):
        graph[f"{chain}.0"] = (node(f"{chain}.0", 0.02),)
        for link in range(1, links):
            graph[f"{chain}.{link}"] = (node(f"{chain}.{link}", 0.02), f"{chain}.{link - 1}")
    graph["all"] = (node("all", 0.0), *[f"{chain}.{links - 1}" for chain in range(chains)])
    stopped = threading.Event()

    with Client(cluster.address) as client:
        future = client.get(graph, ["all"], block=False)["all"]
        for _ in range(kills):
            count = known_count(client)
            until(lambda count=count: known_count(client) > count or future.done(), "something more is known")
            if stopped.wait(0.2) or future.done():
                break
            cluster.scheduler.end(signal.SIGKILL)
            cluster.start_scheduler()
            cluster.wait_for_workers(2)
        assert future.result(WAIT) == chains * links + 1
    again = begins(log).total() - len(graph)
    print(f"{again} of {len(graph)} nodes ran again")
    assert again < kills * 2 * 2 / 0.02, "two workers, two seconds, links of 0.02 s"
    cluster.wait_until_empty()


def test_nothing_is_told_of_short_graphs(cluster: RealCluster) -> None:
    with Client(cluster.address) as client:
        end_at = time.monotonic() + 2.5
        while time.monotonic() < end_at:
            graph: dict[str, Any] = {"0": (graph_tasks.increment, 0)}
            graph.update({str(link): (graph_tasks.increment, str(link - 1)) for link in range(1, 10)})
            assert client.get(graph, ["9"], timeout=WAIT) == {"9": 10}
        calls = client._calls
        assert calls is not None
        assert calls.connection._core._knowledge.known_bytes == 0


def test_large_results_that_a_storage_lost_before_they_were_fetched(cluster: RealCluster, tmp_path: Path) -> None:
    """Two of the wanted nodes, with all that these need, and nothing else."""
    log = tmp_path / "log"
    data = bytes(range(256)) * 1_000
    size = len(data) + 100_000
    graph: dict[str, Any] = {
        "data": data,
        "unwanted": (partial(graph_tasks.noted_zeros, str(log), "unwanted", 100_000),),
        "joined": (partial(graph_tasks.noted_join, str(log), "joined"), "data", "unwanted"),
        "total": (partial(graph_tasks.noted_total, str(log), "total"), "joined"),
        "twice": (partial(graph_tasks.noted_join, str(log), "twice"), "joined", "joined"),
        "other": (partial(graph_tasks.noted_zeros, str(log), "other", 200_000),),
    }
    with Client(cluster.address) as client:
        futures = client.get(graph, ["joined", "total", "twice", "other"], block=False)
        until(lambda: all(future.done() for future in futures.values()), "the graph has ended")
        assert len(futures["other"].result(WAIT)) == 200_000
        cluster.storage.end(signal.SIGKILL)
        cluster.start_storage()
        assert futures["twice"].result(WAIT) == (data + bytes(100_000)) * 2
        assert futures["joined"].result(WAIT) == data + bytes(100_000)
        assert futures["total"].result(WAIT) == size
    assert begins(log) == Counter(unwanted=2, joined=2, twice=2, total=1, other=1)
    cluster.wait_until_empty()
