"""What the log says of sessions, and how loudly."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from tests.support.scheduler_story import WELCOME, Story

from scaler_protocol.codes import LEASE_EXPIRED, OK, ROLE_WORKER, SESSION_REPLACED
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Hello, WorkerOffer
from scaler_protocol.session import Complained, Lost, Opened, SessionEvent
from scaler_scheduler.core.notes.cluster_events import WORKER_JOINED
from scaler_scheduler.session_lines import log_session

PEER = PeerId(b"w" * 16)


@pytest.mark.parametrize(
    ("event", "level", "told"),
    [
        (Lost(PEER, OK, "", True), "INFO", "peer W left: goodbye"),
        (Lost(PEER, SESSION_REPLACED, "it began another", False), "INFO", "peer W left: it began another"),
        (Lost(PEER, LEASE_EXPIRED, "silent", False), "WARNING", "peer W was lost: silent"),
        (Complained(PEER, OK, 0, "no such batch", "BAT-1"), "WARNING", "peer W complains: no such batch (BAT-1)"),
        (
            Opened(PEER, Hello(1, 1, ROLE_WORKER, PEER, worker=WorkerOffer("w1", (), 1)), WELCOME),
            "INFO",
            "worker w1 joined (of unknown software)",
        ),
    ],
)
def test_a_session_is_told(event: SessionEvent, level: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
    """A worker whose start is slow dials again before it was welcomed: that is no peer that was lost."""
    caplog.set_level(logging.INFO)
    log_session(event, lambda _: "W")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [(level, f"Scheduler: {told}")]


def test_a_peer_that_dials_twice_before_it_is_welcomed_has_joined_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    opened = Opened(PEER, Hello(1, 1, ROLE_WORKER, PEER, worker=WorkerOffer("w1", (), 1)), WELCOME)
    lost = Lost(PEER, SESSION_REPLACED, "it began another", False, is_again=True)
    for event in (opened, lost, replace(opened, is_again=True)):
        log_session(event, lambda _: "W")
    assert [record.getMessage() for record in caplog.records] == ["Scheduler: worker w1 joined (of unknown software)"]


def test_a_worker_that_dials_twice_before_it_is_welcomed_has_joined_once_for_watchers() -> None:
    story = Story()
    opened = Opened(PEER, Hello(1, 1, ROLE_WORKER, PEER, worker=WorkerOffer("w1", (), 1)), WELCOME)
    for event in (opened, Lost(PEER, SESSION_REPLACED, "", False, is_again=True), replace(opened, is_again=True)):
        story.handle(event)
    assert [event.kind for event in story.core.events.last(0.0)] == [WORKER_JOINED]
