"""What a server hands to its sockets, and how much of it without an acknowledgement (SES-25, SES-28)."""

from __future__ import annotations

from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.keys import user_of
from scaler_protocol.messages import Error, Reject
from scaler_protocol.session.bounds import Bounds
from scaler_protocol.session.channel import Encode, Frames
from scaler_protocol.session.server_session import ServerSession

Transmission = tuple[RoutingId, Frames]


class Outlet:
    def __init__(self, encode: Encode, bounds: Bounds) -> None:
        self._encode = encode
        self._bounds = bounds
        #: every session that is not over
        self._by_peer: dict[PeerId, ServerSession] = {}
        #: what is to leave: see `take_transmissions`
        self.transmissions: list[Transmission] = []
        #: sockets that sessions have left with much that was not read: to be closed, after the transmissions were taken
        self.abandoned: list[RoutingId] = []
        #: sockets that carry no session any more
        self._dismissed: list[RoutingId] = []
        #: bad frames, refused Hellos and messages that were not allowed, since the start
        self.rejected_count = 0
        self.full_count = 0  #: dialers that were refused because there were as many sessions as may be (LIM-7)

    def take_transmissions(self) -> list[Transmission]:
        transmissions, self.transmissions = self.transmissions, []
        return transmissions

    def take_abandoned(self) -> list[RoutingId]:
        abandoned, self.abandoned = self.abandoned, []
        return abandoned

    def take_dismissed(self) -> list[RoutingId]:
        """What still comes by them is bounded. (LIM-18)"""
        if not self._dismissed:
            return self._dismissed
        dismissed, self._dismissed = self._dismissed, []
        return dismissed

    @property
    def total_backlog_bytes(self) -> int:
        """Kept for all peers together."""
        return self._bounds.tally.bytes

    def backlog_bytes(self, peer_id: PeerId) -> int:
        return 0 if (session := self._by_peer.get(peer_id)) is None else session.channel.backlog_bytes

    def unacknowledged(self, peer_id: PeerId) -> tuple[int, int]:
        """Bytes and messages that this peer may lack."""
        return (0, 0) if (session := self._by_peer.get(peer_id)) is None else session.channel.unacknowledged

    def user_of(self, peer_id: PeerId) -> str:
        """Empty without keys, and without a session."""
        session = self._by_peer.get(peer_id)
        return "" if session is None else user_of(session.identity)

    def progress(self, peer_id: PeerId) -> tuple[int, int]:
        """Numbers of the last message that this peer was sent, and of the last that it has acknowledged."""
        session = self._by_peer.get(peer_id)
        return (0, 0) if session is None else (session.channel.sent_seq, session.channel.acknowledged_seq)

    def _hand_over(self, session: ServerSession, *, is_all: bool = False) -> None:
        """What its socket may be given by now, of what waits for it."""
        if (routing_id := session.routing_id) is not None:
            portion = session.channel.hand_over(is_all=is_all)
            self.transmissions.extend((routing_id, frames) for frames in portion)

    def _say_outside(self, session: ServerSession, frames: Frames) -> None:
        """What has no place in the sequence counts all the same until it is read."""
        assert session.routing_id is not None, "there is a socket to say it on"
        session.channel.note_unsequenced(frames)
        self.transmissions.append((session.routing_id, frames))

    def _send_error(self, routing_id: RoutingId, error: Error, now: float) -> None:
        """To a socket without a session, or in answer to nonsense. Beyond a bound such answers are not sent: no correct
        peer waits for them."""
        if self._bounds.stranger_errors.admits(routing_id, now):
            self.transmissions.append((routing_id, self._encode(error, 0, 0)))

    def _send_reject(self, routing_id: RoutingId, reject: Reject, now: float) -> None:
        self.rejected_count += 1
        if self._bounds.stranger_errors.admits(routing_id, now):
            self.transmissions.append((routing_id, self._encode(reject, 0, 0)))
