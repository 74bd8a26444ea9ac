"""How long a dialer waits: for an answer to its Hello, and between failures (HSK-20, HSK-41)."""

from __future__ import annotations

from scaler_protocol import codes
from scaler_protocol.errors import readable
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Reject, Timers

_FIRST_ANSWER_SECONDS = 1.0
_LONGEST_ANSWER_SECONDS = 8.0
_SHORTEST_ANSWER_SECONDS = 0.25
#: With CURVE a Welcome takes five round trips, and one round trip may take 0.6 s.
_FAR_ANSWER_SECONDS = 4.0
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
#: A server that is slow to answer is not gone: no silence shorter than this makes us redial.
_SHORTEST_SILENCE_SECONDS = 0.5
#: What a dialer that was itself stopped for longer than the lease grants the server, at most, before it gives up.
_LONGEST_GRACE_SECONDS = 2.0


def silence_seconds(timers: Timers) -> float:
    """For how long a server may be silent in a session before the dialer tries another socket."""
    return min(max(3 * timers.heartbeat_seconds, _SHORTEST_SILENCE_SECONDS), 0.75 * timers.lease_seconds)


def grace_seconds(timers: Timers) -> float:
    """How long a dialer tries to resume a session at least. A dialer that notices silence in time has just that left of
    the lease, so it gives up when the lease ends, however short the lease is (LIV-12). A dialer that was itself stopped
    notices late, and tries for as long all the same."""
    return min(_LONGEST_GRACE_SECONDS, timers.lease_seconds - silence_seconds(timers))


_FIRST_ANSWER_OF_SEVERAL = 0.25
"""There is another server to turn to, and the Hello may be repeated at this one in the next round."""
_ANSWER_BESIDE_A_STANDBY = 0.5
"""A standby has just answered, so the network is well: a server that accepts no connection for so long is most likely
gone. One that has accepted may be far away."""


class Backoff:
    """Both waits double with each failure in a row. The first failure after a success costs no pause at all. With
    several addresses, a pause comes after a round of all of them, and both waits double with each round.

    A thousand workers that lose their scheduler together must not come back in step: the waits are stretched by up
    to a quarter, by bytes of the peer's own id, which are random and make a test repeatable.
    """

    __slots__ = (
        "_failures",
        "_longest_answer_seconds",
        "_longest_resume_seconds",
        "_peer_id",
        "_retry_seconds",
        "address_count",
        "reason",
    )

    def __init__(self, peer_id: PeerId, timers: Timers) -> None:
        self._peer_id = peer_id
        self._failures = 0
        #: servers that are dialed in turn
        self.address_count = 1
        #: for people: why the server has no session for us now, as it has said last; empty: it has not said (ERR-10)
        self.reason = ""
        #: the longest pause, as a standby has said last; zero: none has (HSK-41)
        self._retry_seconds = 0.0
        # To resume, several dials must fit into a lease, or the first failure would already be the end of the session.
        longest = min(_LONGEST_ANSWER_SECONDS, timers.lease_seconds / 4)
        self._longest_resume_seconds = max(longest, _SHORTEST_ANSWER_SECONDS)
        #: for a new session there is time: a server that is far away must be found however short the lease is
        self._longest_answer_seconds = max(longest, _FAR_ANSWER_SECONDS)

    def failed(self) -> None:
        self._failures += 1

    def succeeded(self) -> None:
        """A message of the session arrived: not the Welcome, for a session may break each time right after it."""
        self._failures = 0
        self._retry_seconds = 0.0
        self.reason = ""

    def heed(self, reject: Reject) -> bool:
        """Whether to dial again all the same: there is no room now, or another server may have some. (ERR-10)"""
        is_passing = reject.code == codes.OVERLOADED
        if not is_passing and not (reject.code == codes.SHUTTING_DOWN and self.address_count > 1):
            return False
        self.reason = readable(reject.text)
        is_told = reject.is_standby and 0.0 < reject.retry_seconds <= _LONGEST_ANSWER_SECONDS
        self._retry_seconds = reject.retry_seconds if is_told else 0.0
        return True

    def answer_seconds(self, *, is_resuming: bool = False, is_reached: bool = False) -> float:
        """`is_reached`: the server has accepted the connection."""
        longest = self._longest_resume_seconds if is_resuming else self._longest_answer_seconds
        first = min(_FIRST_ANSWER_SECONDS, longest)
        if self.address_count > 1:
            first = min(first, _FIRST_ANSWER_OF_SEVERAL)
            is_hurried = self._retry_seconds > 0.0 and not is_reached
            longest = min(longest, _ANSWER_BESIDE_A_STANDBY) if is_hurried else longest
        return self._stretched(min(first * 2.0 ** min(self._rounds(), 10), longest))

    def pause_seconds(self) -> float:
        if self._failures % self.address_count or not self._failures:
            return 0.0  # at the next address, or for the first time
        longest = self._retry_seconds or _LONGEST_PAUSE_SECONDS
        return self._stretched(min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self._rounds(), 10), longest))

    def _rounds(self) -> int:
        return self._failures // self.address_count

    def _stretched(self, seconds: float) -> float:
        jitter = self._peer_id[self._failures % len(self._peer_id)] / 255 if self._peer_id else 0.0
        return seconds * (1.0 + 0.25 * jitter)
