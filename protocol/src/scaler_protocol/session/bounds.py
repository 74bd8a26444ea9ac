"""What peers and strangers may take of a server: answers, sessions and memory, one by one and together."""

from __future__ import annotations

from collections.abc import Collection

from scaler_protocol.session.channel import Channel, Encode, Tally
from scaler_protocol.session.limiter import Limiter
from scaler_protocol.session.server_session import ServerSession

#: A peer that was sent so much outside the sequence, and has not answered a Ping meanwhile, does not read. (SES-28)
_UNSEQUENCED_BYTES = 1024 * 1024
#: So much of it and a Ping takes the place of an Acknowledge: its Pong acknowledges. (SES-28)
_PING_BYTES = 64 * 1024
#: A session that moves leaves a socket behind that has more than this: it is closed. (SES-27)
_LEFT_BEHIND_BYTES = 64 * 1024
#: Of all that is kept, so much less is enough once it was too much, so that it is not looked for at every message.
_RELIEF = 8


class Bounds:
    def __init__(self, backlog_bytes: int, total_backlog_bytes: int, most_sessions: int) -> None:
        self._backlog_bytes = backlog_bytes
        self._total_bytes = total_backlog_bytes
        self._most_sessions = most_sessions
        self.tally = Tally()
        # Strangers beyond this are met with silence. A peer that sends little but nonsense loses its session instead;
        # it has a limiter of its own, or a crowd of strangers could use up its answers.
        self.stranger_errors = Limiter(most=8, keys=4096)
        self.peer_errors = Limiter(most=100, keys=1_000_000)
        #: by socket: a dialer says Hello once on each (SES-26)
        self.hellos = Limiter(most=64, keys=65_536)
        #: by peer id: each makes a copy of what its session keeps, or a session (LIM-8)
        self.resumes = Limiter(most=32, keys=65_536)

    def channel(self, encode: Encode) -> Channel:
        return Channel(encode, self.tally)

    def is_full(self, sessions: int) -> bool:
        """There is no room for one session more. (LIM-7)"""
        return sessions >= self._most_sessions

    def is_exceeded(self, backlog_bytes: int) -> bool:
        """By what is kept for one peer, of which this is the amount, or by what is kept for all. (SES-14, LIM-6)"""
        return backlog_bytes > self._backlog_bytes or self.tally.bytes > self._total_bytes

    def is_beyond(self, channel: Channel) -> bool:
        """The peer of this channel reads too little to be waited for. (SES-14)"""
        return channel.backlog_bytes > self._backlog_bytes

    def is_ignored(self, channel: Channel) -> bool:
        """The same, of what has no place in the sequence. (SES-28)"""
        return channel.unsequenced_bytes > _UNSEQUENCED_BYTES

    def wants_ping(self, channel: Channel) -> bool:
        """Nothing else in the sequence is on its way, of which an acknowledgement would show that the peer reads."""
        return channel.unsequenced_bytes > _PING_BYTES > channel.handed_bytes and channel.is_open

    def leaves_much(self, channel: Channel) -> bool:
        """Its socket was given much that is not acknowledged."""
        return channel.handed_bytes + channel.unsequenced_bytes > _LEFT_BEHIND_BYTES

    def relief(self, sessions: Collection[ServerSession], now: float) -> list[ServerSession]:
        """Which sessions are to end, so that all others have room: those that have left most bytes unacknowledged for
        the longest time. (LIM-6)"""
        excess = self.tally.bytes - (self._total_bytes - self._total_bytes // _RELIEF)
        chosen: list[ServerSession] = []
        by_wait = sorted(
            (session for session in sessions if session.channel.backlog_bytes),
            key=lambda session: session.channel.backlog_bytes * (now - session.owes_since + 1.0),
            reverse=True,
        )
        for session in by_wait:
            if excess <= 0:
                break
            chosen.append(session)
            excess -= session.channel.backlog_bytes
        return chosen
