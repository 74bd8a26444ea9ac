"""Libraries that were written for an engine of this shape run on this one unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import RealCluster
from tests.support.processes import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


def run(stage: Stage, library: str, *expected: str) -> None:
    cluster = RealCluster(stage, 2)
    command = stage.start_file(Path(__file__).with_name(f"uses_{library}.py"), cluster.address)
    assert command.wait(200) == 0, command.text
    assert [line for line in command.lines if not line.startswith("[INFO]")] == list(expected), command.text


@pytest.mark.timeout(240)
def test_parfun(stage: Stage) -> None:
    run(stage, "parfun", *["the failure arrived as what it was"] * 2, "done")


@pytest.mark.timeout(240)
def test_pargraph(stage: Stage) -> None:
    run(stage, "pargraph", "[40]", "[40]")
