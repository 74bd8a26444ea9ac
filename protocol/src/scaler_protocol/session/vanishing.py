"""Peers whose whole host gives no sign: they are lost long before their lease ends (LIV-15, LIV-16, LIV-19).

Theory of operation. A process that is stopped, swaps or computes is *slow*: its system still acknowledges what
arrives. A host without power or network acknowledges nothing. The system of the server can tell the two apart: of each
connection it knows how long nothing has come, data or acknowledgement, and how often it has asked since then, by
segments that it sent again and by keep-alive probes. Facts about a connection come in, and a verdict comes out.

The hazard is a link that is down for some seconds only. Packets are then sent again after pauses, and if the last
packet was sent while the link was down, silence proves nothing. So a question must have been put late, when a link
that is down for three fifths of the time is whole again for certain, and there must have been time for the answer, by
the round trip that the system has measured on this connection.

The other hazard is the server's own network. While it is down all hosts are silent, and none of them has vanished. So
another host has to be heard at the same time; and when all were silent, each has the whole time once more."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.session.server_session import ServerSession
from scaler_protocol.session.signs import LOOK_SECONDS, Signs

#: A link may be down for 3 of 5 s. Its last sign is up to a second older than the fault, and the system asks each
#: second: between 4 and 5 s of silence it has asked when the link was whole again, and with an answer there is no
#: silence.
_LATE_SHARE = 0.75
_FEWEST_QUESTIONS = 3
#: When to look for the first time: most peers are never silent for so long.
_FIRST_SHARE = 0.5
#: From this share of silence on, with so many questions unanswered, the host is suspected (LIV-17).
_FEWEST_QUESTIONS_FOR_SUSPICION = 2
_ANSWER_ROUND_TRIPS = 4
_SHORTEST_ANSWER_SECONDS = 0.2


class LineFacts(NamedTuple):
    """What the server's system knows of a connection."""

    #: since anything has come: data, or an acknowledgement
    silent_seconds: float
    #: how often it has asked since then, in vain
    asked_count: int
    round_trip_seconds: float


class Lines(Protocol):
    """The connections of a server, as its system knows them."""

    def ask_often(self, routing_id: RoutingId) -> None:
        """The system is to ask each second whether the other one is there."""

    def facts_of(self, routing_id: RoutingId) -> LineFacts | None:
        """None: the system does not tell."""

    def host_of(self, routing_id: RoutingId) -> str:
        """The address of the other end. Empty: it is this host, or not known."""


class Doubt:
    """One session that has been silent for a while."""

    __slots__ = ("asked_count", "began_at", "late_question_at", "spared_until")

    def __init__(self, began_at: float, spared_until: float = -math.inf) -> None:
        #: the first look that was late enough for questions to count
        self.began_at = began_at
        #: no host was heard for a while: the silence counts anew from then on
        self.spared_until = spared_until
        #: at that look; -1: there was none yet
        self.asked_count = -1
        #: when a question was seen that was put after that look
        self.late_question_at = math.inf


