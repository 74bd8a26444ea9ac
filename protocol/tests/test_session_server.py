"""Clauses of handshake, session and liveness that bind a server: what goes in and what comes out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.support.session_sides import ONE, THREE, TWO, Dialer, Server
from tests.support.session_words import CANCEL, HELLO, PEER, REPLY

from scaler_protocol import codes
from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.messages import (
    Acknowledge,
    Bye,
    Error,
    Hello,
    Limits,
    Message,
    Ping,
    Pong,
    Reject,
    Resume,
    Software,
    Submit,
    Timers,
    Welcome,
)
from scaler_protocol.session import (
    Lost,
    Opened,
    Received,
)

# ---------------------------------------------------------------- Hello


def test_a_version_mismatch_names_both_sides_and_what_to_do() -> None:  # HSK-3, HSK-11
    server = Server(software=Software("scaler-scheduler", "0.1.0"))
    server.say(ONE, replace(HELLO, version_min=3, version_max=4))
    reject = server.answer()
    assert isinstance(reject, Reject)
    assert (reject.code, reject.version_min, reject.version_max) == (codes.VERSION_MISMATCH, 1, 1)
    expected = "scaler-scheduler 0.1.0 speaks protocol 1 and scaler-client 9 speaks protocols 3 to 4: upgrade "
    assert reject.text == expected + "scaler-scheduler 0.1.0"


def test_an_old_dialer_is_the_one_to_upgrade() -> None:
    server = Server(version_min=2, version_max=3)
    server.say(ONE, HELLO)
    reject = server.answer()
    assert isinstance(reject, Reject) and reject.text.endswith("upgrade scaler-client 9")
    assert server.round() == []


@pytest.mark.parametrize(
    ("routing_id", "hello", "code"),
    [
        (ONE, replace(HELLO, role=0), codes.BAD_ROLE),
        (ONE, replace(HELLO, role=99), codes.BAD_ROLE),
        (ONE, replace(HELLO, role=codes.ROLE_WORKER), codes.BAD_ROLE),
        (ONE, replace(HELLO, peer_id=PeerId(b"short")), codes.BAD_IDENTITY),
        (RoutingId(b"\0abcd"), HELLO, codes.BAD_IDENTITY),
        (RoutingId(b"\0" * 16), HELLO, codes.BAD_IDENTITY),
    ],
)
def test_a_hello_that_cannot_be_is_rejected(routing_id: RoutingId, hello: Hello, code: int) -> None:  # HSK-4, HSK-5
    server = Server()
    server.say(routing_id, hello)
    assert server.round() == []
    reject = server.answer()
    assert isinstance(reject, Reject) and reject.code == code and reject.text


def test_welcome_carries_what_both_sides_can_do() -> None:  # HSK-6, HSK-15, LIV-1
    server = Server(features=("a", "b"), limits=Limits(inline_bytes=1000), timers=Timers(2.0, 60.0))
    limits = Limits(inline_bytes=5000, batch_tasks=10, envelope_bytes=0)
    welcome = server.opened(hello=replace(HELLO, features=("b", "c"), limits=limits, timers=Timers(0.5, float("nan"))))
    assert welcome.features == ("b",)
    assert (welcome.limits.inline_bytes, welcome.limits.batch_tasks) == (1000, 10)
    assert welcome.limits.envelope_bytes == Limits().envelope_bytes
    assert welcome.timers == Timers(0.5, 60.0)


def test_a_limit_below_its_floor_is_agreed_as_the_floor() -> None:  # LIM-5
    offered = Limits(inline_bytes=1, payload_frame_bytes=1, batch_tasks=1, envelope_bytes=1)
    agreed = Server().opened(hello=replace(HELLO, limits=offered)).limits
    assert agreed == Limits(1024, 8 << 20, 1, 64 << 10)


def test_timers_are_never_so_short_that_a_healthy_peer_is_lost() -> None:  # LIV-1
    welcome = Server().opened(hello=replace(HELLO, timers=Timers(0.001, 0.001)))
    assert welcome.timers.heartbeat_seconds == 0.05
    assert welcome.timers.lease_seconds == pytest.approx(0.15)


def test_a_hello_repeated_on_its_socket_gets_the_same_welcome() -> None:  # HSK-17
    server = Server()
    welcome = server.opened()
    server.say(ONE, HELLO)
    assert server.answer() == welcome
    assert server.round() == []


@pytest.mark.parametrize("resume", [Resume(), Resume(4711, 3)], ids=["as-before", "naming-another-session"])
def test_a_further_hello_moves_the_session_that_nobody_has_used(resume: Resume) -> None:  # HSK-24
    server = Server()
    welcome = server.opened()
    server.core.send(PEER, REPLY)
    server.core.take_transmissions()
    server.say(TWO, replace(HELLO, resume=resume))
    (first, again), (second, reply) = server.sent()
    assert (first, again.message, second, reply.message, reply.seq) == (TWO, welcome, TWO, REPLY, 1)
    assert server.round() == []


def test_a_new_life_replaces_the_session_and_tells_the_old_socket() -> None:  # HSK-7, SES-12, SES-21
    server = Server()
    server.opened()
    server.say(TWO, replace(HELLO, incarnation=1))
    assert [type(event) for event in server.round()] == [Lost, Opened]
    (where, error), (_, welcome) = server.sent()
    assert where == ONE and isinstance(error.message, Error) and error.message.code == codes.SESSION_REPLACED
    assert isinstance(welcome.message, Welcome)


@pytest.mark.parametrize("resume", [Resume(), Resume(4711, 3)], ids=["new", "after-another-server"])
@pytest.mark.parametrize("is_used", [False, True])
def test_a_dialer_that_was_welcomed_too_late_is_told_from_one_that_begins_anew(is_used: bool, resume: Resume) -> None:
    server = Server()
    server.opened(hello=replace(HELLO, resume=resume))
    if is_used:
        server.say(ONE, CANCEL, seq=1)
        server.round()
    server.say(TWO, replace(HELLO, incarnation=1))
    assert [(type(event), event.is_again) for event in server.round()] == [(Lost, not is_used), (Opened, not is_used)]


def test_a_busy_server_that_reads_two_dials_at_once_meets_one_dialer() -> None:
    server, dialer = Server(), Dialer()
    for routing_id in (ONE, TWO):
        dialer.round()
        (envelope,) = dialer.sent()
        server.say(routing_id, envelope.message)
        dialer.now = dialer.core.next_deadline() or math.inf
    events = server.round() + server.round()  # each round takes one of the two
    told = [(type(event), event.is_again) for event in events if isinstance(event, (Opened, Lost))]
    assert told == [(Opened, False), (Lost, True), (Opened, True)]


def test_another_hello_begins_anew() -> None:
    server = Server()
    server.opened()
    server.say(TWO, replace(HELLO, incarnation=1, features=("x",)))
    assert [event.is_again for event in server.round()] == [False, False]


def test_a_late_hello_of_an_earlier_life_changes_nothing() -> None:  # HSK-14
    server = Server()
    server.opened(hello=replace(HELLO, incarnation=5))
    server.say(TWO, replace(HELLO, incarnation=4))
    reject = server.answer()
    assert isinstance(reject, Reject) and reject.code == codes.SESSION_REPLACED
    assert server.round() == []


def test_a_late_resume_changes_nothing() -> None:  # HSK-23
    server = Server()
    welcome = server.opened()
    server.core.send(PEER, REPLY)
    server.say(ONE, CANCEL, seq=1, ack=1)
    server.say(TWO, replace(HELLO, resume=Resume(welcome.session_id, 0)))
    server.round()
    server.say(TWO, replace(HELLO, resume=Resume(welcome.session_id, 0)))
    reject = server.answer()
    assert isinstance(reject, Reject) and reject.code == codes.SESSION_REPLACED
    server.say(ONE, CANCEL, seq=2, ack=1)
    assert [type(event) for event in server.round()] == [Received], "the session is where it was"


def test_a_second_peer_with_the_same_id_cannot_take_turns_with_the_first() -> None:  # SES-22
    server = Server()
    first = server.opened()
    server.say(TWO, HELLO)
    server.say(TWO, CANCEL, seq=1)
    server.round()
    server.core.take_transmissions()
    server.say(TWO, CANCEL, seq=1)
    server.say(THREE, replace(HELLO, resume=Resume(first.session_id + 7, 0)))
    server.round()
    reject = server.answer()
    assert isinstance(reject, Reject) and reject.code == codes.SESSION_REPLACED


def test_one_socket_carries_one_peer() -> None:
    server = Server()
    server.opened()
    server.say(ONE, replace(HELLO, peer_id=PeerId(b"q" * 16)))
    reject = server.answer()
    assert isinstance(reject, Reject) and reject.code == codes.BAD_IDENTITY


def test_a_hello_that_would_replace_waits_for_the_role() -> None:
    """Else the role, still at the old session's message, would answer into the new session."""
    server = Server()
    server.opened()
    server.say(ONE, CANCEL, seq=1)
    server.say(TWO, replace(HELLO, incarnation=1))
    assert [type(event) for event in server.core.take_events()] == [Received]
    server.core.send(PEER, REPLY)
    assert [where for where, _ in server.sent()] == [ONE]
    assert server.core.has_work and server.core.next_deadline() == 0.0
    assert [type(event) for event in server.round()] == [Lost, Opened]


