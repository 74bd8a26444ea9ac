"""What peers and strangers may take of a server: answers, sessions and memory, one by one and together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

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


class Quota(NamedTuple):
    """Of what all users of a server share, such as its sessions. A user that takes all it can get leaves room for the
    others: the first ones of each user are never refused, and further ones are bounded for all users together. Without
    keys no user is known, and only the bound for all holds. (LIM-30, LIM-31)"""

    first: int
    """Of each user."""
    further: int
    """Of all users together, besides the first ones of each."""

    def at_most(self, further: int) -> Quota:
        """The same, where there is room for no more further ones than that. (LIM-32)"""
        return self._replace(further=min(self.further, further))

    def has_room(self, counts: Mapping[str, int], user: str, more: int = 1) -> bool:
        """Whether this user may have so many more. `counts`: what each user has; the user is empty without keys."""
        own = self._further(user, counts.get(user, 0) + more)
        others = (self._further(one, count) for one, count in counts.items() if one != user)
        return own == 0 or own + sum(others) <= self.further

    def _further(self, user: str, count: int) -> int:
        return max(0, count - self.first) if user else count


#: Of a server, if it has descriptors for them. (LIM-7, LIM-31)
SESSIONS = Quota(first=64, further=65_536)


class Bounds:
    def __init__(self, backlog_bytes: int, total_backlog_bytes: int, sessions: Quota) -> None:
        self._backlog_bytes = backlog_bytes
        self._total_bytes = total_backlog_bytes
        self._sessions = sessions
        self.sessions_of: Counter[str] = Counter()  #: by user; all and only those that have some
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

    def has_room(self, user: str) -> bool:
        """For one session more of this user. (LIM-7, LIM-31)"""
        return self._sessions.has_room(self.sessions_of, user)

    def opened(self, user: str) -> None:
        self.sessions_of[user] += 1

    def ended(self, user: str) -> None:
        self.sessions_of[user] -= 1
        if not self.sessions_of[user]:
            del self.sessions_of[user]

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
