"""All sessions of one server: messages and time in, events for the role and frames for the socket out (HSK, SES, LIV).

Theory of operation. A session belongs to a peer; a routing id is only the socket that carries it at present. The two
tables, `_by_peer` and `_by_routing`, say so: every session is in the first, and in the second only while a socket may
have something from it. Nothing is done here: what came of a call waits in `take_events()` for the role and in
`take_transmissions()` for the socket.

One round of the shell is: `begin(now)`, `receive`/`reject` for each message, `expire(now)` if nothing is left to
read, hand `take_events()` to the role, which calls `send`; then `settle(now)`. Frames may be taken whenever it suits.

Two rules keep the role's view right:
* A Hello that would replace a session waits while events are untaken (`_held`). Otherwise the role, still handling
  what the old session said, would send its reactions into the new one.
* A Pong is sent in `settle`, after the role has reacted to all that came before its Ping. (LIV-4)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from scaler_protocol import codec, codes
from scaler_protocol.codec import Envelope
from scaler_protocol.codec.envelope import Encoded, counted
from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.keys import Identity, user_of
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
    Software,
    Timers,
)
from scaler_protocol.session import handshake
from scaler_protocol.session.admission import NO_PROOF, Admission, Judged, Proof
from scaler_protocol.session.bounds import SESSIONS, Bounds, Quota
from scaler_protocol.session.channel import GAP, IN_ORDER, Counts, Encode
from scaler_protocol.session.events import Opened, Received, SessionEvent, text_of
from scaler_protocol.session.gate import Gate
from scaler_protocol.session.handshake import ServerTerms, Verdict, WelcomeFields, WelcomeOf
from scaler_protocol.session.parting import Parting
from scaler_protocol.session.server_session import CONTROL, FROM_STRANGERS, ServerSession
from scaler_protocol.session.vanishing import VanishedHosts


class SessionServer(Parting):
    def __init__(
        self,
        *,
        server_id: PeerId,  # fresh random for each life of the server: session ids are counted from it
        role_name: str,  # "scheduler": for people
        allowed_roles: Collection[int],  # who may dial
        allowed_messages: Mapping[int, frozenset[type]] | None = None,  # role -> what it may send; None: anything
        welcome: WelcomeOf = lambda hello, identity: WelcomeFields(),
        software: Software = Software(),  # noqa: B008 (frozen)
        incarnation: int = 1,
        timers: Timers = Timers(),  # noqa: B008 (frozen)
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        features: Iterable[str] = (),
        reconnect_grace_seconds: float = 2.0,
        backlog_bytes: int = 128 * 1024 * 1024,
        total_backlog_bytes: int = 1024 * 1024 * 1024,
        sessions: Quota = SESSIONS,
        version_min: int = codes.PROTOCOL_VERSION_MIN,
        version_max: int = codes.PROTOCOL_VERSION_MAX,
        encode: Encode = codec.encode,
        is_busy_with: Callable[[PeerId], bool] = lambda peer_id: False,  # it gets no Pong yet: the role is not done
        admission: Admission | None = None,  # None: no keys, and all are admitted
        gate: Gate | None = None,  # None: the role takes all that comes
        vanished: VanishedHosts | None = None,  # None: only leases count
        turned_away: Callable[[Hello], Reject | None] = lambda hello: None,  # for now: another server serves (HSK-40)
    ) -> None:
        self.admission = admission or Admission()
        self._gate = gate or Gate()
        self._is_busy_with = is_busy_with
        self.terms = ServerTerms(
            server_id=server_id,
            role_name=role_name,
            allowed_roles=frozenset(allowed_roles),
            allowed_messages=allowed_messages,
            welcome_fields=welcome,
            software=software,
            incarnation=incarnation,
            timers=timers,
            limits=limits,
            features=tuple(features),
            version_min=version_min,
            version_max=version_max,
            turned_away=turned_away,
        )
        #: messages by type since the start; what is sent again counts once
        self.sent: Counts = defaultdict(int)
        self.received: Counts = defaultdict(int)
        bounds = Bounds(backlog_bytes, total_backlog_bytes, sessions)
        super().__init__(counted(encode, self.sent), bounds, reconnect_grace_seconds, vanished or VanishedHosts())
        # Another life of the server counts from elsewhere, so it cannot mistake a Resume of its predecessor's.
        self._last_session_id = int.from_bytes(server_id[:7], "little") << 8
        #: those that may owe a Pong or an Acknowledge; a dict because its order is that of arrival
        self._unsettled: dict[ServerSession, None] = {}
        self._held: list[tuple[RoutingId, Hello, Proof]] = []
        self._now = 0.0  # of the round we are in
        self._is_shut_down = False
        #: while the gate is strained: the message that is about to be received is not taken, and was not read
        self._is_unread = False

    # ------------------------------------------------------------ what came of it

    @property
    def has_work(self) -> bool:
        """Events are untaken or a Hello waits for that: begin another round at once."""
        return bool(self._events or self._held)

    def take_events(self) -> list[SessionEvent]:
        events, self._events = self._events, []
        return events

    def reads_of(self, routing_id: bytes, size: int) -> tuple[Limits, frozenset[type] | None]:
        """How to read the next message, of `size` bytes, from this socket: within limits that may be less than we would
        take, as its session has agreed (FRM-4, FRM-5), and of these kinds (FRM-20).

        To read a batch costs more than to send it. So a message that is not taken (SES-33) is not read either, or a
        peer that sends without end would keep us from reading what others have sent.
        """
        session: ServerSession | None = self._by_routing.get(routing_id)  # type: ignore[call-overload]
        if session is None:
            return self.terms.limits, FROM_STRANGERS
        if self._gate.is_strained:
            self._is_unread = not self._gate.admits(session.peer_id, size) and self._gate.is_strained
            if self._is_unread:
                return session.welcome.limits, CONTROL
        return session.reads

    def carries(self, routing_id: RoutingId) -> bool:
        """Whether there is a session on this socket."""
        return routing_id in self._by_routing

    def heard_at(self, routing_id: RoutingId) -> float:
        """When the last message of the session on this socket came."""
        session = self._by_routing.get(routing_id)
        return 0.0 if session is None else session.heard_at

    # ------------------------------------------------------------ from the socket

    def begin(self, now: float) -> None:
        """A new round: the role has handled all events taken so far."""
        self._now = now
        if self._held and not self._events:
            held, self._held = self._held, []
            for routing_id, hello, proof in held:
                self._receive_hello(routing_id, hello, proof, now)

    def receive(self, routing_id: RoutingId, said: Envelope, size: int, now: float, proof: Proof = NO_PROOF) -> None:
        """One well-formed message of `size` bytes; with a Hello comes what the transport knows of its sender."""
        seq, ack, message = said
        kind = type(message)
        self.received[kind] += 1
        session = self._by_routing.get(routing_id)
        if session is None:
            if isinstance(message, Hello):
                self._greet(routing_id, message, proof, now)
            else:
                self._turn_away(routing_id, said, now)
            return
        session.heard_at = now
        if session.routing_id is None:
            # The peer may not have noticed that we closed the socket, or the message was in flight.
            self._turn_away(routing_id, said, now)
        channel = session.channel
        if ack > channel.acknowledged_seq:
            if not channel.forget(ack):
                self.rejected_count += 1
                text = f"message {ack} was acknowledged but never sent"
                self._part(session, codes.BAD_ENVELOPE, text, "SES-15")
                return
            session.owes_since = now
            if channel.waiting:
                self._hand_over(session)
        if seq == 0:
            self._receive_unsequenced(session, routing_id, message, proof, now)
            return
        is_held_back = self._gate.is_strained and self._holds_back(session, kind, seq, size)
        order = GAP if is_held_back else channel.receive(seq, size)
        if order != IN_ORDER:
            if order == GAP:
                self._report_gap(session, seq, now)
            return
        self._unsettled[session] = None
        if kind in CONTROL:
            self._receive_control(session, seq, message, now)
        elif session.allowed is None or kind in session.allowed:
            self._events.append(Received(session.hello.peer_id, seq, message))
        else:
            self.rejected_count += 1
            role = handshake.role_name(session.hello.role)
            self._complain(session, codes.NOT_ALLOWED, seq, f"a {role} may not send {kind.__name__}", "HSK-13", now)

    def _holds_back(self, session: ServerSession, kind: type, seq: int, size: int) -> bool:
        """The role takes no more of this peer for now. (SES-33) If `reads_of` has decided so, it stays so, because the
        message was not read: the acknowledgement that came with it may have changed what the gate says."""
        is_new = kind not in CONTROL and seq > session.channel.received_seq
        return is_new and (self._is_unread or not self._gate.admits(session.peer_id, size))

    def reject(self, routing_id: RoutingId, code: int, text: str, clause: str, ref_seq: int, now: float) -> None:
        """Frames that are no message. One whose seq could be read takes its place, so that the session goes on;
        without that number the sequence cannot be continued and the session is over. (SES-13, SES-16)"""
        self.rejected_count += 1
        session = self._by_routing.get(routing_id)
        if session is None:
            self._send_error(routing_id, Error(code, ref_seq, True, text, clause), now)
            return
        session.heard_at = now
        if ref_seq == 0 and code != codes.UNKNOWN_MESSAGE:
            self._part(session, code, text, clause)
            return
        order = IN_ORDER if ref_seq == 0 else session.channel.receive(ref_seq, 0)
        if order == GAP:
            self._report_gap(session, ref_seq, now)
        elif order == IN_ORDER:
            self._unsettled[session] = None
            self._complain(session, code, ref_seq, text, clause, now)

    def expire(self, now: float) -> None:
        """Call only when nothing is left to read: what waits in the socket is a sign of life too."""
        if now < self._deadlines.next_at:
            return
        for session in self._deadlines.take_due(now):
            late_seconds = now - session.expires_at()
            if late_seconds < 0:
                self._probe(session, now)
            elif late_seconds > session.welcome.timers.heartbeat_seconds:
                # This server was away (stopped, or stuck in a handler), and what the peer sent meanwhile may still be
                # on its way through the kernel. The peer gets the time of a reconnect to be heard.
                session.heard_at = now - session.patience_seconds + session.grace_seconds(self._grace_seconds)
                self._deadlines.watch(session)
            else:
                self._part(session, codes.LEASE_EXPIRED, session.silence_text)

    def review(self) -> None:
        """End the sessions of those that are no longer admitted. At least once a heartbeat. (SES-31, SES-32)"""
        for session, text in self.admission.review(self._by_peer.values()):
            self.admission.audit(Judged(session.hello, NO_PROOF, session.identity, text))
            self._part(session, codes.UNAUTHORIZED, text, "SES-31")

    def next_deadline(self) -> float | None:
        if self._events or self._held:
            return 0.0
        next_at = min(self._deadlines.next_at, self._vanished.look_at)
        return None if next_at == math.inf else next_at

    # ------------------------------------------------------------ from the role

    def send(self, peer_id: PeerId, message: Message | Encoded) -> int:
        """Returns the number of the message in its session, or 0 without one. For a peer that is away it is kept."""
        session = self._by_peer.get(peer_id)
        if session is None:
            return 0
        channel = session.channel
        assert type(message) is not Error or not message.fatal, "a fatal Error ends a session: say disconnect()"
        if channel.backlog_bytes == 0:
            session.owes_since = self._now
        if session.routing_id is not None and channel.is_open:
            self.transmissions.append((session.routing_id, channel.send(message)))
        else:
            channel.send(message, is_later=True)
        if self._bounds.is_exceeded(channel.backlog_bytes):
            self._relieve(session)
        return channel.sent_seq

    def _relieve(self, session: ServerSession) -> None:
        """More is kept than may be, for this session or for all together."""
        if self._bounds.is_beyond(session.channel):
            self._part_overloaded(session)
            return
        for other in self._bounds.relief(self._by_peer.values(), self._now):
            self._part_overloaded(other)

    def disconnect(self, peer_id: PeerId, code: int, text: str) -> None:
        if (session := self._by_peer.get(peer_id)) is not None:
            self._part(session, code, text)

    def settle(self, now: float) -> None:
        """The role has reacted to everything it was given: now the Pongs, and the acknowledgements nothing carried."""
        if self._parked:
            self._unpark(now)
        unsettled = self._unsettled
        if not unsettled:
            return
        self._unsettled = {}
        for session in unsettled:
            if session.is_over:
                continue
            if session.pings and not self._is_busy_with(session.peer_id):
                self._answer_pings(session)
                continue
            if session.pings:
                self._unsettled[session] = None
            if session.routing_id is None or (frames := session.channel.acknowledgement()) is None:
                continue
            if self._bounds.wants_ping(session.channel):
                self.send(session.peer_id, Ping(0))
                continue
            self._say_outside(session, frames)
            if self._bounds.is_ignored(session.channel):
                self._part_overloaded(session)

    def refuse_newcomers(self) -> None:
        """No session is opened any more; those that are there go on until `shut_down`. (SCH-27)"""
        self._is_shut_down = True

    def shut_down(self) -> None:
        """Bye to all; no session is opened any more."""
        self._is_shut_down = True
        for session in list(self._by_peer.values()):
            self._part(session, codes.SHUTTING_DOWN, f"the {self.terms.role_name} is shutting down")

    # ------------------------------------------------------------ opening

    def _turn_away(self, routing_id: RoutingId, envelope: Envelope, now: float) -> None:
        """From a socket that carries no session, only a Hello means anything (HSK-9)."""
        if type(envelope.message) not in (Error, Bye):  # these end something: there is nothing to answer
            self.rejected_count += 1
            text = "this socket has no session: say Hello on a new socket, with resume if there was one"
            self._send_error(routing_id, Error(codes.NO_SESSION, envelope.seq, True, text, "HSK-9"), now)

    def _greet(self, routing_id: RoutingId, hello: Hello, proof: Proof, now: float) -> None:
        if self._bounds.hellos.admits(routing_id, now):
            self._receive_hello(routing_id, hello, proof, now)
        else:
            self.rejected_count += 1  # an answer to each would fill the queue of a socket that reads none (SES-26)

    def _receive_hello(self, routing_id: RoutingId, hello: Hello, proof: Proof, now: float) -> None:
        current = self._by_peer.get(hello.peer_id)
        found = self._refusal(routing_id, hello, current) or self.admission.admit(hello, proof, current, self.terms)
        if isinstance(found, Reject):
            self._refuse(routing_id, hello, proof, found, now)
        elif current is None and not self._bounds.has_room(user_of(found)):
            self.full_count += 1
            self._refuse(routing_id, hello, proof, handshake.full(self.terms, len(self._by_peer)), now)
        elif current is None:
            self._open(routing_id, hello, proof, found, now, is_again=False)
        elif current.routing_id == routing_id and current.hello == hello:
            self._say_outside(current, self._encode(current.welcome, 0, current.channel.received_seq))
        elif self._events:
            # The role has yet to handle what this session said: it must not be replaced under its feet.
            self._held.append((routing_id, hello, proof))
        else:
            self._meet_again(current, routing_id, hello, proof, found, now)

    def _refusal(self, routing_id: RoutingId, hello: Hello, current: ServerSession | None) -> Reject | None:
        carried = self._by_routing.get(routing_id)
        is_of_another = carried is not None and carried.peer_id != hello.peer_id
        return handshake.refuse(self.terms, hello, routing_id) or handshake.refuse_for_now(
            self.terms, is_shut_down=self._is_shut_down, is_of_another=is_of_another
        )

    def _meet_again(
        self,
        current: ServerSession,
        routing_id: RoutingId,
        hello: Hello,
        proof: Proof,
        identity: Identity | None,
        now: float,
    ) -> None:
        verdict = handshake.judge(hello, current.hello, current.session_id, current.channel)
        if verdict is Verdict.STALE:
            text = "a newer session of this peer id is in use: is a second process running under the same id?"
            self._refuse(routing_id, hello, proof, handshake.reject(self.terms, codes.SESSION_REPLACED, text), now)
        elif not self._bounds.resumes.admits(hello.peer_id, now):
            text = "this peer id has dialed too often within a second: dial again later"
            self._refuse(routing_id, hello, proof, handshake.reject(self.terms, codes.OVERLOADED, text), now)
        elif verdict is Verdict.REPLACE:
            self._replace(current, routing_id, hello, proof, identity, now)
        elif verdict is Verdict.RESUME and self._gate.is_strained and not self._gate.is_relieved(hello.peer_id):
            self._park(current, routing_id, hello, proof, now)
        else:
            self._attach(current, routing_id, hello, verdict, now)

    def _open(
        self, routing_id: RoutingId, hello: Hello, proof: Proof, identity: Identity | None, now: float, is_again: bool
    ) -> None:
        self._last_session_id += 1
        welcome = handshake.welcome(self.terms, hello, identity, self._last_session_id)
        allowed = None if self.terms.allowed_messages is None else self.terms.allowed_messages.get(hello.role)
        if self.terms.allowed_messages is not None and allowed is None:
            allowed = frozenset()
        session = ServerSession(hello, welcome, self._bounds.channel(self._encode), allowed, identity, routing_id, now)
        self._by_peer[hello.peer_id] = session
        self._bounds.opened(user_of(identity))
        self._by_routing[routing_id] = session
        self._deadlines.watch(session)
        self._vanished.watch(session)
        self.transmissions.append((routing_id, self._encode(welcome, 0, 0)))
        self._events.append(Opened(hello.peer_id, hello, welcome, identity, is_again))
        self.admission.audit(Judged(hello, proof, identity))

    def _replace(
        self,
        current: ServerSession,
        routing_id: RoutingId,
        hello: Hello,
        proof: Proof,
        identity: Identity | None,
        now: float,
    ) -> None:
        text = "another session was opened under the same peer id"
        if current.routing_id is not None and current.routing_id != routing_id:
            # With this error, a second peer with this id stops. Otherwise it would dial again and replace the first.
            error = Error(codes.SESSION_REPLACED, 0, True, text, "SES-12")
            self.transmissions.append((current.routing_id, self._encode(error, 0, 0)))
        is_again = handshake.is_again(hello, current.hello, current.channel)
        self._end(current, codes.SESSION_REPLACED, text, is_orderly=False, is_again=is_again)
        self._open(routing_id, hello, proof, identity, now, is_again)

    def _attach(
        self, session: ServerSession, routing_id: RoutingId, hello: Hello, verdict: Verdict, now: float
    ) -> None:
        """The session goes on, on this socket; what its peer lacks follows the Welcome (SES-18)."""
        channel = session.channel
        if session.carrier is not None:
            self._dismiss(session.carrier)
            if session.carrier != routing_id and self._bounds.leaves_much(channel):
                self.abandoned.append(session.carrier)
        if verdict is Verdict.RESUME:
            channel.forget(hello.resume.received_seq)
            session.welcome = replace(session.welcome, resumed=True, received_seq=channel.received_seq)
        session.hello = hello
        session.attach(routing_id, now)
        self._deadlines.watch(session)  # with a socket it is looked at sooner
        self._vanished.watch(session)
        self._by_routing[routing_id] = session
        channel.rewind()
        self._say_outside(session, self._encode(session.welcome, 0, channel.received_seq))
        self._hand_over(session)

    def _park(self, session: ServerSession, routing_id: RoutingId, hello: Hello, proof: Proof, now: float) -> None:
        """The Hello counts as a sign of life and gets no answer before the role takes more messages. (SES-34)"""
        self._parked[session.peer_id] = (routing_id, hello, proof)
        session.heard_at, session.patience_seconds = now, session.welcome.timers.lease_seconds
        self._deadlines.watch(session)

    def _unpark(self, now: float) -> None:
        """In the order in which they came."""
        for peer_id, parked in list(self._parked.items()):
            if self._gate.is_relieved(peer_id):
                del self._parked[peer_id]
                self._receive_hello(*parked, now)

    # ------------------------------------------------------------ inside a session

    def _receive_unsequenced(
        self, session: ServerSession, routing_id: RoutingId, message: Message, proof: Proof, now: float
    ) -> None:
        if isinstance(message, Acknowledge):
            return
        if isinstance(message, Hello):
            self._greet(routing_id, message, proof, now)
        elif isinstance(message, Error):
            self._receive_error(session, message)
        else:
            self.rejected_count += 1
            name = type(message).__name__
            self._complain(session, codes.BAD_ENVELOPE, 0, f"{name} must have a seq of its own", "SES-1", now)

    def _receive_control(self, session: ServerSession, seq: int, message: Message, now: float) -> None:
        """The next message of the sequence, and none for the role."""
        if isinstance(message, Ping):
            session.pings.append(message.nonce)
            if session.has_too_many_pings:
                self._part(session, codes.OVERLOADED, "too many Pings: wait for the Pongs", "SES-38")
        elif isinstance(message, Bye):
            self._end(session, message.code, text_of(message), is_orderly=True)
        elif isinstance(message, Error):
            self._receive_error(session, message)
        elif not isinstance(message, Pong):
            self.rejected_count += 1
            self._complain(session, codes.BAD_ENVELOPE, seq, f"{type(message).__name__} must have seq 0", "SES-1", now)

    def _answer_pings(self, session: ServerSession) -> None:
        pings, session.pings = session.pings, []
        for nonce in pings:
            self.send(session.peer_id, Pong(nonce))
            session.note_pong()

    def _complain(self, session: ServerSession, code: int, seq: int, text: str, clause: str, now: float) -> None:
        """A message is refused and the session goes on. The Error has its place in the sequence, so that no broken
        connection can lose it (ERR-9); a peer that sends little but nonsense loses the session instead (ERR-3)."""
        assert session.carrier is not None, "it was received on some socket"
        if self._bounds.peer_errors.admits(session.carrier, now):
            self.send(session.peer_id, Error(code, seq, False, text, clause))
        else:
            self._part(session, code, f"too many bad messages, the last one: {text}", clause)
