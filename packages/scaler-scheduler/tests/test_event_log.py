"""What of the cluster's events stands in the scheduler's log."""

from __future__ import annotations

import logging

import pytest

from scaler_protocol.process.line_budget import BURST_LINES, LineBudget
from scaler_scheduler.core.notes.cluster_events import ClusterEvents
from scaler_scheduler.event_log import LEVELS, EventLog


def test_events_stand_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    events = ClusterEvents(lambda: 1.0)
    log = EventLog(events, LineBudget("Scheduler"))
    for kind in (*LEVELS, "worker_joined"):
        events.note(kind, "w1", f"{kind} came", 1)
    events.note("worker_lost", "w1", "its connection broke")
    log.look(1.0)
    log.look(1.0)
    events.note("control", "w2", "ana asked this worker to leave")
    log.look(1.0)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == len(LEVELS) + 1, "lines about peers tell that one joins, or is lost without tasks"
    assert lines[0] == "Scheduler: manager trouble: w1: manager_trouble came"
    assert lines[-1] == "Scheduler: control: w2: ana asked this worker to leave"


def test_events_cannot_fill_a_disk_with_lines(caplog: pytest.LogCaptureFixture) -> None:
    events = ClusterEvents(lambda: 1.0)
    log = EventLog(events, LineBudget("Scheduler"))
    for number in range(2 * BURST_LINES):
        events.note("manager_trouble", "grid", str(number))
        log.look(1.0)
    assert len(caplog.records) == BURST_LINES
