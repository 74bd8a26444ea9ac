"""A refusal takes its place in the sequence, so that no broken connection can lose it (SES-1, ERR-9)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.session_sides import ONE, TWO, Dialer, Server
from tests.support.session_words import CANCEL, HELLO, PEER, REPLY, SERVER_ID

from scaler_protocol import codes
from scaler_protocol.messages import Acknowledge, Error, Message, Pong, Resume, Submit, Welcome
from scaler_protocol.session import Complained, Lost, Received
from scaler_protocol.session.dialer_states import State

REFUSAL = Error(codes.BAD_BATCH, 1, False, "columns disagree", "BAT-2")
TOLD = Complained(SERVER_ID, codes.BAD_BATCH, 1, "columns disagree", "BAT-2")


def refuse_by_codec(server: Server) -> None:
    server.core.reject(ONE, REFUSAL.code, REFUSAL.text, REFUSAL.clause, 1, server.now)


def refuse_by_role(server: Server) -> None:
    server.say(ONE, CANCEL, seq=1)
    server.round()
    server.core.send(PEER, REFUSAL)


def refuse_by_right(server: Server) -> None:
    server.say(ONE, CANCEL, seq=1)


@pytest.mark.parametrize("refuse", [refuse_by_codec, refuse_by_role, refuse_by_right])
def test_a_refusal_that_died_with_its_socket_is_sent_again(refuse: object) -> None:  # ERR-9, SES-8, SES-18
    allowed = frozenset({Submit}) if refuse is refuse_by_right else None
    server = Server(allowed_messages=None if allowed is None else {codes.ROLE_CLIENT: allowed})
    welcome = server.opened()
    assert callable(refuse)
    refuse(server)
    ((_, lost),) = server.sent()
    server.core.unreachable(ONE, server.now)
    server.say(TWO, replace(HELLO, resume=Resume(welcome.session_id, 0)))
    (_, answer), (where, again) = server.sent()
    assert isinstance(answer.message, Welcome) and answer.message.resumed and answer.message.received_seq == 1
    assert (where, again.seq, again.message) == (TWO, 1, lost.message)
    assert isinstance(again.message, Error) and not again.message.fatal and again.message.ref_seq == 1
    server.say(TWO, Acknowledge(), ack=1)
    assert server.core.backlog_bytes(PEER) == 0, "acknowledged like any other message"


def test_a_refusal_made_while_its_peer_is_away_is_kept() -> None:  # SES-8
    server = Server()
    welcome = server.opened()
    server.say(ONE, CANCEL, seq=1)
    server.round()
    server.core.unreachable(ONE, server.now)
    server.core.send(PEER, REFUSAL)
    assert server.sent() == []
    server.say(TWO, replace(HELLO, resume=Resume(welcome.session_id, 0)))
    assert [(envelope.seq, envelope.message) for _, envelope in server.sent()][1:] == [(1, REFUSAL)]


def test_refusals_and_other_answers_are_numbered_together() -> None:  # SES-1, LIV-4
    server = Server()
    server.opened()
    server.core.send(PEER, REPLY)
    refuse_by_codec(server)
    server.core.send(PEER, Pong(7))
    assert [(envelope.seq, envelope.message) for _, envelope in server.sent()] == [
        (1, REPLY),
        (2, REFUSAL),
        (3, Pong(7)),
    ]


def test_a_dialer_is_told_of_a_refusal_once_and_in_its_order() -> None:  # SES-2, SES-10
    dialer = Dialer().opened()
    for seq, message in enumerate([REPLY, REFUSAL, REPLY], start=1):
        dialer.say(message, seq=seq)
    dialer.say(REFUSAL, seq=2)
    assert dialer.round() == [Received(SERVER_ID, 1, REPLY), TOLD, Received(SERVER_ID, 3, REPLY)]
    assert dialer.sent() == [], "an Error is not answered"


def test_a_missing_refusal_is_a_gap() -> None:  # SES-9
    dialer = Dialer().opened()
    dialer.say(REPLY, seq=2)
    assert dialer.round() == [] and dialer.core.state in (State.INTERRUPTED, State.RESUMING)


def test_a_dialer_numbers_and_keeps_its_refusals_too() -> None:  # ERR-9
    dialer = Dialer(allowed_messages=frozenset()).opened()
    dialer.say(CANCEL, seq=1)
    dialer.core.reject(codes.BAD_BATCH, "columns disagree", "BAT-2", 2, dialer.now)
    assert [envelope.seq for envelope in dialer.sent()] == [1, 2]
    dialer.say(Error(codes.SEQUENCE_GAP, 0, True))
    dialer.now = (dialer.core.next_deadline() or 0.0) + 0.001
    dialer.round()
    dialer.sent()
    dialer.say(dialer.welcome(resumed=True, received_seq=1))
    (again,) = dialer.sent()
    assert (again.seq, again.message) == (2, Error(codes.BAD_BATCH, 2, False, "columns disagree", "BAT-2"))


@pytest.mark.parametrize("seq", [0, 1])
@pytest.mark.parametrize("is_fatal", [False, True])
def test_an_error_is_taken_by_fatal_alone_and_never_answered(seq: int, is_fatal: bool) -> None:  # ERR-4, ERR-5
    message: Message = Error(60_000, 0, is_fatal, "of a newer version")
    expected = Lost if is_fatal else Complained
    server, dialer = Server(), Dialer().opened()
    server.opened()
    server.say(ONE, message, seq=seq)
    dialer.say(message, seq=seq)
    assert [type(event) for event in server.round()] == [type(event) for event in dialer.round()] == [expected]
    assert server.sent() == [] and dialer.sent() == []


def test_refusals_nobody_acknowledges_are_bounded_by_the_backlog() -> None:  # SES-14
    server = Server(backlog_bytes=2_000)
    server.opened()
    for seq in range(1, 20):
        server.core.reject(ONE, codes.BAD_BATCH, "columns disagree", "BAT-2", seq, server.now)
    (lost,) = server.round()
    assert isinstance(lost, Lost) and lost.code == codes.OVERLOADED


def test_the_bound_on_refusals_leaves_no_hole_in_the_sequence() -> None:  # ERR-3
    server = Server()
    server.opened()
    for seq in range(1, 200):
        server.core.reject(ONE, codes.BAD_BATCH, "columns disagree", "BAT-2", seq, server.now)
    in_session = []
    for _, envelope in server.sent():
        in_session.append(envelope.seq)
        if envelope.seq == 0:
            assert isinstance(envelope.message, Error) and envelope.message.fatal
            break
    assert in_session == [*range(1, len(in_session)), 0], "numbered without a gap, then the end"


def test_a_role_cannot_end_a_session_by_an_error() -> None:
    server, dialer = Server(), Dialer().opened()
    server.opened()
    with pytest.raises(AssertionError, match="disconnect"):
        server.core.send(PEER, replace(REFUSAL, fatal=True))
    with pytest.raises(AssertionError, match="bye"):
        dialer.core.send(replace(REFUSAL, fatal=True))
