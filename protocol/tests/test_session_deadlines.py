"""Which session is looked at when. (LIV-6)"""

from __future__ import annotations

import math

from scaler_protocol.codec import encode
from scaler_protocol.codes import ROLE_WORKER
from scaler_protocol.ids import new_peer_id, new_routing_id
from scaler_protocol.messages import Hello, Welcome
from scaler_protocol.session.channel import Channel
from scaler_protocol.session.deadlines import Deadlines
from scaler_protocol.session.server_session import ServerSession


def session_at(now: float) -> ServerSession:
    hello, welcome = Hello(1, 1, ROLE_WORKER, new_peer_id()), Welcome(1, new_peer_id(), 1, 1)
    return ServerSession(hello, welcome, Channel(encode), None, None, new_routing_id(), now)


def test_a_session_that_comes_back_again_and_again_is_watched_once() -> None:
    deadlines, session = Deadlines(), session_at(0.0)
    deadlines.watch(session)
    for number in range(100):
        session.detach(2.0, number / 100)
        deadlines.watch(session)
        session.attach(new_routing_id(), number / 100)
        deadlines.watch(session)
    session.heard_at = 10.0
    assert deadlines.take_due(10.0) == []
    assert [at for at, _ in deadlines.watched()] == [session.checks_at()]


def test_the_earliest_look_counts() -> None:
    deadlines, session = Deadlines(), session_at(0.0)
    deadlines.watch(session)
    session.detach(2.0, 0.5)
    deadlines.watch(session)
    assert deadlines.take_due(2.4) == []
    assert deadlines.take_due(2.5) == [session]
    assert deadlines.take_due(1_000.0) == [], "who was due is watched no longer"
    assert deadlines.next_at == math.inf
