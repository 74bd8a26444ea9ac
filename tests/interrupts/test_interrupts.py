"""A short stress; the long one is `python -m tests.interrupts --seconds 300`, with `--real` for generators too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interrupts.stress import stress
from tests.support.clusters import RealCluster, task_total
from tests.support.fake_cluster import FakeCluster
from tests.support.processes import Stage


@pytest.mark.parametrize("seed", (1, 2))
def test_nothing_is_lost(seed: int) -> None:
    cluster = FakeCluster()
    try:
        stress(cluster.address, 2.0, seed)
    finally:
        cluster.stop()


def test_nothing_is_lost_or_left_behind_in_a_real_cluster(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        cluster = RealCluster(stage, 2)
        stress(cluster.address, 5.0, 3, lambda: task_total(cluster.snapshot()))
        cluster.wait_until_empty()