# ---------------------------------------------------------------- sequence


def test_strangers_are_told_to_say_hello_and_only_so_often() -> None:  # HSK-9, ERR-3
    server = Server()
    for _ in range(100):
        server.say(ONE, CANCEL, seq=4)
    answers = [envelope.message for _, envelope in server.sent()]
    assert 1 <= len(answers) < 20
    assert all(isinstance(error, Error) and error.code == codes.NO_SESSION and error.fatal for error in answers)
    server.now += 2.0
    server.say(ONE, CANCEL, seq=5)
    assert len(server.sent()) == 1, "later it is told again"


@pytest.mark.parametrize("message", [Error(codes.BAD_ENVELOPE), Bye()])
def test_the_last_words_of_a_stranger_are_not_answered(message: Message) -> None:  # HSK-9, ERR-4
    server = Server()
    server.say(ONE, message, seq=0 if isinstance(message, Error) else 3)
    assert server.sent() == []


def test_a_duplicate_is_dropped_without_a_word() -> None:  # SES-10
    server = Server()
    server.opened()
    server.say(ONE, CANCEL, seq=1)
    server.say(ONE, CANCEL, seq=1)
    assert [type(event) for event in server.round()] == [Received]
    assert server.sent() == []


def test_a_gap_is_an_error_and_the_session_can_be_resumed() -> None:  # SES-5, SES-7, SES-17, SES-18
    server = Server()
    welcome = server.opened()
    server.say(ONE, CANCEL, seq=1)
    server.round()
    server.core.send(PEER, REPLY)
    server.say(ONE, CANCEL, seq=3)
    error = server.answer()
    assert isinstance(error, Error) and (error.code, error.ref_seq, error.fatal) == (codes.SEQUENCE_GAP, 3, True)
    server.say(ONE, CANCEL, seq=2)
    assert isinstance(server.answer(), Error), "nothing more is accepted from that socket"
    assert server.round() == []
    server.say(TWO, replace(HELLO, resume=Resume(welcome.session_id, 0)))
    (_, answer), (_, again) = server.sent()
    assert answer.message == replace(welcome, resumed=True, received_seq=1)
    assert (again.seq, again.message) == (1, REPLY)
    server.say(TWO, CANCEL, seq=2)
    assert [event.seq for event in server.round() if isinstance(event, Received)] == [2]


