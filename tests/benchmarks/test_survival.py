"""What `benchmarks.survival` makes of the tasks' notes and of the programs' answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.naps import Beginning, beginnings, nap
from benchmarks.survival.__main__ import parse, table
from benchmarks.survival.program import again, pause

BEGUN = [Beginning(1, 10.0, 7), Beginning(2, 10.5, 8), Beginning(3, 12.0, 8), Beginning(1, 14.0, 9)]


def test_a_nap_notes_that_it_begins(tmp_path: Path) -> None:
    log = tmp_path / "begun"
    assert beginnings(log) == []
    assert [nap(str(log), number, 0.0) for number in (4, 5)] == [4, 5]
    assert [one.number for one in beginnings(log)] == [4, 5]


def test_a_task_that_begins_twice_is_one_too_many() -> None:
    assert again(BEGUN) == 1


@pytest.mark.parametrize(
    ("struck_at", "victims", "seconds"),
    [(11.0, set(), 1.0), (11.0, {1}, 3.0), (11.0, {1, 3}, 3.0), (11.0, {2}, None), (15.0, set(), None)],
    ids=["any task", "the one that died", "all that died", "it never began again", "none begins"],
)
def test_a_pause_ends_when_what_died_has_begun_again(
    struck_at: float, victims: set[int], seconds: float | None
) -> None:
    assert pause(BEGUN, struck_at, victims) == seconds


def test_the_table() -> None:
    answer: dict[str, Any] = {"lost": 0, "errors": {}, "again": 1, "pause": 0.25, "goes_on": True, "version": "1.0"}
    lost = {**answer, "lost": 4, "errors": {"Gone": 4}, "pause": None, "goes_on": False}
    found = [
        {"engine": "scaler", "fault": "worker", **answer},
        {"engine": "dask", "fault": "scheduler", **lost},
        {"engine": "ray", "fault": "processor", "ended": -6, "last": []},
    ]
    assert table(found, 4).splitlines()[2:] == [
        "| a worker | scaler 1.0 | 0 | 1 | 0.2 s | runs |",
        "| dask scheduler | dask 1.0 | 4 (Gone) | 1 | none begins | fails |",
        "| the process of the task | ray | all: the program was ended (-6) |  |  |  |",
    ]


def test_peers_need_an_interpreter(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse([]).engine == ["scaler"]
    with pytest.raises(SystemExit):
        parse(["--engine", "dask"])
    assert "--peer-python" in capsys.readouterr().err
