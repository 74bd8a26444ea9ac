"""Pings that a server cannot answer yet, and Pongs that are not read (SES-38)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.session_sides import ONE, TWO, Server
from tests.support.session_words import HELLO

from scaler_protocol import codes
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Error, Ping
from scaler_protocol.session import Lost
from scaler_protocol.session.server_session import MOST_PINGS


@pytest.mark.parametrize("is_busy", [True, False], ids=["the role is busy", "Pongs are not read"])
def test_a_peer_that_pings_without_end_loses_its_session(is_busy: bool) -> None:
    server = Server(is_busy_with=lambda peer_id: is_busy)
    server.opened()
    events = []
    for seq in range(1, 2 * MOST_PINGS + 3):
        if events:
            break
        assert seq <= MOST_PINGS + 2
        server.say(ONE, Ping(seq), seq=seq)
        server.core.settle(server.now)
        events = server.round()
    (lost,) = events
    assert isinstance(lost, Lost) and lost.code == codes.OVERLOADED and not lost.is_orderly
    said = server.answer()
    assert isinstance(said, Error) and said.fatal and said.code == codes.OVERLOADED
    server.opened(TWO, replace(HELLO, peer_id=PeerId(b"o" * 16)))


def test_a_peer_that_reads_its_pongs_may_ping_for_ever() -> None:
    server = Server()
    server.opened()
    for seq in range(1, 3 * MOST_PINGS):
        server.say(ONE, Ping(seq), seq=seq, ack=max(0, seq - 64))
        server.core.settle(server.now)
        server.core.take_transmissions()
    assert server.round() == []