def test_an_acknowledgement_of_the_future_ends_the_session() -> None:  # SES-15
    server = Server()
    server.opened()
    server.say(ONE, CANCEL, seq=1, ack=1)
    error = server.answer()
    assert isinstance(error, Error) and error.code == codes.BAD_ENVELOPE and error.fatal
    assert [type(event) for event in server.round()] == [Lost]


def test_an_acknowledge_is_sent_when_nothing_else_carried_it() -> None:  # SES-4
    server = Server()
    server.opened()
    for seq in range(1, 17):
        server.core.settle(server.now)
        assert server.sent() == []
        server.say(ONE, CANCEL, seq=seq)
    server.core.settle(server.now)
    ((_, envelope),) = server.sent()
    assert isinstance(envelope.message, Acknowledge) and envelope.ack == 16


def test_what_is_refused_but_numbered_is_behind_us() -> None:  # SES-16, ERR-2
    server = Server()
    server.opened()
    server.core.reject(ONE, codes.UNKNOWN_MESSAGE, "a message of kind 99 is not known", "ERR-2", 1, server.now)
    error = server.answer()
    assert isinstance(error, Error) and not error.fatal and error.ref_seq == 1
    server.say(ONE, CANCEL, seq=2)
    assert [type(event) for event in server.round()] == [Received]


