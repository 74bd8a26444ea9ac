"""Clauses of handshake, session and liveness that bind a dialer: what goes in and what comes out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.session_sides import Dialer
from tests.support.session_words import CANCEL, HELLO, REPLY, SERVER_ID

from scaler_protocol import codes
from scaler_protocol.codec import encode
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import (
    Bye,
    CancelReply,
    Error,
    Hello,
    Limits,
    Ping,
    Reject,
    Resume,
    Software,
    Timers,
)
from scaler_protocol.session import (
    Complained,
    Lost,
    Opened,
    Received,
    Rejected,
    SessionEvent,
)
from scaler_protocol.session.dialer_states import TRANSITIONS, IllegalTransitionError, State, Trigger, step
from scaler_protocol.session.handshake import HELLO_BYTES


def test_every_other_move_of_a_dialer_is_illegal() -> None:
    for state in State:
        for trigger in Trigger:
            if (state, trigger) not in TRANSITIONS:
                with pytest.raises(IllegalTransitionError):
                    step(state, trigger)


def test_each_unanswered_hello_gets_a_new_socket_and_a_higher_incarnation() -> None:  # HSK-20, HSK-22
    dialer = Dialer()
    incarnations, waits = [], []
    for _ in range(5):
        dialer.round()
        (envelope,) = dialer.sent()
        assert isinstance(envelope.message, Hello)
        incarnations.append(envelope.message.incarnation)
        deadline = dialer.core.next_deadline()
        assert deadline is not None
        waits.append(deadline - dialer.now)
        dialer.now = deadline
    assert incarnations == [0, 1, 2, 3, 4] and dialer.core.generation == 5
    assert waits == sorted(waits) and waits[0] < waits[-1]


def test_nobody_there_is_a_rejection_when_a_limit_was_set() -> None:
    dialer = Dialer(give_up_seconds=3.0)
    events: list[SessionEvent] = []
    while not events:
        events = dialer.round()
        assert dialer.now <= 13.0 + 1e-6
        dialer.now = dialer.core.next_deadline() or dialer.now
    (rejected,) = events
    assert isinstance(rejected, Rejected) and "no scheduler answered within 3 s" in rejected.text
    assert dialer.core.next_deadline() is None


def test_why_a_full_server_has_no_session_is_told() -> None:  # ERR-10, ERR-11
    dialer = Dialer(give_up_seconds=3.0)
    full = Reject(codes.OVERLOADED, 1, 1, "this scheduler is full")
    events: list[SessionEvent] = []
    dials = 0
    while not events:
        events = dialer.round()
        if dialer.sent():
            dials += 1
            dialer.say(full)
        assert dialer.now <= 13.0 + 1e-6
        dialer.now = dialer.core.next_deadline() or dialer.now
    (rejected,) = events
    assert isinstance(rejected, Rejected) and rejected.text == "this scheduler is full (tried for 3 s)"
    assert dials > 3 and dialer.core.backoff.reason == "this scheduler is full"
    dialer.core.redial()
    dialer.round()
    assert dialer.core.backoff.reason == "", "that was the last time"


def test_what_is_sent_before_the_session_is_dropped() -> None:
    dialer = Dialer()
    dialer.core.send(CANCEL)
    dialer.opened()
    assert dialer.sent() == []


def test_limits_that_a_server_leaves_open_are_the_usual_ones() -> None:  # LIM-1
    dialer = Dialer()
    dialer.round()
    dialer.say(dialer.welcome(limits=Limits(0, 0, 7, 0)))
    (opened,) = dialer.round()
    assert isinstance(opened, Opened) and opened.welcome.limits == replace(Limits(), batch_tasks=7)


def test_a_gap_makes_a_dialer_redial_and_resume() -> None:  # SES-6, SES-9, SES-18
    dialer = Dialer().opened()
    dialer.core.send(CANCEL)
    dialer.sent()
    dialer.say(REPLY, seq=1)
    dialer.say(REPLY, seq=3)
    assert [type(event) for event in dialer.round()] == [Received]
    (envelope,) = dialer.sent()
    assert envelope.message == replace(HELLO, resume=Resume(17, 1)) and dialer.core.generation == 2
    dialer.core.send(CANCEL)
    assert dialer.sent() == [], "kept until the session is resumed"
    dialer.say(dialer.welcome(resumed=True, received_seq=0))
    assert [(envelope.seq, envelope.message) for envelope in dialer.sent()] == [(1, CANCEL), (2, CANCEL)]
    assert dialer.round() == []


def test_a_dialer_drops_duplicates() -> None:  # SES-10
    dialer = Dialer().opened()
    dialer.say(REPLY, seq=1)
    dialer.say(REPLY, seq=1)
    assert [type(event) for event in dialer.round()] == [Received]
    assert dialer.core.generation == 1


def test_a_server_that_remembers_nothing_is_lost_and_opened() -> None:  # SES-11
    dialer = Dialer().opened()
    dialer.core.send(CANCEL)
    dialer.say(Error(codes.NO_SESSION, 0, True))
    dialer.round()
    dialer.say(dialer.welcome(session_id=18))
    lost, opened = dialer.round()
    assert isinstance(lost, Lost) and lost.code == codes.NO_SESSION and isinstance(opened, Opened)
    dialer.sent()
    dialer.core.send(CANCEL)
    assert [envelope.seq for envelope in dialer.sent()] == [1], "nothing of the old session is sent again"


def test_a_welcome_that_would_replace_waits_for_the_role() -> None:
    dialer = Dialer().opened()
    dialer.say(REPLY, seq=1)
    dialer.say(Error(codes.NO_SESSION, 0, True))
    dialer.core.expire(dialer.now)
    dialer.say(dialer.welcome(session_id=18))
    assert [type(event) for event in dialer.core.take_events()] == [Received]
    dialer.sent()
    dialer.core.send(CANCEL)
    assert [type(event) for event in dialer.round()] == [Lost, Opened]
    assert dialer.sent() == [], "the answer to the old session's message died with it"


def test_a_connection_that_is_gone_is_followed_by_another_at_once() -> None:  # LAN-6
    dialer = Dialer().opened()
    dialer.core.send(CANCEL)
    dialer.sent()
    for generation in (2, 3):  # the first one costs no pause, the next one does
        dialer.core.disconnected(dialer.now)
        due_at = dialer.core.next_deadline()
        assert due_at is not None and (due_at == dialer.now) == (generation == 2)
        dialer.now = due_at
        assert dialer.round() == []
        (envelope,) = dialer.sent()
        assert envelope.message == replace(HELLO, resume=Resume(17, 0)) and dialer.core.generation == generation
    dialer.say(dialer.welcome(resumed=True, received_seq=0))
    assert [envelope.message for envelope in dialer.sent()] == [CANCEL]


def test_a_session_moves_to_a_better_socket() -> None:  # LAN-2
    dialer = Dialer().opened()
    dialer.core.move(dialer.now)
    dialer.core.send(CANCEL)
    assert dialer.round() == [] and dialer.core.generation == 2
    (envelope,) = dialer.sent()
    assert envelope.message == replace(HELLO, resume=Resume(17, 0))
    dialer.say(dialer.welcome(resumed=True, received_seq=0))
    assert [envelope.message for envelope in dialer.sent()] == [CANCEL]
    assert dialer.core.is_open and dialer.round() == []


def test_without_a_connection_there_is_nothing_to_lose_or_move() -> None:
    dialer = Dialer()
    dialer.core.disconnected(dialer.now)
    dialer.core.move(dialer.now)
    assert dialer.core.state is State.IDLE


def test_a_dialer_pings_when_either_side_is_silent() -> None:  # LIV-2, LIV-3
    dialer = Dialer().opened()
    dialer.sent()
    for _ in range(4):  # never silent itself
        dialer.now += 0.6
        dialer.core.send(CANCEL)
        dialer.round()
        dialer.core.settle(dialer.now)
    pings = [envelope for envelope in dialer.sent() if isinstance(envelope.message, Ping)]
    assert len(pings) == 2, "not more than one each heartbeat"


def test_silence_makes_a_dialer_redial_and_at_last_give_up() -> None:  # LIV-7, LIV-12
    dialer = Dialer().opened()
    opened_at = dialer.now
    events: list[SessionEvent] = []
    redialed_at = 0.0
    while not events:
        deadline = dialer.core.next_deadline()
        assert deadline is not None and deadline <= opened_at + 12.0
        dialer.now = max(deadline, dialer.now)
        events = dialer.round()
        dialer.core.settle(dialer.now)
        if dialer.core.generation == 2 and not redialed_at:
            redialed_at = dialer.now
    assert redialed_at == opened_at + 3.0
    (lost,) = events
    assert isinstance(lost, Lost) and lost.code == codes.LEASE_EXPIRED and dialer.now == opened_at + 12.0
    assert lost.silent_seconds == 12.0
    assert dialer.core.next_deadline() is None


@pytest.mark.parametrize("lease", [0.15, 0.5, 1.0, 2.0, 3.0, 5.0, 60.0])
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_session_is_given_up_when_its_lease_ends_however_short_it_is(lease: float, is_cut: bool) -> None:  # LIV-12
    dialer = Dialer()
    dialer.round()
    dialer.say(dialer.welcome(timers=Timers(max(lease / 5, 0.05), lease)))
    dialer.round()
    opened_at = dialer.now
    events: list[SessionEvent] = []
    if is_cut:
        dialer.now += lease / 2
        dialer.core.disconnected(dialer.now)
    while not events:
        dialer.now = max(dialer.core.next_deadline() or 0.0, dialer.now)
        events = dialer.round()
        dialer.core.settle(dialer.now)
    (lost,) = events
    assert isinstance(lost, Lost) and lost.code == codes.LEASE_EXPIRED
    assert dialer.now == pytest.approx(opened_at + lease)


def test_a_dialer_that_was_itself_stopped_tries_once_more() -> None:
    dialer = Dialer().opened()
    dialer.now += 100.0
    assert dialer.round() == []
    (envelope,) = [envelope for envelope in dialer.sent() if isinstance(envelope.message, Hello)]
    assert envelope.message == replace(HELLO, resume=Resume(17, 0))
    dialer.now += 3.0
    (lost,) = dialer.round()
    assert isinstance(lost, Lost) and lost.silent_seconds == 3.0, "while it was stopped it has not waited"


def test_a_paced_role_never_overloads_its_session() -> None:  # SES-14
    dialer = Dialer(backlog_bytes=1_000, is_paced=True).opened()
    with pytest.raises(AssertionError, match="send less"):
        for _ in range(20):
            dialer.core.send(CANCEL)


def test_resumes_that_bring_nothing_come_to_an_end() -> None:  # SES-20
    dialer = Dialer().opened()
    dialer.core.send(CANCEL)
    events: list[SessionEvent] = []
    for _ in range(10):
        dialer.say(Error(codes.SEQUENCE_GAP, 0, True))
        dialer.now = (dialer.core.next_deadline() or 0.0) + 0.001
        events += dialer.round()
        dialer.say(dialer.welcome(resumed=True))
        events += dialer.round()
        if events:
            break
    (lost,) = events
    assert isinstance(lost, Lost) and lost.code == codes.SEQUENCE_GAP


def test_a_replaced_dialer_does_not_dial_again() -> None:  # SES-22
    dialer = Dialer().opened()
    dialer.say(Error(codes.SESSION_REPLACED, 0, True, "taken"))
    assert [type(event) for event in dialer.round()] == [Lost]
    dialer.core.redial()
    assert [type(event) for event in dialer.round()] == [Rejected]
    assert dialer.core.generation == 1


def test_a_replaced_dialer_that_may_have_another_peer_id_dials_with_it() -> None:  # SES-22
    others = iter((bytes((7,)) * 16, bytes((8,)) * 16))
    dialer = Dialer(next_peer_id=lambda: PeerId(next(others))).opened()
    for number in (7, 8):
        dialer.say(Error(codes.SESSION_REPLACED, 0, True, "taken"))
        assert [type(event) for event in dialer.round()] == [Lost]
        assert dialer.round() == [] and dialer.sent() == [], "not before the role asks for it"
        dialer.core.redial()
        assert dialer.round() == []
        (hello,) = (envelope.message for envelope in dialer.sent())
        assert isinstance(hello, Hello) and hello.peer_id == bytes((number,)) * 16 and hello.resume == Resume()
        dialer.say(dialer.welcome())
        assert [type(event) for event in dialer.round()] == [Opened]


def test_errors_that_are_not_fatal_are_told_to_the_role() -> None:
    dialer = Dialer().opened()
    dialer.say(Error(codes.BAD_BATCH, 4, False, "columns disagree", "BAT-2"))
    assert dialer.round() == [Complained(SERVER_ID, codes.BAD_BATCH, 4, "columns disagree", "BAT-2")]


def test_a_server_may_send_only_what_this_role_may_receive() -> None:  # HSK-13
    dialer = Dialer(allowed_messages=frozenset({CancelReply})).opened()
    dialer.say(CANCEL, seq=1)
    dialer.say(REPLY, seq=2)
    assert [event.seq for event in dialer.round() if isinstance(event, Received)] == [2]
    (envelope,) = [envelope for envelope in dialer.sent() if isinstance(envelope.message, Error)]
    assert isinstance(envelope.message, Error) and envelope.message.code == codes.NOT_ALLOWED


def test_a_goodbye_is_the_last_word() -> None:  # LIV-8
    dialer = Dialer().opened()
    dialer.core.bye(0, "done")
    dialer.core.send(CANCEL)
    assert [type(envelope.message) for envelope in dialer.sent()] == [Bye]
    (lost,) = dialer.round()
    assert isinstance(lost, Lost) and lost.is_orderly
    dialer.core.redial()
    dialer.round()
    (envelope,) = dialer.sent()
    assert isinstance(envelope.message, Hello) and envelope.message.incarnation == 1


def test_a_version_the_dialer_does_not_speak_is_a_rejection() -> None:
    dialer = Dialer()
    dialer.round()
    dialer.say(dialer.welcome(version=2))
    (rejected,) = dialer.round()
    assert isinstance(rejected, Rejected) and rejected.code == codes.VERSION_MISMATCH


def test_a_hello_that_no_server_has_to_read_is_not_sent() -> None:  # LIM-20
    near = len(encode(replace(HELLO, software=Software(name="n" * 60_000)), 0, 0)[0])
    for size in (HELLO_BYTES, HELLO_BYTES + 8):
        hello = replace(HELLO, software=Software(name="n" * (60_000 + size - near)))
        assert len(encode(hello, 0, 0)[0]) == size
        dialer = Dialer(hello=hello)
        events = dialer.round()
        if size == HELLO_BYTES:
            assert events == [] and [envelope.message for envelope in dialer.sent()] == [hello]
            continue
        (rejected,) = events
        assert dialer.sent() == [] and isinstance(rejected, Rejected) and rejected.code == codes.TOO_LARGE
        assert "65,536" in rejected.text and "shorter names" in rejected.text
