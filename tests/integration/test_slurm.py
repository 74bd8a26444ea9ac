"""Workers as jobs of a real Slurm: two nodes on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from tests.support import gpu_tasks, tasks
from tests.support.clusters import RealCluster, offered
from tests.support.processes import WAIT, Command, Stage, until
from tests.support.slurm import KILL_WAIT_SECONDS, SlurmCluster, require_slurm

LOST_SECONDS = 90.0
"""Slurm takes SlurmdTimeout to miss a node, and a round more to put its jobs back into the queue."""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    require_slurm()
    with SlurmCluster(tmp_path / "slurm") as slurm:
        monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        yield slurm


@pytest.fixture
def cluster(slurm: SlurmCluster, stage: Stage) -> RealCluster:
    return RealCluster(stage, 0, scheduler=("--worker-timeout-seconds", "5"))


def start_manager(cluster: RealCluster, tmp_path: Path, *options: str) -> Command:
    return cluster.stage.start(
        "scaler_worker.manager", "slurm", cluster.address, "-mtc", "2", "--partition", "debug",
        "--log-directory", str(tmp_path), "--sbatch-options=--cpus-per-task=2 --mem=100M", "-wmi", "slurm", *options,
    )  # fmt: skip


@pytest.mark.timeout(240)
def test_jobs_come_with_work_and_go_without(cluster: RealCluster, slurm: SlurmCluster, tmp_path: Path) -> None:
    manager = start_manager(cluster, tmp_path, "--gres", "fpga:1")
    with Client(cluster.address) as client:
        futures = [client.submit(tasks.slow_square, number, 0.2) for number in range(30)]
        assert [future.result(WAIT) for future in futures] == [number * number for number in range(30)]
        (worker, *_) = cluster.snapshot().workers
        assert offered(worker) == {"debug": -1, "fpga": 1}
        until(lambda: not slurm.jobs(), "no job is left")
        assert list(tmp_path.glob("scaler-*.log")), "what they wrote is where it was wanted"
    assert manager.end(signal.SIGTERM) == 0


@pytest.mark.timeout(240)
def test_tasks_of_a_job_have_gpus_of_their_own(cluster: RealCluster, slurm: SlurmCluster, tmp_path: Path) -> None:
    """Each of two workers of one job has two of the job's four GPUs, which have made-up devices."""
    manager = start_manager(cluster, tmp_path, "--gres", "gpu:4", "--workers-per-job", "2")
    marks = tmp_path / "marks"
    marks.mkdir()
    with Client(cluster.address) as client:
        submit = client.submit_verbose
        futures = [submit(gpu_tasks.use, (str(marks),), {}, capabilities={"gpu": 1 + n % 2}) for n in range(40)]
        assert all(future.result(WAIT) for future in futures), "no two tasks at once had the same GPU"
        cluster.wait_for_workers(2)
        assert [offered(worker) for worker in cluster.snapshot().workers] == [{"debug": -1, "gpu": 2}] * 2
        assert {submit(gpu_tasks.seen, (), {}, capabilities={"gpu": 2}).result(WAIT) for _ in range(20)} <= {
            *(("0", "2"), ("1", "3"))
        }
        assert client.submit(gpu_tasks.seen).result(WAIT) == (), "a task that needs no GPU sees none"
    assert manager.end(signal.SIGTERM) == 0


@pytest.mark.timeout(300)
def test_a_node_dies_while_tasks_run(cluster: RealCluster, slurm: SlurmCluster, tmp_path: Path) -> None:
    """kill -9 of a slurmd and of all on its node: nothing is lost, and Slurm runs the job again elsewhere."""
    manager = start_manager(cluster, tmp_path)
    log = tmp_path / "log"
    with Client(cluster.address) as client:
        futures = [client.submit(tasks.logged_square, number, 0.5, str(log)) for number in range(80)]
        until(lambda: len(slurm.jobs()) == 2 and all(slurm.jobs().values()), "two jobs run")
        cluster.wait_for_workers(2)
        until(lambda: len({line.split()[1] for line in lines(log)}) == 2, "both are at work")
        job, node = slurm.jobs().popitem()
        slurm.kill_node(node)
        until(lambda: slurm.restarts(job) == 1, "its job is in the queue again", LOST_SECONDS)
        assert [future.result(LOST_SECONDS) for future in futures] == [number * number for number in range(80)]
    assert manager.end(signal.SIGTERM) == 0


@pytest.mark.timeout(240)
def test_a_manager_told_to_end_drains_its_jobs(cluster: RealCluster, slurm: SlurmCluster, tmp_path: Path) -> None:
    """What runs may finish, for longer than Slurm's KillWait, and in one run."""
    manager = start_manager(cluster, tmp_path, "--grace-seconds", "60")
    log = tmp_path / "log"
    with Client(cluster.address) as client:
        running = client.submit(tasks.logged_square, 2, KILL_WAIT_SECONDS + 3.0, str(log))
        until(lambda: len(lines(log)) == 1, "it runs")
        manager.send(signal.SIGTERM)
        assert running.result(WAIT) == 4
        assert manager.wait(2 * WAIT) == 0
    assert len(lines(log)) == 1 and not slurm.jobs()


@pytest.mark.timeout(240)
def test_a_manager_finds_its_jobs_again(cluster: RealCluster, slurm: SlurmCluster, tmp_path: Path) -> None:
    first = start_manager(cluster, tmp_path)
    with Client(cluster.address) as client:
        assert client.submit(tasks.square, 2).result(WAIT) == 4
        (job,) = slurm.jobs()
        first.end(signal.SIGKILL)
        second = start_manager(cluster, tmp_path)
        second.wait_for("connected to the scheduler")
        assert client.submit(tasks.square, 3).result(WAIT) == 9
        assert list(slurm.jobs()) == [job]
    assert second.end(signal.SIGTERM) == 0
    until(lambda: not slurm.jobs(), "its jobs end with it")


@pytest.mark.timeout(120)
def test_a_slurm_that_refuses(cluster: RealCluster, slurm: SlurmCluster, tmp_path: Path) -> None:
    manager = start_manager(cluster, tmp_path, "--sbatch-options=--mem=100G")
    with Client(cluster.address) as client:
        future = client.submit(tasks.square, 2)
        manager.wait_for("sbatch ended with code 1: .*Requested node configuration is not available")
        cluster.start_workers()
        assert future.result(WAIT) == 4, "the rest of the cluster goes on"
    assert manager.end(signal.SIGTERM) == 0


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []
