"""The one session of a dialer: messages and time in, events for the role, frames and dials out (HSK, SES, LIV).

Theory of operation. `generation` counts the sockets asked for. When it rises, the shell opens a new socket with a new
routing id and forgets the old one; frames taken after that belong on the new one. It rises only in `expire`, so a
shell that polls there knows when its socket may change. The states and every way between them are in
`dialer_states.py`.

One round of the shell is: `begin(now)`, `receive`/`reject` for each message, `expire(now, is_drained)`, hand
`take_events()` to the role, which calls `send`; then `settle(now)`. As on the server, a Welcome that would replace
the session waits while events are untaken, and a Pong is sent in `settle`.

What `send` is given while there is no session is dropped: a role learns of its session by `Opened`. While the session
is interrupted it is kept and sent when the session is resumed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from scaler_protocol import codec, codes
from scaler_protocol.codec import Envelope
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import (
    NO_PEER,
    Acknowledge,
    Bye,
    Error,
    Hello,
    Message,
    Ping,
    Pong,
    Reject,
    Resume,
    Timers,
    Welcome,
)
from scaler_protocol.session.backoff import Backoff, grace_seconds, silence_seconds
from scaler_protocol.session.channel import DUPLICATE, IN_ORDER, Channel, Counts, Encode, Frames, counted
from scaler_protocol.session.dialer_states import (
    AWAITS_ANSWER,
    HAS_NO_SOCKET,
    HAS_SESSION,
    PAUSED,
    RESUMABLE,
    WITHOUT_SESSION,
    State,
    Trigger,
    step,
)
from scaler_protocol.session.events import Lost, Opened, Received, Rejected, SessionEvent, complained, text_of, why_lost
from scaler_protocol.session.handshake import agree_limits, remembering, why_given_up, why_no_version, why_too_large

#: Messages of the session layer itself; all others are the role's.
_CONTROL = frozenset({Hello, Welcome, Reject, Acknowledge, Ping, Pong, Bye, Error})
_OPEN = State.OPEN  # looked up once

#: Some faults come back with the message that causes them, such as a frame the other side's ZeroMQ refuses (SES-20).
_FRUITLESS_RESUMES = 5


class SessionDialer:
    def __init__(
        self,
        *,
        hello: Hello,  # `incarnation` is where counting starts: each dial without resume uses the next one
        server_name: str = "server",  # "scheduler": for people
        give_up_seconds: float | None = None,  # Rejected when no server has answered for so long; None: never
        allowed_messages: frozenset[type] | None = None,  # what the server may send to this role; None: anything
        backlog_bytes: int = 512 * 1024 * 1024,
        next_peer_id: Callable[[], PeerId] | None = None,  # if nothing is kept under this one: another, when replaced
        is_paced: bool = False,  # the role waits for acknowledgements: more than `backlog_bytes` is its own mistake
        encode: Encode = codec.encode,
    ) -> None:
        self.hello = replace(hello, resume=Resume())
        self.server_name = server_name
        self._give_up_seconds = math.inf if give_up_seconds is None else give_up_seconds
        self._allowed_messages = allowed_messages
        self._backlog_limit = backlog_bytes
        self._next_peer_id, self._is_paced = next_peer_id, is_paced
        #: messages by type since the start; what is sent again counts once
        self.sent: Counts = defaultdict(int)
        self.received: Counts = defaultdict(int)
        self.rejected_count = 0
        #: from the last Ping that was answered to its Pong: what the server needs to get round to us
        self.round_trip_seconds = 0.0
        self._encode = counted(encode, self.sent)
        self.backoff = Backoff(hello.peer_id, hello.timers)
        self._state = State.IDLE
        self.generation = 0  # sockets asked for so far
        self._is_wanted = True  # begin at the next round
        self._has_dialed = False
        self._is_replaced = False  # another Hello has this peer id
        self._fruitless_resumes = 0  # in a row, that brought neither side a new message
        self._events: list[SessionEvent] = []
        #: what is to leave: see `take_transmissions`
        self.transmissions: list[Frames] = []
        self._held: Welcome | None = None

        # Meaningful while there is a session; the last one's afterwards.
        self._welcome = Welcome(version=0, server_id=NO_PEER, incarnation=0, session_id=0)
        self._credential = hello.credential
        self._channel = Channel(self._encode)
        self._timers = Timers()
        self._silence_seconds = 0.0
        self._pings: list[int] = []  # nonces whose Pong is due
        self._nonce = 0

        self._started_at = 0.0  # when the role asked for this session
        self._due_at = 0.0  # waiting, interrupted: the next dial; dialing, resuming: no answer by then is a failure
        self._lost_at = 0.0  # interrupted, resuming: the session is given up
        self._silent_since = 0.0  # the same: heard nothing since, not counting a time in which we were stopped
        self._look_at = 0.0  # open: no deadline of silence comes before this
        self._heard_at = 0.0
        self._sent_at = 0.0
        self._pinged_at = 0.0
        self._has_sent = False  # since _sent_at was last brought up to date

    # ------------------------------------------------------------ what came of it

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_open(self) -> bool:
        return self._state is State.OPEN

    @property
    def has_work(self) -> bool:
        """Events are untaken, a Welcome waits for that, or a start is wanted: begin another round at once."""
        return self._is_wanted or self._held is not None or bool(self._events)

    @property
    def unacknowledged(self) -> tuple[int, int]:
        """Bytes and messages that were sent and are not acknowledged yet."""
        return self._channel.unacknowledged if self._state in HAS_SESSION else (0, 0)

    def take_events(self) -> list[SessionEvent]:
        events, self._events = self._events, []
        return events

    def take_transmissions(self) -> list[Frames]:
        transmissions, self.transmissions = self.transmissions, []
        return transmissions

    # ------------------------------------------------------------ from the socket

    def begin(self, now: float) -> None:
        """A new round: the role has handled all events taken so far."""
        if self._held is not None and not self._events:
            welcome, self._held = self._held, None
            if self._state is State.RESUMING:
                self._renew(welcome, now)

    def receive(self, envelope: Envelope, size: int, now: float) -> None:
        """One well-formed message of `size` bytes from the present socket."""
        seq, ack, message = envelope
        kind = type(message)
        self.received[kind] += 1
        if self._state is not _OPEN:
            self._receive_answer(envelope, now)
            return
        self._heard_at = now
        channel = self._channel
        if ack > channel.acknowledged_seq and not channel.forget(ack):
            self._break_off(codes.BAD_ENVELOPE, f"message {ack} was acknowledged but never sent", "SES-15")
            return
        if seq == 0:
            self._receive_unsequenced(message, now)
            return
        order = channel.receive(seq, size)
        if order != IN_ORDER:
            if order != DUPLICATE:
                self._fail(now)
            return
        self._fruitless_resumes = 0
        self.backoff.succeeded()
        if kind in _CONTROL:
            self._receive_control(seq, message, now)
        elif self._allowed_messages is None or kind in self._allowed_messages:
            self._events.append(Received(self._welcome.server_id, seq, message))
        else:
            text = f"a {self.server_name} may not send {kind.__name__} to this role"
            self._complain(codes.NOT_ALLOWED, seq, text, "HSK-28")

    def reject(self, code: int, text: str, clause: str, ref_seq: int, now: float) -> None:
        """Frames that are no message. Without their seq the sequence cannot be continued on this socket."""
        self.rejected_count += 1
        if self._state in AWAITS_ANSWER and code != codes.UNKNOWN_MESSAGE:
            self.refuse(code, f"this is no {self.server_name}, or one of another protocol: {text}")
        elif self._state is State.OPEN:
            self._heard_at = now
            if ref_seq == 0 and code != codes.UNKNOWN_MESSAGE:
                self._break_off(code, text, clause)
                return
            order = IN_ORDER if ref_seq == 0 else self._channel.receive(ref_seq, 0)
            if order == IN_ORDER:
                self.send(Error(code, ref_seq, False, text, clause))
            elif order != DUPLICATE:
                self._fail(now)

    def expire(self, now: float, is_drained: bool = True) -> None:
        """Time has passed. With unread messages (`is_drained` false) no server counts as silent: they may answer."""
        state = self._state
        if state is _OPEN:
            if now >= self._look_at:
                self._look_for_life(now, is_drained)
        elif state in HAS_SESSION and now >= self._lost_at and is_drained:
            silence = f"no sign of the {self.server_name} for {self._timers.lease_seconds:g} s"
            self._lose(codes.LEASE_EXPIRED, silence, is_orderly=False, silent_seconds=now - self._silent_since)
        elif self._is_given_up(now) and is_drained:
            text = why_given_up(self.server_name, self._give_up_seconds, self.backoff.reason)
            self.refuse(codes.LEASE_EXPIRED, text)
        elif state in AWAITS_ANSWER and now >= self._due_at and is_drained:
            self._fail(now)
        if self._is_wanted:
            self._is_wanted = False
            self._started_at = now
            self.backoff.succeeded()
            self._dial(now)
        elif self._state in PAUSED and now >= self._due_at:
            self._dial(now)

    def reached(self, now: float) -> None:
        """The server has accepted the connection, as some transports can tell: its answer may take long. (HSK-41)"""
        if self._state in AWAITS_ANSWER:
            seconds = self.backoff.answer_seconds(is_resuming=self._state is State.RESUMING, is_reached=True)
            self._due_at = max(self._due_at, now + seconds)

    def disconnected(self, now: float) -> None:
        """The connection is gone, as some transports can tell: no reason to wait for silence."""
        if self._state is State.OPEN or self._state in AWAITS_ANSWER:
            self._fail(now)

    def move(self, now: float) -> None:
        """A better socket is to be had: the session goes on there, from the next `expire` on."""
        if self._state is State.OPEN:
            self._interrupt(now)
            self._due_at = now

    def next_deadline(self) -> float | None:
        """May be early: whatever is said or heard puts it off, and only when it has come it is looked at again."""
        state = self._state
        if self._is_wanted or self._held is not None or self._events:
            return 0.0
        if state is _OPEN:
            return self._look_at
        if state is State.IDLE or state is State.ENDED:
            return None
        if state in HAS_SESSION:
            return min(self._due_at, self._lost_at)
        return min(self._due_at, self._started_at + self._give_up_seconds)

    # ------------------------------------------------------------ from the role

    def send(self, message: Message) -> None:
        if self._state not in HAS_SESSION:
            return
        channel = self._channel
        assert type(message) is not Error or not message.fatal, "a fatal Error ends the session: say bye()"
        frames = channel.send(message)
        if self._state is _OPEN:
            self.transmissions.append(frames)
            self._has_sent = True
        if channel.backlog_bytes > self._backlog_limit:
            text = f"{channel.backlog_bytes} bytes wait for the {self.server_name}: send less, or wait for answers"
            assert not self._is_paced, text
            self._break_off(codes.OVERLOADED, text, "SES-14")

    @property
    def sent_seq(self) -> int:
        """Of the last message that `send` took into the session: what a `Complained` about it will name."""
        return self._channel.sent_seq

    def ping(self, now: float) -> None:
        """Besides those that are due: to measure the round trip."""
        if self._state is State.OPEN:
            self._ping(now)

    def settle(self, now: float, is_eager: bool = False) -> None:
        """The role has reacted to everything it was given: now the Pongs, and the acknowledgement nothing carried."""
        if self._state is _OPEN:
            if self._pings:
                pings, self._pings = self._pings, []
                for nonce in pings:
                    self.send(Pong(nonce))
            elif (frames := self._channel.acknowledgement(is_eager)) is not None:
                self.transmissions.append(frames)
                self._has_sent = True
        if self._has_sent:
            self._has_sent = False
            self._sent_at = now

    def bye(self, code: int, text: str) -> None:
        """Our own goodbye; `Lost` follows if there was a session. Nothing happens then until `redial`."""
        self._is_wanted = False
        if self._state is State.DIALING:
            # The server may have opened a session by now: this is then its first message.
            self.transmissions.append(self._encode(Bye(code, text), 1, 0))
        elif self._state is State.OPEN:
            self.transmissions.append(self._channel.send(Bye(code, text)))
        if self._state in HAS_SESSION:
            self._lose(code, text, is_orderly=True)
        elif self._state is not State.IDLE and self._state is not State.ENDED:
            self._state = step(self._state, Trigger.ENDED)

    def redial(self) -> None:
        """After `Lost` or `Rejected`: begin a new session in the next round, unless one is on its way already. One that
        was replaced needs another peer id for it. (SES-22)"""
        if self._is_replaced and self._next_peer_id is not None:
            self._is_replaced, self.hello = False, replace(self.hello, peer_id=self._next_peer_id())
        if self._is_replaced:  # two programs with one identity would take the session from each other for ever
            self._events.append(Rejected(codes.SESSION_REPLACED, "another process took this peer id: use a new one"))
        elif self._state is State.ENDED or self._state is State.IDLE:
            self._is_wanted = True

    # ------------------------------------------------------------ dialing

    def _dial(self, now: float) -> None:
        """Ask for a new socket and say Hello on it; what was to go out on the old one is in the channel."""
        if self._state in HAS_SESSION:
            self._state = step(self._state, Trigger.DUE)
            hello = replace(self.hello, resume=Resume(self._welcome.session_id, self._channel.received_seq))
        else:
            self._state = step(self._state, Trigger.DUE if self._state is State.WAITING else Trigger.START)
            if self._has_dialed:
                # This Hello must outrank those that are still under way on sockets we gave up (HSK-22).
                self.hello = replace(self.hello, incarnation=self.hello.incarnation + 1)
            self._has_dialed = True
            hello = self.hello
        frames = self._encode(hello, 0, 0)
        if reason := why_too_large(len(frames[0])):
            self.refuse(codes.TOO_LARGE, reason)
            return
        self.generation += 1
        self.transmissions = [frames]
        self._due_at = now + self.backoff.answer_seconds(is_resuming=self._state is State.RESUMING)

    def _receive_answer(self, envelope: Envelope, now: float) -> None:
        message = envelope.message
        if self._state in HAS_NO_SOCKET:
            return  # from a socket that was given up
        if isinstance(message, Welcome):
            self._receive_welcome(message, now)
        elif isinstance(message, Reject) and self.backoff.heed(message):
            self._fail(now)  # and comes back later (ERR-10)
        elif isinstance(message, Reject):
            self.refuse(message.code, text_of(message))
        elif isinstance(message, Error) and message.fatal:
            self._fail(now) if message.code in RESUMABLE else self.refuse(message.code, text_of(message))

    def _receive_welcome(self, welcome: Welcome, now: float) -> None:
        if reason := why_no_version(self.server_name, self.hello, welcome):
            self.refuse(codes.VERSION_MISMATCH, reason)
        elif self._state is State.DIALING:
            self._state = step(self._state, Trigger.WELCOMED)
            self._open(welcome, now)
        elif welcome.resumed and welcome.session_id == self._welcome.session_id:
            self._resume(welcome, now)
        elif self._events:
            self._held = welcome  # the role has yet to handle what the old session said
        else:
            self._renew(welcome, now)

    def _open(self, welcome: Welcome, now: float) -> None:
        welcome = replace(welcome, limits=agree_limits(self.hello.limits, welcome.limits))  # zero is the default
        self._welcome, self._credential = welcome, self.hello.credential
        self._timers = welcome.timers
        self._silence_seconds = silence_seconds(welcome.timers)
        self._channel = Channel(self._encode)
        self._fruitless_resumes = 0
        self._pings.clear()
        self._look_at = self._heard_at = self._sent_at = self._pinged_at = now
        self._events.append(Opened(welcome.server_id, self.hello, welcome))
        self.hello = remembering(self.hello, welcome)

    def _resume(self, welcome: Welcome, now: float) -> None:
        channel = self._channel
        if not channel.acknowledged_seq <= welcome.received_seq <= channel.sent_seq:
            text = f"the {self.server_name} claims to have messages that were never sent, or to have lost some it had"
            self.refuse(codes.SEQUENCE_GAP, text)
            return
        if welcome.received_seq > channel.acknowledged_seq:
            self._fruitless_resumes = 0
            self.backoff.succeeded()  # a server that takes our messages in portions (SES-33) is well
        if self._fruitless_resumes == _FRUITLESS_RESUMES:
            text = f"the connection to the {self.server_name} broke {_FRUITLESS_RESUMES} times over the same message"
            self.refuse(codes.SEQUENCE_GAP, text)
            return
        self._fruitless_resumes += 1
        self._state = step(self._state, Trigger.RESUMED)
        channel.forget(welcome.received_seq)
        self._look_at = self._heard_at = self._sent_at = self._pinged_at = now
        self.transmissions.extend(channel.kept_frames())

    def _renew(self, welcome: Welcome, now: float) -> None:
        """The server remembers nothing of our session. Everything starts anew, and the role is told both (SES-11)."""
        text = why_lost(self.server_name, self._credential, self.hello)
        self._events.append(Lost(self._welcome.server_id, codes.NO_SESSION, text, False))
        self._state = step(self._state, Trigger.RENEWED)
        self._open(welcome, now)

    # ------------------------------------------------------------ inside the session

    def _receive_unsequenced(self, message: Message, now: float) -> None:
        if isinstance(message, Error):
            self._receive_error(message, now)
        elif isinstance(message, Reject):
            self._lose(message.code, text_of(message), is_orderly=False)
        elif not isinstance(message, (Acknowledge, Welcome)):  # a Welcome again: the Hello was seen twice
            self._complain(codes.BAD_ENVELOPE, 0, f"{type(message).__name__} must have a seq of its own", "SES-1")

    def _receive_control(self, seq: int, message: Message, now: float) -> None:
        """The next message of the sequence, and none for the role."""
        if isinstance(message, Ping):
            self._pings.append(message.nonce)
        elif isinstance(message, Bye):
            self._lose(message.code, text_of(message), is_orderly=True)
        elif isinstance(message, Error):
            self._receive_error(message, now)
        elif isinstance(message, Pong):
            if message.nonce == self._nonce:
                self.round_trip_seconds = now - self._pinged_at
        else:
            self._complain(codes.BAD_ENVELOPE, seq, f"{type(message).__name__} must have seq 0", "SES-1")

    def _receive_error(self, error: Error, now: float) -> None:
        """Taken by `fatal` alone, whatever its seq: an Error is never answered with an Error (ERR-4, ERR-5)."""
        if not error.fatal:
            self._events.append(complained(self._welcome.server_id, error))
        elif error.code in RESUMABLE:
            self._fail(now)
        else:
            self._lose(error.code, text_of(error), is_orderly=False)

    def _look_for_life(self, now: float, is_drained: bool) -> None:
        if is_drained and now >= self._heard_at + self._silence_seconds:
            self._fail(now)
            return
        if now >= self._ping_at():
            self._ping(now)
        self._look_at = min(self._heard_at + self._silence_seconds, self._ping_at())

    def _ping_at(self) -> float:
        """After a heartbeat of silence of either side, but no sooner than a heartbeat after the last Ping: a server
        that only listens must be asked for a sign of life too. (LIV-3)"""
        return max(min(self._sent_at, self._heard_at), self._pinged_at) + self._timers.heartbeat_seconds

    def _ping(self, now: float) -> None:
        self._pinged_at = now
        self._nonce += 1
        self.send(Ping(self._nonce))

    def _complain(self, code: int, seq: int, text: str, clause: str) -> None:
        """A message is refused and the session goes on. The Error has its place in the sequence (ERR-9)."""
        self.rejected_count += 1
        self.send(Error(code, seq, False, text, clause))

    # ------------------------------------------------------------ failing and ending

    def _break_off(self, code: int, text: str, clause: str) -> None:
        if self._state is State.OPEN:
            self.transmissions.append(self._encode(Error(code, 0, True, text, clause), 0, self._channel.received_seq))
        self._lose(code, text, is_orderly=False)

    def _fail(self, now: float) -> None:
        """This socket is no good. The first new one follows at once; if that is no better, there are pauses."""
        was_pause = self._state in AWAITS_ANSWER and now >= self._due_at  # to wait in vain for an answer is one
        self._interrupt(now)
        self._due_at = now if was_pause else now + self.backoff.pause_seconds()
        self.backoff.failed()

    def _interrupt(self, now: float) -> None:
        if self._state is State.OPEN:
            lease_ends_at = self._heard_at + self._timers.lease_seconds
            self._lost_at = max(lease_ends_at, now + grace_seconds(self._timers))
            self._silent_since = now if now > lease_ends_at else self._heard_at
        self._state = step(self._state, Trigger.FAILED)
        self._held = None

    def _is_given_up(self, now: float) -> bool:
        return self._state in WITHOUT_SESSION and now >= self._started_at + self._give_up_seconds

    def refuse(self, code: int, text: str) -> None:
        """The server will not have us, as it or its socket has told. Not while nothing was begun."""
        self._is_replaced |= code == codes.SESSION_REPLACED
        if self._state in HAS_SESSION:
            self._lose(code, text, is_orderly=False)
        else:
            self._state = step(self._state, Trigger.ENDED)
            self._events.append(Rejected(code, text))

    def _lose(self, code: int, text: str, *, is_orderly: bool, silent_seconds: float = 0.0) -> None:
        self._is_replaced |= code == codes.SESSION_REPLACED
        self._state = step(self._state, Trigger.ENDED)
        self._held = None
        self._events.append(Lost(self._welcome.server_id, code, text, is_orderly, silent_seconds))
