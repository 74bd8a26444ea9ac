"""All kinds of work over hosts, near and far from each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chaos import IS_FULL
from tests.support.host_cluster import HostCluster
from tests.support.processes import Stage
from tests.support.workload import KINDS

COUNTS = {"small": 100, "long": 4, "large": 8, "graph": 30, "nested": 6}
WORK_SECONDS = 30.0


@pytest.mark.parametrize("kind", KINDS)
def test_work(cluster: HostCluster, kind: str) -> None:
    running = cluster.start_work(kind, COUNTS[kind])
    outcome = running.outcome(WORK_SECONDS)
    assert outcome.right == outcome.count and not outcome.twice, outcome.text
    assert not running.begun.reruns


@pytest.mark.usefixtures("hosts_are_possible")
@pytest.mark.parametrize("milliseconds", [50, 300] if IS_FULL else [50])
def test_a_long_way(tmp_path: Path, milliseconds: int) -> None:
    """Each direction is late by so much. With 300 ms each new connection of clients, processors and tasks takes some
    seconds, so that is a part of `make chaos`."""
    with Stage(tmp_path) as stage:
        cluster = HostCluster(stage, delay_seconds=milliseconds / 1000)
        try:
            kinds = list(KINDS) if milliseconds < 100 else ["small"]
            running = [cluster.start_work(kind, COUNTS[kind]) for kind in kinds]
            for one in running:
                outcome = one.outcome(2 * WORK_SECONDS)
                assert outcome.right == outcome.count and not outcome.twice, outcome.text
                assert not one.begun.reruns
        finally:
            cluster.close()