def test_what_cannot_be_numbered_ends_the_session() -> None:  # SES-13
    server = Server()
    server.opened()
    server.core.reject(ONE, codes.BAD_ENVELOPE, "no envelope", "FRM-8", 0, server.now)
    error = server.answer()
    assert isinstance(error, Error) and error.fatal
    assert [event.code for event in server.round() if isinstance(event, Lost)] == [codes.BAD_ENVELOPE]


def test_a_peer_that_sends_little_but_nonsense_loses_its_session() -> None:  # ERR-3
    server = Server()
    server.opened()
    for seq in range(1, 200):
        server.core.reject(ONE, codes.BAD_BATCH, "columns disagree", "BAT-2", seq, server.now)
    assert [type(event) for event in server.round()] == [Lost]


def test_a_message_that_its_role_may_not_send_is_refused() -> None:  # HSK-13
    server = Server(allowed_messages={codes.ROLE_CLIENT: frozenset({Submit})})
    server.opened()
    server.say(ONE, CANCEL, seq=1)
    error = server.answer()
    assert isinstance(error, Error) and error.code == codes.NOT_ALLOWED and not error.fatal
    assert error.text == "a client may not send Cancel"
    assert server.round() == [] and server.core.rejected_count == 1


def test_a_backlog_ends_the_session_of_the_slow_and_of_nobody_else() -> None:  # SES-14
    server = Server(backlog_bytes=10_000)
    server.opened()
    other = PeerId(b"o" * 16)
    server.opened(TWO, replace(HELLO, peer_id=other))
    for _ in range(40):
        server.core.send(PEER, REPLY)
    lost = server.round()
    assert [(event.peer_id, event.code) for event in lost if isinstance(event, Lost)] == [(PEER, codes.OVERLOADED)]
    server.core.send(other, REPLY)
    assert server.sent()[-1][0] == TWO


# ---------------------------------------------------------------- liveness and parting


def test_a_pong_comes_after_what_the_role_did() -> None:  # LIV-4
    server = Server()
    server.opened()
    server.say(ONE, CANCEL, seq=1)
    server.say(ONE, Ping(7), seq=2)
    server.round()
    server.core.send(PEER, REPLY)
    server.core.settle(server.now)
    assert [envelope.message for _, envelope in server.sent()] == [REPLY, Pong(7)]


def test_silence_for_a_lease_is_a_loss_and_not_before() -> None:  # LIV-5, LIV-11
    server = Server(timers=Timers(1.0, 10.0))
    server.opened()
    server.now += 5.0
    server.say(ONE, Acknowledge())
    server.now += 9.9
    assert server.round() == []
    server.now = 25.0
    (lost,) = (event for event in server.round() if isinstance(event, Lost))
    assert (lost.code, lost.text) == (codes.LEASE_EXPIRED, "silent for 10 s")
    assert server.core.next_deadline() is None


