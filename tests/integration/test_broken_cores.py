"""A mistake in a core ends its process, with a code of its own, and the others recover: there are no zombies."""

from __future__ import annotations

import importlib.util
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from scaler_protocol.process import EXIT_BROKEN
from tests.support import tasks
from tests.support.broken import MISTAKE
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Command, Stage
from tests.support.symphony import APPLICATION, SymphonyCluster, new_world


def start_broken(stage: Stage, command: str, place: str, *arguments: str) -> Command:
    return stage.start("tests.support.broken", command, place, *arguments)


def ends_broken(command: Command) -> None:
    assert command.wait() == EXIT_BROKEN
    assert f"RuntimeError: {MISTAKE}" in command.text and "this is a mistake in Scaler" in command.text


def take_dump(command: Command) -> list[dict[str, Any]]:
    """What a scheduler wrote down before it ended. Only its user can read it."""
    (line,) = [line for line in command.text.splitlines() if "what it remembered is in" in line]
    path = Path(line.split("remembered is in ")[1].split(",")[0])
    found = [json.loads(one) for one in path.read_text().splitlines()]
    assert path.stat().st_mode & 0o077 == 0
    path.unlink()
    return found


LOOPS = ["builtin", *(["uvloop"] if importlib.util.find_spec("uvloop") else [])]


@pytest.mark.parametrize("event_loop", LOOPS)
def test_a_scheduler(stage: Stage, event_loop: str) -> None:
    address = f"tcp://127.0.0.1:{stage.ports()}"
    place = "scaler_scheduler.core.placing.balancing:Balancer:settle"
    command = start_broken(stage, "scaler_scheduler", place, address, "--event-loop", event_loop)
    ends_broken(command)
    assert take_dump(command)[0]["kind"] == "dump"


def test_a_scheduler_whose_publisher_is_broken(stage: Stage) -> None:
    """It does not run in the turns of the loop."""
    address = f"tcp://127.0.0.1:{stage.ports()}"
    command = start_broken(stage, "scaler_scheduler", "scaler_scheduler.publishing:Publisher:tick", address)
    ends_broken(command)
    take_dump(command)


def test_a_storage(stage: Stage) -> None:
    address = f"tcp://127.0.0.1:{stage.ports()}"
    ends_broken(start_broken(stage, "scaler_storage", "scaler_storage.core.core:StorageCore:handle", address))


@pytest.fixture
def cluster(stage: Stage) -> RealCluster:
    return RealCluster(stage, 0)


def test_a_worker_manager(stage: Stage, cluster: RealCluster) -> None:
    place = "scaler_worker.manager.core:ManagerCore:handle"
    ends_broken(start_broken(stage, "scaler_worker.manager", place, "baremetal_native", cluster.address, "-mtc", "1"))


def test_a_symphony_agent(stage: Stage, tmp_path: Path) -> None:
    cluster = SymphonyCluster(stage, new_world(tmp_path))
    with cluster.fake():
        place = "scaler_symphony.core.agent:SymphonyCore:handle"
        command = start_broken(stage, "scaler_symphony", place, cluster.address, APPLICATION)
    ends_broken(command)


def test_a_workers_agent_is_started_again(stage: Stage, cluster: RealCluster) -> None:
    place = "scaler_worker.core.agent:AgentCore:handle"
    command = start_broken(stage, "scaler_worker", place, cluster.address, "-n", "1")
    command.wait_for(f"RuntimeError: {MISTAKE}")
    command.wait_for(rf"exited with code {EXIT_BROKEN}; starting it again")
    command.end(signal.SIGTERM)


def test_a_scheduler_that_breaks_is_followed_by_one_that_works(stage: Stage, cluster: RealCluster) -> None:
    """Its dump tells what it knew; clients and workers find the next one, and no task is lost."""
    cluster.scheduler.end()
    broken = start_broken(
        stage,
        "scaler_scheduler",
        "scaler_scheduler.core.watching.explaining:Explainer:ask",
        cluster.address,
        "-osa",
        cluster.storage_address,
    )
    cluster.start_workers(2)
    with Client(cluster.address) as client:
        cluster.wait_for_workers(2)
        futures = [client.submit(tasks.slow_square, number, 0.2) for number in range(20)]
        futures[0].result(WAIT)
        client.explain(futures[-1])
        ends_broken(broken)
        cluster.start_scheduler()
        assert [future.result(WAIT) for future in futures] == [number**2 for number in range(20)]
    assert {"dump", "tables", "client", "worker", "event"} <= {line["kind"] for line in take_dump(broken)}
