"""Hosts of workers vanish without a goodbye, and others are only slow."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.host_cluster import FIRST, HostCluster
from tests.support.processes import Stage

#: LIV-15, a tick, and what the machine of the tests takes besides.
FOUND_SECONDS = 5.0 + 2.5
TASK_SECONDS = 1.0


@pytest.mark.usefixtures("hosts_are_possible")
def test_a_host_without_power(tmp_path: Path) -> None:
    """Its tasks begin elsewhere within 5 s, with the timers that are the default."""
    with Stage(tmp_path) as stage:
        cluster = HostCluster(stage)
        try:
            running = cluster.start_work("long", 12)
            running.wait_until_begun(4)
            vanished_at = cluster.vanish(FIRST)
            cluster.scheduler.wait_for("its host has given no sign for 5 s", 2)
            outcome = running.outcome(60.0)
            begun = running.begun
            print(f"{outcome.text} in {outcome.seconds:.1f} s; {begun.reruns} begun again")
            assert outcome.right == outcome.count and not outcome.twice, outcome.text
            assert 0 < begun.reruns <= 4, "what ran there, and no more"
            assert max(begun.at) < vanished_at + FOUND_SECONDS + 4 * TASK_SECONDS
        finally:
            cluster.close()


def test_processes_that_are_stopped_are_slow(cluster: HostCluster) -> None:
    """Their system still answers, so they keep their tasks."""
    running = cluster.start_work("long", 12)
    running.wait_until_begun(4)
    cluster.workers[FIRST].suspend()
    try:
        threading.Event().wait(FOUND_SECONDS)
    finally:
        cluster.workers[FIRST].resume()
    outcome = running.outcome(60.0)
    assert outcome.right == outcome.count and not outcome.twice, outcome.text
    assert not running.begun.reruns
