"""Programs share real workers: counted in tasks that begin, not in seconds. (SCH-91, SCH-92)"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from scaler import Client
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until
from tests.support.tasks import noted_lines, noted_sleep

WORKERS = 2
QUEUED = 2000


@pytest.fixture(scope="module")
def address(module_stage: Stage) -> str:
    return RealCluster(module_stage, WORKERS).address


def started(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize("weight", [1.0, 0.1])
def test_a_single_task_begins_before_the_queue_of_another_client(address: str, tmp_path: Path, weight: float) -> None:
    """The workers hold a few tasks of 5 ms each, and these go first. All others wait, also for one that has a tenth of
    the weight: it has used nothing yet. How many begin while the call is on its way depends on the machine; in order of
    submission it would be all of them."""
    log = tmp_path / "log"
    with Client(address, on_exit="cancel") as many, Client(address, weight=weight) as one:
        futures = [many.submit(noted_sleep, "many", str(log)) for _ in range(QUEUED)]
        until(lambda: len(started(log)) >= 50, "the queue is served")
        before = len(started(log))
        passed = one.submit(noted_lines, str(log)).result(WAIT) - before
        assert passed <= QUEUED / 2, f"{passed} of {QUEUED} tasks began before it"
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
