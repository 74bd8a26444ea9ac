"""Tasks with children go on at the next scheduler, whichever task of their process has opened its connection."""

from __future__ import annotations

import signal
from pathlib import Path

from scaler import Client
from tests.support import api_tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

QUICK = ("--heartbeat-seconds", "0.3")


def test_the_second_parent_of_a_process_has_children_after_a_restart(stage: Stage, tmp_path: Path) -> None:
    """Its client names the task that runs: the new scheduler knows nothing of the first, which has ended, and would let
    the client in after a lease only. (SCH-74)"""
    cluster = RealCluster(stage, 1, scheduler=QUICK, workers=("--heartbeat-interval", "0.3"))
    open_gate, gate, log = tmp_path / "open", tmp_path / "gate", tmp_path / "log"
    open_gate.touch()
    with Client(cluster.address) as client:
        assert client.submit(api_tasks.child_after, client, str(log), str(open_gate)).result(WAIT) == 3
        second = client.submit(api_tasks.child_after, client, str(log), str(gate))
        until(lambda: len(log.read_text().splitlines()) == 2, "the second has begun")
        cluster.scheduler.end(signal.SIGKILL)
        cluster.start_scheduler()
        cluster.wait_for_workers(1)
        gate.touch()
        assert second.result(WAIT) == 3
    assert len(log.read_text().splitlines()) == 2, "neither has begun twice"
