"""Libraries that were written for an engine of this shape run on this one unchanged. Skipped where they are absent:
`pip install parfun pargraph` brings them."""

from __future__ import annotations

import importlib.util
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
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    cluster = RealCluster(stage, 2)
    command = stage.start_file(Path(__file__).with_name(f"uses_{library}.py"), cluster.address)
    assert command.wait(100) == 0, command.text
    assert [line for line in command.lines if not line.startswith("[INFO]")] == list(expected), command.text


def test_parfun(stage: Stage) -> None:
    run(stage, "parfun", *["the failure arrived as what it was"] * 2, "done")


def test_pargraph(stage: Stage) -> None:
    run(stage, "pargraph", "[40]", "[40]")
