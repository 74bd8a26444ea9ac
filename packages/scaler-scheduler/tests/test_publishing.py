"""A status that was made is used: it is published, and answers questions for a while. (MON-3, MON-9)"""

from __future__ import annotations

import time
from unittest.mock import Mock

import pytest

from scaler_protocol.codec.envelope import Encoded
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import ClusterStatus, Software, StorageStatus
from scaler_scheduler import publishing
from scaler_scheduler.core import Policy, SchedulerCore
from scaler_scheduler.core.notes.cluster_events import EVENTS_SHOWN
from scaler_scheduler.publishing import Identity, Publisher
from scaler_scheduler.watchers import STATUS

EVENTS = 100
IDENTITY = Identity(PeerId(b"s" * 16), Software("", "", "", ""), "", 1.0)


@pytest.mark.parametrize("has_room", (True, False))
def test_a_question_behind_a_publication_makes_no_other_status(has_room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """When no watcher has room, the status before answers, if it is not too old."""
    watchers = Mock()
    watchers.topics.return_value = frozenset({STATUS})
    watchers.publish.side_effect = lambda topic, message: Encoded(message) if has_room else None
    publisher = Publisher(IDENTITY, Mock(), watchers, Mock(), Mock(), Mock(), Mock())
    made: list[float] = []

    def status(now: float) -> ClusterStatus:
        made.append(now)
        return ClusterStatus(server_id=IDENTITY.server_id)

    clock = iter(range(100))
    monkeypatch.setattr(publisher, "status", status)
    monkeypatch.setattr(publishing.time, "thread_time", lambda: float(next(clock)))
    first = publisher.snapshot(1.0, may_be_old=True)
    publisher._publish(frozenset({STATUS}), 2.0)
    second = publisher.snapshot(3.0, may_be_old=True)
    assert made == [1.0, 2.0], "one for the question before, and one for the watchers"
    assert (second is first) is not has_room
    assert publisher.snapshot(2.0 + 1.0 / publishing.COST_SHARE, may_be_old=True) is not second


class Room:
    """Watchers of the status that take what is published, unless they have no room."""

    left_out_count = 0

    def __init__(self) -> None:
        self.has_room = self.is_watching = True
        self.told: list[int] = []

    def __len__(self) -> int:
        return int(self.is_watching)

    def topics(self) -> frozenset[str]:
        return frozenset({STATUS} if self.is_watching else ())

    def publish(self, topic: str, message: ClusterStatus) -> Encoded | None:
        if not self.has_room:
            return None
        self.told += [event.number for event in message.events]
        return Encoded(message)


def test_each_event_of_a_burst_is_published() -> None:
    """A thousand workers lost at once: what the last 32 would not show is there, once there is room."""
    core = SchedulerCore(Policy(), lambda client_id: 0, b"k" * 16, IDENTITY.server_id)
    room, router, figures = Room(), Mock(), Mock()
    router.sent_counts = router.received_counts = {}
    router.address, router.rejected_count = "", 0
    figures.status, figures.asked_at = StorageStatus(0), time.monotonic()
    storage = Mock(is_open=True)
    publisher = Publisher(IDENTITY, core, room, router, storage, figures, Mock())  # type: ignore[arg-type]

    def burst() -> None:
        for number in range(EVENTS):
            core.note("worker_lost", str(number), "", 1.0)

    publisher._publish(room.topics(), 1.0)
    burst()
    assert len(publisher.status(1.0).events) == EVENTS, "an answer before the publication skips none either"
    room.has_room = False
    publisher._publish(room.topics(), 2.0)
    room.has_room = True
    publisher._publish(room.topics(), 3.0)
    assert room.told == list(range(1, EVENTS + 1))
    publisher._publish(room.topics(), 4.0)
    assert len(room.told) == EVENTS + EVENTS_SHOWN, "the next ones are small again"
    room.is_watching = False
    burst()
    publisher.tick()
    assert len(publisher.status(5.0).events) == EVENTS_SHOWN, "no watcher waits for them"


def test_the_storage_is_asked_now_and_then_though_no_session_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    core, room, storage = Mock(), Room(), Mock(is_open=True)
    room.is_watching = False
    figures = publishing.StorageFigures(storage, core.owned_objects)
    publisher = Publisher(IDENTITY, core, room, Mock(), storage, figures, Mock())  # type: ignore[arg-type]
    asked = []
    for now in (100.0, 101.0, 109.0, 110.0, 111.0, 120.5):
        monkeypatch.setattr(publishing.time, "monotonic", lambda now=now: now)
        publisher.tick()
        asked.append(storage.send.call_count)
    assert asked == [1, 1, 1, 2, 2, 3]
