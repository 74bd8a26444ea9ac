"""A law of tasks: the next task finds its process as a fresh one, or the difference is documented; and it ends as in a
fresh one, whatever tasks before it have left behind."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from tests.architecture.sources import ROOT
from tests.support.clusters import RealCluster
from tests.support.leavings import LEAVINGS, STAYS, hold, leave_file, raise_with_a_frame, report
from tests.support.processes import WAIT, Stage, until

SEEDS = range(3)
LARGE = 200_000
"""Bytes: such a value travels through the storage."""


def leave(client: Client, leaving: Any, directory: Path) -> None:
    future = client.submit(leaving, *([str(directory)] if leaving is leave_file else []))
    assert isinstance(future.exception(WAIT), ValueError if leaving is raise_with_a_frame else type(None))


def differing(found: dict[str, Any], fresh: dict[str, Any]) -> set[str]:
    return {part for part in fresh if found[part] != fresh[part]}


def check_that_tasks_end(client: Client) -> None:
    assert client.submit(pow, 2, 10).result(WAIT) == 1024
    assert client.submit(bytes, LARGE).result(WAIT) == bytes(LARGE)
    assert client.submit(len, bytes(LARGE)).result(WAIT) == LARGE
    assert client.map(abs, range(-20, 0), timeout=WAIT) == list(range(20, 0, -1))
    assert isinstance(client.submit(divmod, 1, 0).exception(WAIT), ZeroDivisionError)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_next_task_finds_a_fresh_process_or_the_difference_is_documented(
    seed: int, stage: Stage, tmp_path: Path
) -> None:
    dice = random.Random(seed)
    order = dice.sample(list(LEAVINGS), len(LEAVINGS))
    cluster = RealCluster(stage, 1)
    with Client(cluster.address, timeout_seconds=WAIT) as client:
        fresh = client.submit(report).result(WAIT)
        place, allowed = fresh["process"], set[str]()
        for leaving in order:
            leave(client, leaving, tmp_path)
            found = client.submit(report).result(WAIT)
            if found["process"] != place:  # another processor, with nothing of the one before
                place, allowed = found["process"], set()
            allowed |= {"process", *LEAVINGS[leaving]}
            assert differing(found, fresh) <= allowed, (leaving.__name__, differing(found, fresh) - allowed)
            check_that_tasks_end(client)
            if dice.random() < 0.1:
                path = tmp_path / f"held-{leaving.__name__}"
                future = client.submit(hold, str(path))
                until(path.exists, "the task runs")
                assert future.cancel()
                assert client.submit(pow, 2, 3).result(WAIT) == 8
    cluster.stop()


def test_what_stays_is_documented() -> None:
    text = (ROOT / "docs" / "guide" / "debugging.md").read_text(encoding="utf-8")
    section = text.partition("## What a task leaves behind")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    named = {part.strip() for row in rows for part in row.split(",")}
    assert named >= STAYS, STAYS - named
