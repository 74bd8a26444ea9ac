"""`scaler_health`, as containers run it."""

from __future__ import annotations

import pytest

from tests.support.clusters import RealCluster
from tests.support.processes import Stage


@pytest.fixture
def cluster(stage: Stage) -> RealCluster:
    return RealCluster(stage, 1, workers=("--worker-names", "w1"))


def test_what_answers(stage: Stage, cluster: RealCluster) -> None:
    for arguments, said in (
        ([cluster.address], "scaler-scheduler"),
        ([cluster.storage_address], "scaler-storage"),
        ([cluster.address, "--worker", "w1"], "scaler-scheduler"),
    ):
        command = stage.start("scaler_protocol.health", *arguments)
        assert command.wait() == 0
        assert command.text.startswith(said) and f"answers at {arguments[0]}" in command.text


def test_what_does_not(stage: Stage, cluster: RealCluster) -> None:
    nowhere = f"tcp://127.0.0.1:{stage.ports()}"
    for arguments, code, said in (
        ([nowhere, "--timeout", "0.3"], 1, f"nothing answers at {nowhere}"),
        ([cluster.address, "--worker", "w2"], 1, "no worker w2 is connected"),
        ([cluster.storage_address, "--worker", "w1"], 1, "and no scheduler: give the scheduler's address"),
        (["nonsense"], 2, "nonsense"),
    ):
        command = stage.start("scaler_protocol.health", *arguments)
        assert command.wait() == code
        assert said in command.text and len(command.text.splitlines()) == 1
