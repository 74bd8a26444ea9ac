"""What the first documents claim beside their programs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from tests.architecture.sources import ROOT
from tests.docs.table import tomllib
from tests.support.clusters import RealCluster
from tests.support.processes import Stage, until


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


def occupy(directory: str) -> int:
    """Says which process it runs in, and holds it until it is let go."""
    Path(directory, f"pid-{os.getpid()}").touch()
    end_at = time.monotonic() + 60
    while not Path(directory, "go").exists():
        assert time.monotonic() < end_at, "nobody let it go"
        threading.Event().wait(0.05)
    return os.getpid()


def test_load_moves_from_a_busy_worker_to_idle_ones(stage: Stage, tmp_path: Path) -> None:
    """Eight long tasks at one worker; seven workers join; eight processes run them."""
    cluster = RealCluster(stage)
    with Client(address=cluster.address) as client:
        futures = [client.submit(occupy, str(tmp_path)) for _ in range(8)]
        until(lambda: any(tmp_path.glob("pid-*")), "the only worker runs one of them")
        cluster.start_workers(7)
        until(lambda: len(list(tmp_path.glob("pid-*"))) == 8, "eight processes run them")
        (tmp_path / "go").touch()
        assert len({future.result(60) for future in futures}) == 8


def test_an_ordinary_cluster_is_protected() -> None:
    with SchedulerClusterCombo(n_workers=1) as combo:
        client = Client(address=combo.get_address())
        with pytest.raises(ValueError, match="protected"):
            client.shutdown()
        with Client(address=combo.get_address()) as another:
            assert another.submit(abs, -1).result(60) == 1


@pytest.mark.parametrize("extra", ["graphblas", "uvloop", "gui", "all"])
def test_the_extras_of_the_documents(extra: str) -> None:
    settings = tomllib.loads((ROOT / "hatch.toml").read_text(encoding="utf-8"))
    assert extra in settings["metadata"]["hooks"]["custom"]["optional-dependencies"]
