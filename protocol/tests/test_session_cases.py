"""Single clauses of handshake, session and liveness, each told as what goes in and what comes out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scaler_protocol import codes
from scaler_protocol.codec import Envelope, decode
from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.messages import (
    Acknowledge,
    Bye,
    Cancel,
    CancelReply,
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
    Complained,
    Lost,
    Opened,
    Received,
    Rejected,
    SessionDialer,
    SessionEvent,
    SessionServer,
)
from scaler_protocol.session.channel import Frames
from scaler_protocol.session.dialer_states import TRANSITIONS, IllegalTransitionError, State, Trigger, step
from scaler_protocol.session.invariants import check_dialer, check_server

PEER = PeerId(b"p" * 16)
SERVER_ID = PeerId(b"s" * 16)
ONE, TWO, THREE = (RoutingId(bytes([number]) * 16) for number in (1, 2, 3))
HELLO = Hello(
    version_min=1, version_max=1, role=codes.ROLE_CLIENT, peer_id=PEER, software=Software("scaler-client", "9")
)
CANCEL = Cancel(ids=b"t" * 16)
REPLY = CancelReply(ids=b"t" * 16, outcomes=b"\0")


class Server:
    """A server core and a short way to talk to it. Time stands still unless a test moves it."""

    def __init__(self, **options: object) -> None:
        self.now = 10.0
        terms = {"server_id": SERVER_ID, "role_name": "scheduler", "allowed_roles": {codes.ROLE_CLIENT}, **options}
        self.core = SessionServer(**terms)  # type: ignore[arg-type]

    def say(self, routing_id: RoutingId, message: Message, seq: int = 0, ack: int = 0) -> None:
        self.core.receive(routing_id, Envelope(seq, ack, message), 100, self.now)
        check_server(self.core)

    def round(self) -> list[SessionEvent]:
        self.core.begin(self.now)
        self.core.expire(self.now)
        events = self.core.take_events()
        check_server(self.core)
        return events

    def sent(self) -> list[tuple[RoutingId, Envelope]]:
        return [(routing_id, decoded(frames)) for routing_id, frames in self.core.take_transmissions()]

    def answer(self) -> Message:
        (_, envelope) = self.sent()[-1]
        return envelope.message

    def opened(self, routing_id: RoutingId = ONE, hello: Hello = HELLO) -> Welcome:
        self.say(routing_id, hello)
        (event,) = [event for event in self.round() if isinstance(event, Opened)]
        self.core.take_transmissions()
        return event.welcome


def decoded(frames: Frames) -> Envelope:
    return decode(bytes(frames[0]), frames[1:])


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


def test_a_hello_repeated_on_another_socket_moves_the_unused_session() -> None:
    server = Server()
    welcome = server.opened()
    server.core.send(PEER, REPLY)
    server.core.take_transmissions()
    server.say(TWO, HELLO)
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
    assert [event.code for event in server.round() if isinstance(event, Lost)] == [codes.LEASE_EXPIRED]
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
    assert [type(event) for event in server.round()] == [Lost]


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


# ---------------------------------------------------------------- the dialer


class Dialer:
    def __init__(self, **options: object) -> None:
        self.now = 10.0
        self.core = SessionDialer(**{"hello": HELLO, "server_name": "scheduler", **options})  # type: ignore[arg-type]

    def say(self, message: Message, seq: int = 0, ack: int = 0) -> None:
        self.core.receive(Envelope(seq, ack, message), 100, self.now)
        check_dialer(self.core)

    def round(self) -> list[SessionEvent]:
        self.core.begin(self.now)
        self.core.expire(self.now)
        check_dialer(self.core)
        return self.core.take_events()

    def sent(self) -> list[Envelope]:
        return [decoded(frames) for frames in self.core.take_transmissions()]

    def welcome(self, **changes: object) -> Welcome:
        base = Welcome(version=1, server_id=SERVER_ID, incarnation=1, session_id=17, timers=Timers(1.0, 12.0))
        return replace(base, **changes)  # type: ignore[arg-type]

    def opened(self) -> Dialer:
        assert self.round() == []
        assert [envelope.message for envelope in self.sent()] == [HELLO]
        self.say(self.welcome())
        assert [type(event) for event in self.round()] == [Opened]
        return self


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


def test_what_is_sent_before_the_session_is_dropped() -> None:
    dialer = Dialer()
    dialer.core.send(CANCEL)
    dialer.opened()
    assert dialer.sent() == []


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
    assert dialer.core.next_deadline() is None


def test_a_dialer_that_was_itself_stopped_tries_once_more() -> None:
    dialer = Dialer().opened()
    dialer.now += 100.0
    assert dialer.round() == []
    (envelope,) = [envelope for envelope in dialer.sent() if isinstance(envelope.message, Hello)]
    assert envelope.message == replace(HELLO, resume=Resume(17, 0))


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
