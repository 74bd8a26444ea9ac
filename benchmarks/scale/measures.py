"""What is measured of the core. Each function runs in a process of its own and answers with figures."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import psutil

from benchmarks.scale.cluster import Cluster, task_ids
from scaler_protocol.ids import TaskId

Figures = dict[str, float]
ARGUMENT = b"an argument of some 32 bytes ..."
SUBMIT_TASKS = 1_000
GRAPH_PART = 16_384


def queue(cluster: Cluster, tasks: int, per_submit: int = SUBMIT_TASKS) -> None:
    """The clients submit in turn, as many tasks each as the others."""
    for number, first in enumerate(range(0, tasks, per_submit)):
        client = cluster.clients[number % len(cluster.clients)]
        cluster.submit(client, task_ids(first, min(per_submit, tasks - first)), ARGUMENT)


def resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def running(workers: int, clients: int, queued: int, tasks: int, per_message: int, per_submit: int) -> Figures:
    """The core's time per task from submission to end, while so many others wait."""
    gc.freeze()
    cluster = Cluster(clients)
    queue(cluster, queued, per_submit)
    submitted = cluster.core_seconds
    cluster.join_workers(workers, credit=2 * per_message)
    # Each worker has answered once: what it takes to fill the workers is not what a task costs.
    cluster.run(min(2 * per_message * workers, queued // 2), per_message)
    began = cluster.core_seconds
    count = min(tasks, queued - cluster.finished_count)
    cluster.run(count, per_message)
    return {
        "submit_us": submitted / queued * 1e6,
        "run_us": (cluster.core_seconds - began) / count * 1e6,
        "task_us": submitted / queued * 1e6 + (cluster.core_seconds - began) / count * 1e6,
    }


def queued_memory(tasks: int, clients: int, per_submit: int) -> Figures:
    """What the scheduler's process grows by for each waiting task, without the bytes of its argument."""
    cluster = Cluster(clients)
    queue(cluster, SUBMIT_TASKS, SUBMIT_TASKS)  # what is loaded and remembered the first time
    before = resident_bytes()
    for number, first in enumerate(range(SUBMIT_TASKS, SUBMIT_TASKS + tasks, per_submit)):
        cluster.submit(cluster.clients[number % clients], task_ids(first, per_submit), ARGUMENT)
    return {"bytes": (resident_bytes() - before) / tasks - len(ARGUMENT)}


def graph(nodes: int, workers: int, per_message: int) -> Figures:
    """A reduction of pairs: half of the nodes are leaves, and every value is an argument of the next."""
    gc.freeze()
    cluster = Cluster(1)
    ids = task_ids(0, nodes)
    before, payload = resident_bytes(), 0
    for first in range(0, nodes, GRAPH_PART):
        part = pairs(ids, first, min(first + GRAPH_PART, nodes))
        payload += sum(16 * (len(others) or 1) for _, others in part)
        cluster.submit_graph(cluster.clients[0], part, is_last=first + GRAPH_PART >= nodes)
        del part
    grown = resident_bytes() - before
    submitted = cluster.core_seconds
    cluster.join_workers(workers, credit=2 * per_message)
    began = cluster.core_seconds
    cluster.run(nodes, per_message)
    ran = cluster.core_seconds - began
    cluster.leave()
    return {
        "submit_us": submitted / nodes * 1e6,
        "run_us": ran / nodes * 1e6,
        "task_us": (submitted + ran) / nodes * 1e6,
        "bytes": (grown - payload) / nodes,
    }


def pairs(ids: Sequence[TaskId], first: int, behind: int) -> list[tuple[TaskId, Sequence[TaskId]]]:
    """Node n of the upper half takes two of those before it; each value is taken once, so the last are not."""
    leaves = len(ids) // 2 + 1
    return [(ids[n], ids[2 * (n - leaves) : 2 * (n - leaves) + 2] if n >= leaves else ()) for n in range(first, behind)]


MEASURES: dict[str, Callable[..., Figures]] = {"running": running, "queued_memory": queued_memory, "graph": graph}
