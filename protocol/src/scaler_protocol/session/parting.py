"""How sessions lose their sockets, and end (SES, LIV)."""

from __future__ import annotations

from scaler_protocol import codes
from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.keys import user_of
from scaler_protocol.messages import Bye, Error, Hello, Reject
from scaler_protocol.session.admission import Admission, Judged, Proof
from scaler_protocol.session.bounds import Bounds
from scaler_protocol.session.channel import Encode
from scaler_protocol.session.deadlines import Deadlines
from scaler_protocol.session.events import Lost, SessionEvent, complained, text_of
from scaler_protocol.session.outlet import Outlet
from scaler_protocol.session.server_session import ServerSession
from scaler_protocol.session.vanishing import Lines, VanishedHosts

#: Goodbyes that are said as Bye; any other reason to part is an Error that ends the session.
_ORDERLY = frozenset({codes.OK, codes.SHUTTING_DOWN})


class Parting(Outlet):
    admission: Admission

    def __init__(self, encode: Encode, bounds: Bounds, grace_seconds: float, vanished: VanishedHosts) -> None:
        super().__init__(encode, bounds)
        self._vanished = vanished
        self._grace_seconds = grace_seconds
        #: by carrier: all and only those that have one
        self._by_routing: dict[RoutingId, ServerSession] = {}
        #: the latest resume of each session that is held back: its Welcome waits until the role takes more (SES-34)
        self._parked: dict[PeerId, tuple[RoutingId, Hello, Proof]] = {}
        self._events: list[SessionEvent] = []
        self._deadlines = Deadlines()

    def unreachable(self, routing_id: RoutingId, now: float) -> None:
        """The socket is gone. Its peer may be back on another within the grace; what we send waits for it. (LIV-6)

        What it had received before that may not be read yet, and counts: a worker's last Results and its Bye, say.
        """
        session = self._by_routing.get(routing_id)
        if session is not None and session.routing_id is not None:
            session.detach(session.grace_seconds(self._grace_seconds), now)
            self._deadlines.watch(session)

    def look_at_lines(self, lines: Lines, now: float) -> None:
        """Lose peers whose hosts give no sign. When `expire` may be called. (LIV-15)"""
        hosts = self._vanished
        if hosts.fresh:
            hosts.look_at_fresh(lines)
        if now < hosts.look_at:
            return
        hosts.look_for_signs(lines, now)
        for session in hosts.take_due(now):
            assert session.routing_id is not None, "only sessions with a socket are due"
            if hosts.is_gone(session, lines.facts_of(session.routing_id), now):
                text = f"its host has given no sign for {hosts.seconds:g} s"
                self._part(session, codes.LEASE_EXPIRED, text, "LIV-15")

    def _refuse(self, routing_id: RoutingId, hello: Hello, proof: Proof, reject: Reject, now: float) -> None:
        self.admission.audit(Judged(hello, proof, reject))
        self._send_reject(routing_id, reject, now)

    def _receive_error(self, session: ServerSession, error: Error) -> None:
        """Taken by `fatal` alone, whatever its seq: an Error is never answered with an Error (ERR-4, ERR-5)."""
        if error.fatal:
            self._end(session, error.code, text_of(error), is_orderly=False)
        else:
            self._events.append(complained(session.peer_id, error))

    def _report_gap(self, session: ServerSession, seq: int, now: float) -> None:
        """This socket can no longer carry the session; another one can (SES-5, SES-33)."""
        assert session.carrier is not None, "it was received on some socket"
        received_seq = session.channel.received_seq
        if seq == received_seq + 1:
            clause, text = "SES-33", f"message {seq} is not taken before earlier ones are worked off: resume and wait"
        else:
            self.rejected_count += 1
            clause, text = "SES-5", f"message {seq} came after message {received_seq}: dial anew and resume"
        error = Error(codes.SEQUENCE_GAP, seq, True, text, clause)
        self.transmissions.append((session.carrier, self._encode(error, 0, received_seq)))
        self.unreachable(session.carrier, now)
        self._dismiss(session.carrier)
        session.carrier = None

    def _probe(self, session: ServerSession, now: float) -> None:
        """Only sending shows that a socket is gone. Without this the death of a peer that is sent nothing,
        such as a worker in the middle of its tasks, would be found at the end of its lease (LIV-6)."""
        assert session.routing_id is not None, "a detached session is only checked for its expiry"
        session.probed_at = now
        self._say_outside(session, session.channel.acknowledge_now())
        self._deadlines.watch(session)

    def _part(self, session: ServerSession, code: int, text: str, clause: str = "") -> None:
        """End a session from our side, and say so if there is a socket to say it on."""
        is_orderly = code in _ORDERLY
        if session.routing_id is not None:
            if is_orderly:
                self._hand_over(session, is_all=True)
                frames = session.channel.send(Bye(code, text))
            else:
                frames = self._encode(Error(code, 0, True, text, clause), 0, session.channel.received_seq)
            self.transmissions.append((session.routing_id, frames))
        self._end(session, code, text, is_orderly=is_orderly)

    def _end(self, session: ServerSession, code: int, text: str, *, is_orderly: bool, is_again: bool = False) -> None:
        session.is_over = True
        session.channel.close()
        del self._by_peer[session.peer_id]
        self._bounds.ended(user_of(session.identity))
        self._parked.pop(session.peer_id, None)
        if session.carrier is not None:
            self._dismiss(session.carrier)
        self._events.append(Lost(session.peer_id, code, text, is_orderly, is_again=is_again))

    def _dismiss(self, routing_id: RoutingId) -> None:
        del self._by_routing[routing_id]
        self._dismissed.append(routing_id)

    def _part_overloaded(self, session: ServerSession) -> None:
        text = f"{session.channel.backlog_bytes} bytes were sent and not acknowledged: read faster or ask for less"
        self._part(session, codes.OVERLOADED, text)
