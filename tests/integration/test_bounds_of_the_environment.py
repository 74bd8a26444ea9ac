"""Bounds that the environment sets to processes of a cluster: one of them meets its bound, refuses, and is given room
again. Then all tasks end without any other event, those that were submitted meanwhile, too, and no part was lost.

The bounds of disks and memory have the same law where a storage is simulated (`test_room_comes_back.py`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from scaler import Client
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage

DEPTH = 3
PARTS = ("storage", "scheduler", "cluster process", "agent", "zygote", "processor")
"""From the third on each is a child of the one before."""

WORKERS_WITH_FEW_PROCESSES = r"""
import errno, os, sys
fork, bound = os.fork, sys.argv.pop(1)
def fork_within_bounds():
    if os.path.exists(bound):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()
os.fork = fork_within_bounds
from scaler_worker.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
"""While the file is there, no process can be made. RLIMIT_NPROC does not bind root, and a container's bound needs a
container."""

GiveBack = Callable[[], None]


def nested(depth: int) -> int:
    """Needs a processor for each level, and a connection."""
    from scaler import Client

    if not depth:
        return 0
    with Client() as client:
        return 1 + client.submit(nested, depth - 1).result()


def process_of(cluster: RealCluster, part: str) -> psutil.Process:
    if part in ("storage", "scheduler"):
        return psutil.Process(getattr(cluster, part).pid)
    process = psutil.Process(cluster.workers[0].pid)
    for _ in PARTS[3 : PARTS.index(part) + 1]:
        (process,) = process.children()
    return process


def take_descriptors(part: str, cluster: RealCluster, _bound: Path) -> GiveBack:
    """It can open no file more."""
    process = process_of(cluster, part)
    usual = process.rlimit(psutil.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir(f"/proc/{process.pid}/fd")}
    process.rlimit(psutil.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), usual[1]))
    return partial(process.rlimit, psutil.RLIMIT_NOFILE, usual)


def take_processes(cluster: RealCluster, bound: Path) -> GiveBack:
    bound.touch()
    return bound.unlink


def take_processes_and_a_worker(cluster: RealCluster, bound: Path) -> GiveBack:
    give_back = take_processes(cluster, bound)
    process_of(cluster, "agent").kill()
    return give_back


REFUSED, SHORT = "could not be forked", "new peers cannot connect"
BOUNDS: dict[str, tuple[Callable[[RealCluster, Path], GiveBack], str]] = {
    "descriptors of the storage": (partial(take_descriptors, "storage"), SHORT),
    "descriptors of the scheduler": (partial(take_descriptors, "scheduler"), SHORT),
    "descriptors of the cluster process": (partial(take_descriptors, "cluster process"), ""),
    "descriptors of the agent": (partial(take_descriptors, "agent"), REFUSED),
    "descriptors of the zygote": (partial(take_descriptors, "zygote"), REFUSED),
    "descriptors of the processor": (partial(take_descriptors, "processor"), ""),
    "processes": (take_processes, REFUSED),
    "processes, when a worker is to be started": (take_processes_and_a_worker, "cannot be forked"),
}
"""Each with what takes all that there is, and what a log says then."""


@pytest.mark.parametrize("name", BOUNDS)
def test_what_was_refused_works_when_there_is_room_again(name: str, stage: Stage, tmp_path: Path) -> None:
    exhaust, told = BOUNDS[name]
    bound = tmp_path / "bound"
    cluster = RealCluster(stage, 0)
    cluster.workers.append(
        stage.start_program(WORKERS_WITH_FEW_PROCESSES, str(bound), cluster.address, "-n", "1", "-hi", "0.5")
    )
    cluster.wait_for_workers(1)
    with Client(cluster.address, timeout_seconds=WAIT) as client:
        assert client.submit(nested, 0).result(WAIT) == 0
        before = {part: process_of(cluster, part) for part in PARTS[:5]}
        give_back = exhaust(cluster, bound)
        futures = [client.submit(nested, DEPTH) for _ in range(3)]
        if told:
            command = getattr(cluster, name.rpartition(" ")[2]) if told == SHORT else cluster.workers[0]
            command.wait_for(told)
        elif name == "descriptors of the processor":
            assert isinstance(futures[0].exception(WAIT), OSError), "the error of the task's own connection"
        give_back()
        for future in futures:
            error = future.exception(WAIT)
            assert isinstance(error, OSError) if name == "descriptors of the processor" else error is None, error
        assert client.submit(nested, DEPTH).result(WAIT) == DEPTH
        assert len(client.submit(bytes, 200_000).result(WAIT)) == 200_000
        lost = [part for part, process in before.items() if not process.is_running()]
        assert lost == (["agent", "zygote"] if exhaust is take_processes_and_a_worker else [])
    cluster.stop()