class VanishedHosts:
    """Which connections are to be looked at, and what follows. `seconds` zero: none, and only leases count."""

    def __init__(
        self,
        seconds: float = 0.0,
        roles: frozenset[int] = frozenset(),
        suspect: Callable[[PeerId, bool], None] = lambda peer_id, is_suspected: None,
    ) -> None:
        """`suspect` is told when the host of a peer is suspected to have vanished, and when it no longer is."""
        self.seconds = seconds
        self._suspect = suspect
        self._suspected: set[ServerSession] = set()
        self._roles = roles
        #: one entry for each watched session with a socket, whose time may be early
        self._heap: list[tuple[float, int, ServerSession, RoutingId]] = []
        self._order = 0
        self._doubts: dict[ServerSession, Doubt] = {}
        self._signs = Signs()
        #: sessions with new sockets: the system is to ask there each second from now on
        self.fresh: list[ServerSession] = []
        #: when a connection is to be looked at next. An attribute, because it is read in each turn
        self.look_at = math.inf

    def watch(self, session: ServerSession) -> None:
        """It has a new socket."""
        routing_id = session.routing_id
        if self.seconds and session.hello.role in self._roles and routing_id is not None:
            self._doubts.pop(session, None)
            self._trust(session)
            self.fresh.append(session)
            self._push(session.heard_at + _FIRST_SHARE * self.seconds, session, routing_id)

    def look_at_fresh(self, lines: Lines) -> None:
        fresh, self.fresh = self.fresh, []
        for session in fresh:
            if session.routing_id is not None:
                lines.ask_often(session.routing_id)
                self._signs.met(session, lines.host_of(session.routing_id))

    def look_for_signs(self, lines: Lines, now: float) -> None:
        """Of hosts in general, as long as one of them may be gone."""
        if self._doubts:
            self._signs.look(lines, now)

    def take_due(self, now: float) -> list[ServerSession]:
        """Silent sessions whose connections are to be looked at. Each is given to `is_gone` next."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            _, _, session, routing_id = heapq.heappop(self._heap)
            if session.is_over or session.routing_id != routing_id:
                if session.is_over:
                    self._doubts.pop(session, None)  # one that has moved has an entry for its new socket
                    self._suspected.discard(session)
                    self._signs.forget(session)
                continue
            first_at = session.heard_at + _FIRST_SHARE * self.seconds
            if first_at > now:
                self._doubts.pop(session, None)
                self._trust(session)
                self._push(first_at, session, routing_id)
            else:
                due.append(session)
        self.look_at = self._heap[0][0] if self._heap else math.inf
        return due

    def is_gone(self, session: ServerSession, facts: LineFacts | None, now: float) -> bool:
        """Whether its host gives no sign. None: the system cannot tell, and the lease counts."""
        assert session.routing_id is not None, "only sessions with a socket are due"
        late_seconds = _LATE_SHARE * self.seconds
        if facts is None or facts.silent_seconds < late_seconds:
            silent_seconds = 0.0 if facts is None else facts.silent_seconds
            self._doubts.pop(session, None)
            self._judge(session, facts)
            first_seconds = _FIRST_SHARE * self.seconds
            wait_seconds = LOOK_SECONDS if silent_seconds >= first_seconds else first_seconds - silent_seconds
            self._push(now + wait_seconds, session, session.routing_id)
            return False
        self._judge(session, facts)
        doubt = self._doubts.setdefault(session, Doubt(now))
        if doubt.asked_count < 0 or facts.asked_count < doubt.asked_count:
            doubt.asked_count, doubt.late_question_at = facts.asked_count, math.inf
        elif facts.asked_count > doubt.asked_count:
            doubt.late_question_at = min(doubt.late_question_at, now)
        answer_seconds = max(_ANSWER_ROUND_TRIPS * facts.round_trip_seconds, _SHORTEST_ANSWER_SECONDS)
        if (
            facts.silent_seconds >= self.seconds
            and facts.asked_count >= _FEWEST_QUESTIONS
            and now >= doubt.late_question_at + answer_seconds
        ):
            if not self._signs.is_another_heard(session, doubt.began_at):
                self._doubts[session] = Doubt(now, spared_until=now + self.seconds)
            elif now >= doubt.spared_until:
                del self._doubts[session]
                self._suspected.discard(session)
                self._signs.forget(session)
                return True
        self._push(now + LOOK_SECONDS, session, session.routing_id)
        return False

    def _judge(self, session: ServerSession, facts: LineFacts | None) -> None:
        """The host is suspected if its silence is too long for a network that is well. (LIV-17)"""
        if facts is None or facts.silent_seconds < _FIRST_SHARE * self.seconds:
            self._trust(session)
        elif session not in self._suspected and facts.asked_count >= _FEWEST_QUESTIONS_FOR_SUSPICION:
            self._suspected.add(session)
            self._suspect(session.peer_id, True)

    def _trust(self, session: ServerSession) -> None:
        if session in self._suspected:
            self._suspected.discard(session)
            self._suspect(session.peer_id, False)

    def _push(self, at: float, session: ServerSession, routing_id: RoutingId) -> None:
        self._order += 1
        heapq.heappush(self._heap, (at, self._order, session, routing_id))
        self.look_at = self._heap[0][0]
