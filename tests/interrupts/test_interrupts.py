"""A short stress; the long one is `python -m tests.interrupts --seconds 300`."""

from __future__ import annotations

import pytest

from tests.interrupts.stress import stress
from tests.support.fake_cluster import FakeCluster


@pytest.mark.parametrize("seed", (1, 2))
def test_nothing_is_lost(seed: int) -> None:
    cluster = FakeCluster()
    try:
        stress(cluster.address, 1.5, seed)
    finally:
        cluster.stop()
