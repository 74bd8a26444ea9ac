"""Programs share real workers: counted in tasks that begin, not in seconds. (SCH-91, SCH-92)"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scaler import Client
from tests.support.clusters import RealCluster, task_total, watching
from tests.support.processes import WAIT, Stage, until
from tests.support.tasks import noted_lines, noted_sleep, wait_for_file

WORKERS = 2
SERVED = 50
QUEUED = 2000


@pytest.fixture(scope="module")
def address(module_stage: Stage) -> str:
    return RealCluster(module_stage, WORKERS).address


def started(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("weight", [1.0, 0.1])
def test_a_single_task_begins_before_the_queue_of_another_client(stage: Stage, tmp_path: Path, weight: float) -> None:
    """The only worker is held at a gate while the single task is submitted. Before that task begins only what the
    worker held then, also if its client has a tenth of the weight, because that client has used nothing yet."""
    cluster = RealCluster(stage, 1)
    log, gate = tmp_path / "log", tmp_path / "gate"
    with Client(cluster.address) as many, Client(cluster.address, weight=weight) as one:
        with watching(cluster.address) as watch:
            for _ in range(SERVED):
                many.submit(noted_sleep, "many", str(log))
            many.submit(wait_for_file, str(gate))
            futures = [many.submit(noted_sleep, "many", str(log)) for _ in range(QUEUED)]
            until(lambda: len(started(log)) == SERVED, "the worker is at the gate")
            until(lambda: task_total(watch.snapshot()) == 1 + QUEUED, "the scheduler has the queue")
            single = one.submit(noted_lines, str(log))
            until(lambda: task_total(watch.snapshot()) == 1 + QUEUED + 1, "and the single task")
            until(lambda: cluster.storage_status().object_count == 3, "the storage has the functions of all")
            counts = {count.name: count.value for count in watch.snapshot().task_counts}
        gate.touch()
        passed = single.result(WAIT) - SERVED
        held = counts["dispatched"]  # with the task at the gate
        assert passed < held < QUEUED / 4, f"{passed} of {QUEUED} tasks began before it, and {held} were held"
        assert not all(future.done() for future in futures)
        many.clear()


@pytest.mark.parametrize(("weight", "least", "most"), [(1.0, 0.35, 0.65), (0.25, 0.1, 0.3), (0.1, 0.03, 0.18)])
def test_a_client_gets_tasks_by_its_weight(
    address: str, tmp_path: Path, weight: float, least: float, most: float
) -> None:
    """Of the tasks that begin while both clients have some queued: a half, a fifth, and an eleventh."""
    log = tmp_path / "log"
    with Client(address) as full, Client(address, weight=weight) as light:
        for client, name in ((full, "full"), (light, "light")):
            for _ in range(QUEUED):
                client.submit(noted_sleep, name, str(log))
        until(lambda: "light" in started(log), "both are served")
        first = started(log).index("light")
        until(lambda: len(started(log)) >= first + 600, "so many tasks have begun")
        count = Counter(started(log)[first : first + 600])
        assert least <= count["light"] / 600 <= most, count
        full.clear()
        light.clear()
