"""The scheduler is killed and restarted while tasks run: no task is lost, and none begins twice. (WRK-34, SCH-65)"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from scaler import Client
from scaler_protocol.codes import ROLE_CLIENT, ROLE_WORKER
from scaler_protocol.keys import management
from tests.support import graph_tasks
from tests.support.clusters import NAMINGS_SECONDS, RealCluster
from tests.support.processes import WAIT, Stage, until
from tests.support.restarts import begins, restart_scheduler

QUICK = ("--heartbeat-seconds", "0.5")
QUICK_WORKERS = ("--heartbeat-interval", "0.5")
TASKS = 40
SECONDS = 0.5
WORKERS = 4


@pytest.fixture
def cluster(stage: Stage) -> RealCluster:
    return RealCluster(stage, WORKERS, scheduler=QUICK, workers=QUICK_WORKERS)


def test_each_task_begins_once(cluster: RealCluster, tmp_path: Path) -> None:
    """Three deaths, in the middle of everything: of small values, and of some that lie in the storage."""
    log = tmp_path / "log"
    with Client(cluster.address) as client:
        sizes = [10 if number % 4 else 200_000 for number in range(TASKS)]
        futures = [
            client.submit(graph_tasks.noted_sleep, str(log), f"task{number}", size, SECONDS)
            for number, size in enumerate(sizes)
        ]
        for deaths in range(1, 4):
            until(lambda deaths=deaths: len(begins(log)) >= 8 * deaths, "some have begun")
            restart_scheduler(cluster)
        assert [len(future.result(WAIT)) for future in futures] == sizes
    counts = begins(log)
    assert len(counts) == TASKS
    assert set(counts.values()) == {1}, {name: count for name, count in counts.items() if count > 1}
    cluster.wait_until_empty(NAMINGS_SECONDS + WAIT)


def test_what_ended_while_nobody_listened_is_delivered(cluster: RealCluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Client(cluster.address) as client:
        futures = [
            client.submit(graph_tasks.noted_sleep, str(log), f"task{number}", 200_000, 1.0) for number in range(WORKERS)
        ]
        until(lambda: len(begins(log)) == WORKERS, "all have begun")
        cluster.scheduler.end(signal.SIGKILL)
        until(lambda: len(begins(tmp_path / "log.ended")) == WORKERS, "all have ended")
        cluster.start_scheduler()
        assert [len(future.result(WAIT)) for future in futures] == [200_000] * WORKERS
    assert set(begins(log).values()) == {1}
    cluster.wait_until_empty()


@pytest.mark.parametrize("has_lane", [True, False], ids=["lane", "tickets"])
def test_clients_in_tasks_go_on_too(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_lane: bool
) -> None:
    """Of two users, by the ticket of a worker: each is let in when its worker has presented its task, in the family of
    its program, whose large values it goes on to read. With tickets alone, what is lent to the worker and to the
    clients in its tasks names its user, who is neither of the two. (SCH-59, SCH-74, HSK-38, OWN-24, OWN-25, STO-47)"""
    if not has_lane:
        monkeypatch.setenv("SCALER_NO_LANE", "1")
    key, log, gate = tmp_path / "cluster.key", tmp_path / "log", tmp_path / "gate"
    management.make(str(key))
    tickets = {}
    for user, role in (("ana", ROLE_CLIENT), ("joe", ROLE_CLIENT), ("pool", ROLE_WORKER)):
        tickets[user] = str(tmp_path / f"{user}.key")
        management.derive(
            str(key), user=user, roles=frozenset({role}), is_operator=False, expires=0.0, output=tickets[user]
        )
    port = stage.ports()
    address, storage = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
    stage.start("scaler_storage", storage, "--key-file", str(key))
    scheduler = stage.start("scaler_scheduler", address, "-osa", storage, "--key-file", str(key), *QUICK)
    stage.start("scaler_worker", address, "-n", "4", "--key-file", tickets["pool"], *QUICK_WORKERS)
    with Client(address, key_file=str(key)) as operator:
        # One worker for each of these tasks: while the one waits for its file, the other could not go on beside it.
        until(lambda: operator.cluster_info().worker_count == 4, "all workers are there")
    with Client(address, key_file=tickets["ana"]) as ana, Client(address, key_file=tickets["joe"]) as joe:
        futures = [
            client.submit(graph_tasks.noted_nest, str(log), user, str(gate), 1.0, bytes(300_000))
            for user, client in (("ana", ana), ("joe", joe))
        ]
        until(lambda: {"ana-running", "joe-running"} <= begins(log).keys(), "all have begun")
        for _ in range(2):
            scheduler.end(signal.SIGKILL)
            scheduler = stage.start("scaler_scheduler", address, "-osa", storage, "--key-file", str(key), *QUICK)
        gate.touch()
        assert [future.result(WAIT) for future in futures] == [900_000] * 2
    counts = begins(log)
    assert len(counts) == 8 and set(counts.values()) == {1}, counts
