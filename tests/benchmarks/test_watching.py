"""The benchmark of watching still runs: a watcher joins, and each row is told. No figure is judged."""

from __future__ import annotations

import pytest
from benchmarks import watching

from scaler_scheduler import publishing

ROWS = ("no monitor", "all, functions, stacks")


def test_a_cluster_is_watched(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(publishing, "time", publishing.time)  # the benchmark sets a clock of its own
    monkeypatch.setattr(watching, "WAYS", {name: watching.WAYS[name] for name in ROWS})
    assert watching.main(["--workers", "20", "--tasks", "1000", "--seconds", "2", "--rounds", "1"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("20 workers, 1,000 tasks/s") and len(told) == 3
    for name, line in zip(ROWS, told[1:], strict=True):
        assert line.startswith(name) and "times as much" in line
