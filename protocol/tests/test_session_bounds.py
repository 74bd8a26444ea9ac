"""What peers may take of a server's memory and answers, one by one and together (SES-25 to SES-28, LIM-6 to LIM-8)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.session_link import Closable
from tests.support.session_sides import ONE, THREE, TWO, Dialer, Server
from tests.support.session_words import CANCEL, HELLO, PEER, SERVER_ID, decoded

from scaler_protocol import codes
from scaler_protocol.codec import Envelope, decode, encode
from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.messages import (
    Acknowledge,
    Bye,
    Cancel,
    Error,
    Hello,
    Message,
    Ping,
    Pong,
    Reject,
    Resume,
    Value,
    Welcome,
)
from scaler_protocol.session import Lost, Received, SessionServer
from scaler_protocol.session.bounds import Quota
from scaler_protocol.session.channel import FIRST_WINDOW_BYTES, LARGEST_WINDOW_BYTES
from scaler_protocol.session.dialer_states import State
from scaler_protocol.session.invariants import check_server
from scaler_protocol.session.server_session import ServerSession

MIB = 1024 * 1024
CHUNK = Value(1, MIB, 0, bytes(MIB))


def seqs(server: Server, routing_id: RoutingId) -> list[int]:
    return [said.seq for where, said in server.sent() if where == routing_id and said.seq]


def opened_with(count: int, **options: object) -> tuple[Server, Welcome]:
    """A session for which so many chunks of 1 MiB were sent."""
    server = Server(**options)
    welcome = server.opened()
    for _ in range(count):
        server.core.send(PEER, CHUNK)
    return server, welcome


# ---------------------------------------------------------------- windows


def test_a_socket_is_given_a_window_and_more_as_it_acknowledges() -> None:  # SES-25
    server, _ = opened_with(100)
    assert seqs(server, ONE) == [1, 2, 3, 4]
    server.say(ONE, Acknowledge(), ack=1)
    assert seqs(server, ONE) == [5, 6], "one for the one that is gone, and one more"
    server.say(ONE, Acknowledge(), ack=6)
    assert seqs(server, ONE) == list(range(7, 17))
    for ack in (16, 36, 60):
        server.say(ONE, Acknowledge(), ack=ack)
    assert server.core._by_peer[PEER].channel.window_bytes == LARGEST_WINDOW_BYTES
    server.say(ONE, Acknowledge(), ack=90)
    assert seqs(server, ONE) == list(range(17, 101)), "in order, each once"


def test_a_message_larger_than_the_window_is_given_alone() -> None:
    server = Server()
    server.opened()
    for _ in range(3):
        server.core.send(PEER, Value(1, 8 * MIB, 0, bytes(8 * MIB)))
    assert seqs(server, ONE) == [1]
    server.say(ONE, Acknowledge(), ack=1)
    assert seqs(server, ONE) == [2, 3], "the window has grown"


def test_a_resume_begins_with_a_small_window_again() -> None:  # SES-18, SES-25
    server, welcome = opened_with(60)
    for ack in (4, 12, 28):
        server.say(ONE, Acknowledge(), ack=ack)
    server.sent()
    server.say(TWO, replace(HELLO, resume=Resume(welcome.session_id, 28)))
    assert seqs(server, TWO) == [29, 30, 31, 32]
    server.say(TWO, Acknowledge(), ack=32)
    assert seqs(server, TWO)[0] == 33


def test_a_goodbye_comes_after_all_that_waits() -> None:
    server, _ = opened_with(20)
    server.core.disconnect(PEER, codes.OK, "done")
    sent = [said for _, said in server.sent()]
    assert [said.seq for said in sent] == list(range(1, 22)) and isinstance(sent[-1].message, Bye)


def test_acknowledgements_go_out_while_messages_wait() -> None:
    """The peer may be waiting for them."""
    server, _ = opened_with(6)
    server.sent()
    for seq in range(1, 17):
        server.say(ONE, CANCEL, seq=seq)
    server.core.settle(server.now)
    ((_, said),) = server.sent()
    assert isinstance(said.message, Acknowledge) and said.ack == 16


# ---------------------------------------------------------------- outside the sequence


def test_hellos_of_one_socket_are_answered_within_a_bound() -> None:  # SES-26
    server = Server()
    server.opened()
    for _ in range(1_000):
        server.say(ONE, HELLO)
    assert 1 <= len(server.sent()) <= 64
    assert server.core.rejected_count > 900
    server.now += 1.0
    server.say(ONE, HELLO)
    assert isinstance(server.answer(), Welcome)


def test_one_socket_opens_few_sessions_within_a_second() -> None:  # SES-26, LIM-7
    server = Server()
    for number in range(1_000):
        server.say(ONE, replace(HELLO, peer_id=PeerId(number.to_bytes(16, "big"))))
        server.say(ONE, Ping(1), seq=7)  # a gap: the socket is free for another session
    assert len(server.core._by_peer) <= 64


def test_a_peer_that_does_not_show_that_it_reads_is_asked_and_then_ended() -> None:  # SES-28
    server = Server()
    server.opened()
    kinds: dict[type, int] = defaultdict(int)
    handed, seq = 0, 0
    while server.core._by_peer:
        seq += 1
        assert seq < 2_000_000, "it is ended"
        server.core.receive(ONE, Envelope(seq, 0, CANCEL), 60, server.now)
        server.core.take_events()
        server.core.settle(server.now)
        for _, frames in server.core.take_transmissions():
            kinds[type(decoded(frames).message)] += 1
            handed += sum(map(len, frames)) + 256
    assert kinds[Ping] == 1 and kinds[Error] == 1
    assert handed < 2 * MIB


def test_a_peer_that_answers_goes_on() -> None:  # SES-28
    server = Server()
    server.opened()
    seq = acknowledged = 0
    for _ in range(200_000):
        seq += 1
        server.core.receive(ONE, Envelope(seq, acknowledged, CANCEL), 60, server.now)
        server.core.take_events()
        server.core.settle(server.now)
        for _, frames in server.core.take_transmissions():
            said = decoded(frames)
            acknowledged = max(acknowledged, said.seq)
            if isinstance(said.message, Ping):
                seq += 1
                server.core.receive(ONE, Envelope(seq, acknowledged, Pong(said.message.nonce)), 60, server.now)
    assert list(server.core._by_peer) == [PEER]
    assert server.core.total_backlog_bytes < 128 * 1024


# ---------------------------------------------------------------- sockets that are left


def test_a_socket_that_is_left_with_much_is_closed() -> None:  # SES-27
    server, welcome = opened_with(3)
    server.say(TWO, replace(HELLO, resume=Resume(welcome.session_id, 0)))
    assert server.core.take_abandoned() == [ONE] and server.core.take_abandoned() == []
    server.say(TWO, Acknowledge(), ack=3)
    server.say(THREE, replace(HELLO, resume=Resume(welcome.session_id, 3)))
    assert server.core.take_abandoned() == [], "it has read what it was given, and is told that it has no session"


def test_resumes_of_a_peer_are_bounded_within_a_second() -> None:  # LIM-8
    server, welcome = opened_with(3)
    again = replace(HELLO, resume=Resume(welcome.session_id, 0))
    rejects = 0
    for number in range(100):
        server.say(RoutingId((1000 + number).to_bytes(16, "little")), again)
        rejects += sum(isinstance(said.message, Reject) for _, said in server.sent())
    assert rejects == 100 - 32
    server.now += 1.0
    server.say(TWO, again)
    sent = [said.message for _, said in server.sent()]
    assert isinstance(sent[0], Welcome) and len(sent) == 4
    assert server.round() == [], "the session has noticed nothing"


# ---------------------------------------------------------------- together


def hello_of(number: int) -> PeerId:
    return PeerId(bytes([number]) * 16)


def test_all_sessions_together_keep_no_more_than_a_bound() -> None:  # LIM-6
    server = Server(total_backlog_bytes=20 * MIB)
    for number in range(1, 5):
        server.say(RoutingId(bytes([number]) * 16), replace(HELLO, peer_id=hello_of(number)))
    server.round()
    for _ in range(4):
        for number in range(1, 5):
            server.core.send(hello_of(number), CHUNK)
    server.now += 5.0
    server.core.begin(server.now)
    server.say(RoutingId(bytes([2]) * 16), Acknowledge(), ack=4)
    for _ in range(8):
        server.core.send(hello_of(2), CHUNK)
    assert {event.peer_id for event in server.round() if isinstance(event, Lost)} < {
        hello_of(1),
        hello_of(3),
        hello_of(4),
    }
    assert hello_of(2) in server.core._by_peer, "it acknowledges"
    assert server.core.total_backlog_bytes <= 20 * MIB
    for number in (1, 2, 3, 4):
        server.core.disconnect(hello_of(number), codes.OK, "done")
    assert server.core.total_backlog_bytes == 0, "nothing is counted that is not kept"


def test_a_server_that_is_full_says_so_and_has_room_later() -> None:  # LIM-7, ERR-10
    server = Server(sessions=Quota(first=1, further=2))
    for number in (1, 2, 3):
        server.say(RoutingId(bytes([number]) * 16), replace(HELLO, peer_id=hello_of(number)))
    reject = server.answer()
    server.round()
    assert isinstance(reject, Reject) and reject.code == codes.OVERLOADED and "2 sessions" in reject.text
    assert server.core.full_count == 1
    server.say(RoutingId(bytes([9]) * 16), replace(HELLO, peer_id=hello_of(1), incarnation=1))
    assert isinstance(server.answer(), Welcome), "one that is there already may begin anew"
    server.say(RoutingId(bytes([2]) * 16), Bye(0, ""), seq=1)
    server.say(RoutingId(bytes([3]) * 16), replace(HELLO, peer_id=hello_of(3)))
    assert isinstance(server.answer(), Welcome)


@pytest.mark.parametrize("has_session", [False, True])
def test_a_dialer_that_finds_a_server_full_comes_back_later(has_session: bool) -> None:  # ERR-10
    dialer = Dialer()
    if has_session:
        dialer.opened()
        dialer.core.disconnected(dialer.now)
    dialer.round()
    pauses = []
    for _ in range(5):
        generation = dialer.core.generation
        dialer.say(Reject(codes.OVERLOADED, 1, 1, "full"))
        assert dialer.round() == [] and dialer.core.state in (
            State.WAITING,
            State.INTERRUPTED,
            State.DIALING,
            State.RESUMING,
        )
        began_at = dialer.now
        while dialer.core.generation == generation:
            dialer.now += 0.01
            assert dialer.round() == [] and dialer.now < began_at + 5.0
        pauses.append(dialer.now - began_at)
    assert pauses == sorted(pauses) and pauses[-1] > 10 * pauses[0], "with longer and longer pauses"


# ---------------------------------------------------------------- laws

_PEERS = 4
_step = st.tuples(
    st.sampled_from(("hello", "resume", "anew", "gap", "say", "ask", "acknowledge", "gone", "wait")),
    st.integers(0, _PEERS - 1),
    st.integers(0, 30),
)


class Crowd:
    """Peers that do what they like. What was handed to each of their sockets is counted."""

    def __init__(self, backlog_bytes: int = 2 * MIB, total_bytes: int = 5 * MIB) -> None:
        self.now = 10.0
        self.backlog_bytes = backlog_bytes
        self.total_bytes = total_bytes
        self.core = SessionServer(
            server_id=SERVER_ID,
            role_name="scheduler",
            allowed_roles={codes.ROLE_CLIENT},
            backlog_bytes=backlog_bytes,
            total_backlog_bytes=total_bytes,
            sessions=Quota(first=1, further=3),
        )
        self.sockets = 0
        self.routing = dict.fromkeys(range(_PEERS), ONE)
        self.lives: dict[int, int] = defaultdict(int)
        #: to each socket that was not closed
        self.handed: dict[RoutingId, int] = defaultdict(int)

    def receive(self, which: int, message: Message, seq: int = 0, ack: int = 0) -> None:
        self.core.receive(self.routing[which], Envelope(seq, ack, message), 100, self.now)

    def peer_id(self, which: int) -> PeerId:
        return PeerId(bytes([which + 1]) * 16)

    def session(self, which: int) -> ServerSession | None:
        return self.core._by_peer.get(self.peer_id(which))

    def greeting(self, which: int, resume: Resume = Resume()) -> Hello:  # noqa: B008 (frozen)
        return replace(HELLO, peer_id=self.peer_id(which), incarnation=self.lives[which], resume=resume)

    def dial(self, which: int) -> None:
        self.sockets += 1
        self.routing[which] = RoutingId(self.sockets.to_bytes(16, "big").replace(b"\0", b"\1"))

    def hello(self, which: int, count: int) -> None:
        for _ in range(count):
            self.receive(which, self.greeting(which))

    def resume(self, which: int, count: int) -> None:
        session = self.session(which)
        for _ in range(count):
            self.dial(which)
            self.receive(which, self.greeting(which, Resume(session.session_id if session else 7, 0)))

    def anew(self, which: int, count: int) -> None:
        self.lives[which] += 1
        self.dial(which)
        self.receive(which, self.greeting(which))

    def gap(self, which: int, count: int) -> None:
        self.receive(which, Ping(1), seq=1 << 40)

    def say(self, which: int, count: int) -> None:
        session = self.session(which)
        received = session.channel.received_seq if session else 0
        for number in range(100 * count):
            self.receive(which, CANCEL, seq=received + number + 1)

    def ask(self, which: int, count: int) -> None:
        for _ in range(count):
            self.core.send(self.peer_id(which), Value(1, 60_000, 0, bytes(60_000)))

    def acknowledge(self, which: int, count: int) -> None:
        if (session := self.session(which)) is not None:
            channel = session.channel
            self.receive(which, Acknowledge(), ack=min(channel.sent_seq, channel.acknowledged_seq + count))

    def gone(self, which: int, count: int) -> None:
        self.core.unreachable(self.routing[which], self.now)

    def wait(self, which: int, count: int) -> None:
        self.now += count / 10

    def turn(self) -> None:
        core = self.core
        core.begin(self.now)
        core.expire(self.now)
        core.take_events()
        core.settle(self.now)
        for routing_id, frames in core.take_transmissions():
            self.handed[routing_id] += sum(map(len, frames)) + 256
        for routing_id in core.take_abandoned():
            del self.handed[routing_id]  # it is closed, and what it had is dropped
        check_server(core)
        self.check()

    def check(self) -> None:
        core = self.core
        channels = [session.channel for session in core._by_peer.values()]
        kept = sum(channel.backlog_bytes + channel.unsequenced_bytes for channel in channels)
        assert core.total_backlog_bytes == kept, "what is counted is what is kept"
        assert kept <= self.total_bytes + MIB and len(channels) <= 3
        assert all(channel.backlog_bytes <= self.backlog_bytes + MIB for channel in channels)


@settings(max_examples=80, deadline=None)
@given(st.lists(_step, max_size=60))
def test_whatever_peers_do_what_is_kept_and_handed_out_is_bounded(steps: list[tuple[str, int, int]]) -> None:
    """A socket of which nothing is acknowledged is given a window, and a bounded number of answers."""
    crowd = Crowd()
    for name, which, count in steps:
        getattr(crowd, name)(which, count)
        crowd.turn()
    if not any(name in ("acknowledge", "resume") for name, _, _ in steps):
        for routing_id, handed in crowd.handed.items():
            assert handed < FIRST_WINDOW_BYTES + 2 * MIB, f"{routing_id.hex()} was given {handed} bytes"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_resumes_multiply_nothing(counts: list[int]) -> None:
    """However often a session that keeps much is resumed: its sockets are given a window each, and all but the last one
    are closed."""
    crowd = Crowd(backlog_bytes=64 * MIB, total_bytes=64 * MIB)
    crowd.anew(0, 1)
    crowd.turn()
    crowd.ask(0, 300)
    for count in counts:
        crowd.resume(0, count)
        crowd.turn()
        assert sum(crowd.handed.values()) < FIRST_WINDOW_BYTES + 2 * MIB
        crowd.wait(0, 10)


# ---------------------------------------------------------------- held back


def test_a_peer_that_sends_too_much_comes_back_when_there_is_room() -> None:  # SES-33, SES-34
    gate = Closable()
    server = Server(gate=gate)
    welcome = server.opened()
    server.say(ONE, CANCEL, seq=1)
    gate.set(PEER, is_open=False)
    server.say(ONE, CANCEL, seq=1)
    server.say(ONE, Ping(7), seq=2)
    assert server.sent() == [] and [type(event) for event in server.round()] == [Received], "dropped, and taken"
    server.say(ONE, CANCEL, seq=3)
    ((where, said),) = server.sent()
    assert where == ONE and isinstance(said.message, Error) and said.ack == 2
    assert (said.message.code, said.message.fatal, said.message.ref_seq) == (codes.SEQUENCE_GAP, True, 3)
    again = replace(HELLO, resume=Resume(welcome.session_id, 0))
    for routing_id in (TWO, THREE):
        server.say(routing_id, again)
        server.core.settle(server.now)
        server.now += 5.0
        assert server.sent() == [] and server.round() == [], "no answer yet, and the session lives"
    gate.set(PEER, is_open=True)
    server.core.settle(server.now)
    (routing_id, answer), *pongs = server.sent()
    assert routing_id == THREE, "the latest socket"
    assert isinstance(answer.message, Welcome) and answer.message.resumed and answer.message.received_seq == 2
    assert [type(said.message) for _, said in pongs] == [Pong]
    server.say(THREE, CANCEL, seq=3)
    assert [type(event) for event in server.round()] == [Received]


def test_who_is_held_back_and_stays_away_is_lost() -> None:  # SES-34, LIV-11
    gate = Closable()
    server = Server(gate=gate)
    welcome = server.opened()
    gate.set(PEER, is_open=False)
    server.say(ONE, CANCEL, seq=1)
    server.say(TWO, replace(HELLO, resume=Resume(welcome.session_id, 0)))
    server.now += welcome.timers.lease_seconds + 0.1
    assert [type(event) for event in server.round()] == [Lost]
    gate.set(PEER, is_open=True)
    server.sent()
    server.core.settle(server.now)
    assert server.sent() == [] and not server.core._parked


def test_a_message_that_is_held_back_is_not_read() -> None:  # SES-37
    """To read a batch takes longer than to send it. What was not read is not taken either, even if the message has
    brought the acknowledgement that opens the gate."""
    gate = Closable()
    server = Server(gate=gate)
    server.opened()
    gate.set(PEER, is_open=False)
    frames = encode(CANCEL, seq=1)
    limits, readable = server.core.reads_of(ONE, 100)
    assert readable is not None and Cancel not in readable and Ping in readable
    unread = decode(bytes(frames[0]), frames[1:], limits, readable)
    gate.set(PEER, is_open=True)
    gate.is_strained = True
    server.core.receive(ONE, unread, 100, server.now)
    ((_, said),) = server.sent()
    assert isinstance(said.message, Error) and said.message.code == codes.SEQUENCE_GAP
    assert server.round() == []


def test_what_was_decided_of_one_message_is_not_of_the_next() -> None:
    gate = Closable()
    server = Server(gate=gate)
    server.opened()
    gate.set(PEER, is_open=False)
    server.core.reads_of(ONE, 100)
    server.core.reject(ONE, codes.BAD_ENVELOPE, "this one could not be read", "FRM-8", 1, server.now)
    gate.set(PEER, is_open=True)
    server.sent()
    assert server.core.reads_of(ONE, 100)[1] is None, "anything"
    server.say(ONE, CANCEL, seq=2)
    assert [type(event) for event in server.round()] == [Received] and server.sent() == []


def test_others_go_on_while_one_is_held_back() -> None:
    gate = Closable()
    server = Server(gate=gate)
    server.opened()
    other = PeerId(b"o" * 16)
    server.opened(TWO, replace(HELLO, peer_id=other))
    gate.set(PEER, is_open=False)
    server.say(TWO, CANCEL, seq=1)
    assert [event.peer_id for event in server.round()] == [other]
