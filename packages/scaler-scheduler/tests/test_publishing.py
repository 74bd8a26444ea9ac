"""A status that was made is used: it is published, and answers questions for a while. (MON-3, MON-9)"""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from scaler_protocol.codec.envelope import Encoded
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import ClusterStatus, Software
from scaler_scheduler import publishing
from scaler_scheduler.publishing import Identity, Publisher
from scaler_scheduler.watchers import STATUS

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