def test_a_silent_socket_is_probed_since_only_sending_shows_that_it_is_gone() -> None:  # LIV-6
    server = Server(timers=Timers(1.0, 10.0))
    server.opened()
    probes = []
    for _ in range(3):
        deadline = server.core.next_deadline()
        assert deadline is not None
        probes.append(deadline - server.now)
        server.now = deadline
        assert server.round() == []
        ((where, envelope),) = server.sent()
        assert where == ONE and isinstance(envelope.message, Acknowledge)
    assert probes == [1.5, 1.5, 1.5]
    server.say(ONE, Acknowledge())
    server.now += 1.4
    assert server.round() == [] and server.sent() == [], "a peer that is heard is not asked"


def test_a_socket_that_is_gone_shortens_the_lease_to_a_grace() -> None:  # LIV-6
    server = Server(timers=Timers(1.0, 60.0), reconnect_grace_seconds=2.0)
    server.opened()
    server.core.unreachable(ONE, server.now)
    server.now += 2.9
    assert server.round() == []
    server.now += 0.2
    (lost,) = server.round()
    assert isinstance(lost, Lost) and lost.text == "its connection broke, and none followed within 3 s"


def test_what_was_said_before_the_socket_was_found_gone_counts() -> None:  # LIV-6, LIV-8
    server = Server()
    server.opened()
    server.core.unreachable(ONE, server.now)
    server.say(ONE, CANCEL, seq=1)
    server.say(ONE, Bye(0, "done"), seq=2)
    assert [type(event) for event in server.round()] == [Received, Lost]


def test_who_goes_on_on_a_socket_that_was_found_gone_is_told_to_dial() -> None:  # LIV-6, HSK-9
    server = Server()
    welcome = server.opened()
    server.core.unreachable(ONE, server.now)
    server.core.send(PEER, REPLY)
    server.say(ONE, Ping(7), seq=1)
    server.round()
    server.core.settle(server.now)
    ((where, told),) = server.sent()
    assert where == ONE and isinstance(told.message, Error) and told.message.code == codes.NO_SESSION
    server.say(TWO, replace(HELLO, resume=Resume(welcome.session_id, 0)))
    answers = [envelope.message for where, envelope in server.sent() if where == TWO]
    assert isinstance(answers[0], Welcome) and answers[0].received_seq == 1
    assert answers[1:] == [REPLY, Pong(7)]


def test_a_gap_on_a_socket_that_was_found_gone_ends_its_use() -> None:  # SES-5
    server = Server()
    server.opened()
    server.core.unreachable(ONE, server.now)
    server.say(ONE, CANCEL, seq=2)
    assert server.round() == []
    server.say(ONE, CANCEL, seq=1)
    assert server.round() == [], "it carries no session any more"


def test_a_bye_ends_the_session_in_order() -> None:  # LIV-8
    server = Server()
    server.opened()
    server.say(ONE, CANCEL, seq=1)
    server.say(ONE, Bye(0, "done"), seq=2)
    assert [type(event) for event in server.round()] == [Received, Lost]
    server.core.send(PEER, REPLY)
    server.core.settle(server.now)
    assert server.sent() == [], "nothing is sent after it (LIV-13)"


def test_a_server_that_shuts_down_says_bye_and_opens_nothing() -> None:
    server = Server()
    server.opened()
    server.core.shut_down()
    bye = server.answer()
    assert isinstance(bye, Bye) and bye.code == codes.SHUTTING_DOWN
    server.say(TWO, replace(HELLO, peer_id=PeerId(b"n" * 16)))
    reject = server.answer()
    assert isinstance(reject, Reject) and reject.code == codes.SHUTTING_DOWN
