"""Numerical libraries in all workers together start as many threads as there are cores."""

from __future__ import annotations

import os

import pytest

from scaler_worker.cluster import Cluster
from scaler_worker.config import ClusterConfig
from scaler_worker.cores import VARIABLES, share_cores, usable_cores


@pytest.mark.parametrize(("cores", "workers", "threads"), [(8, 8, 1), (8, 2, 4), (8, 3, 2), (2, 16, 1), (4, 0, 4)])
def test_cores_are_shared_out_among_workers(cores: int, workers: int, threads: int) -> None:
    environment = {"HOME": "/root"}
    share_cores(environment, cores, workers)
    assert environment == {"HOME": "/root", **dict.fromkeys(VARIABLES, str(threads))}


@pytest.mark.parametrize("name", VARIABLES)
def test_a_number_that_the_user_has_set_stays_alone(name: str) -> None:
    environment = {name: "3"}
    share_cores(environment, 8, 8)
    assert environment == {name: "3"}


def test_a_process_may_use_a_core() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


def test_workers_of_a_cluster_command_start_with_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "1")  # so that it is as it was afterwards
        monkeypatch.delenv(name)
    seen: list[str] = []
    cluster = Cluster(ClusterConfig("tcp://127.0.0.1:1", worker_names=tuple("abcdefgh")), lambda _config, _name: 0)
    monkeypatch.setattr(cluster, "_find_key", lambda: seen.append(os.environ["OMP_NUM_THREADS"]))
    monkeypatch.setattr(cluster, "_listen_to_signals", lambda: None)
    assert cluster.run() == 0
    assert seen == [str(max(1, usable_cores() // 8))]
    cluster._wake_reader.close()
    cluster._wake_writer.close()
