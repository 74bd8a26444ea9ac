"""However many peers come and go, the log grows at a bounded rate and says how much is missing."""

from __future__ import annotations

import pytest

from scaler_protocol.process.line_budget import BURST_LINES, LINES_PER_SECOND, LineBudget


def test_a_flood_of_lines_is_bounded_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    budget = LineBudget("Scheduler")
    written = sum(budget.admits(1000.0 + number / 1000) for number in range(60_000))
    assert BURST_LINES < written <= BURST_LINES + 60 * LINES_PER_SECOND + 1
    told = [record.getMessage() for record in caplog.records]
    assert told and all("lines about peers were left out" in line for line in told)
    assert len(told) <= written


def test_after_a_while_all_lines_are_written_again(caplog: pytest.LogCaptureFixture) -> None:
    budget = LineBudget("Scheduler")
    for _ in range(BURST_LINES + 7):
        budget.admits(0.0)
    caplog.clear()
    assert budget.admits(1000.0)
    assert [record.getMessage() for record in caplog.records] == [
        "Scheduler: 7 lines about peers were left out here, because more than 20 came each second"
    ]
    caplog.clear()
    assert all(budget.admits(1000.0) for _ in range(100)) and not caplog.records
