"""How long a dialer waits: for an answer to its Hello, and between failures (HSK-20)."""

from __future__ import annotations

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Timers

_FIRST_ANSWER_SECONDS = 1.0
_LONGEST_ANSWER_SECONDS = 8.0
_SHORTEST_ANSWER_SECONDS = 0.25
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
#: A server that is slow to answer is not gone: no silence shorter than this makes us redial.
_SHORTEST_SILENCE_SECONDS = 0.5


def silence_seconds(timers: Timers) -> float:
    """For how long a server may be silent in a session before the dialer tries another socket."""
    return min(max(3 * timers.heartbeat_seconds, _SHORTEST_SILENCE_SECONDS), 0.75 * timers.lease_seconds)


class Backoff:
    """Both waits double with each failure in a row. The first failure after a success costs no pause at all.

    A thousand workers that lose their scheduler together must not come back in step: the waits are stretched by up
    to a quarter, by bytes of the peer's own id, which are random and make a test repeatable.
    """

    __slots__ = ("_failures", "_first_answer_seconds", "_longest_answer_seconds", "_peer_id", "reason")

    def __init__(self, peer_id: PeerId, timers: Timers) -> None:
        self._peer_id = peer_id
        self._failures = 0
        #: for people: why the server has no session for us now, as it has said last; empty: it has not said (ERR-10)
        self.reason = ""
        # Several dials must fit into a lease, or the first failure would already be the end of the session.
        longest = min(_LONGEST_ANSWER_SECONDS, timers.lease_seconds / 4)
        self._longest_answer_seconds = max(longest, _SHORTEST_ANSWER_SECONDS)
        self._first_answer_seconds = min(_FIRST_ANSWER_SECONDS, self._longest_answer_seconds)

    def failed(self) -> None:
        self._failures += 1

    def succeeded(self) -> None:
        """A message of the session arrived: not the Welcome, for a session may break each time right after it."""
        self._failures = 0
        self.reason = ""

    def answer_seconds(self) -> float:
        seconds = self._first_answer_seconds * 2.0 ** min(self._failures, 10)
        return self._stretched(min(seconds, self._longest_answer_seconds))

    def pause_seconds(self) -> float:
        if self._failures == 0:
            return 0.0
        return self._stretched(min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 10), _LONGEST_PAUSE_SECONDS))

    def _stretched(self, seconds: float) -> float:
        jitter = self._peer_id[self._failures % len(self._peer_id)] / 255 if self._peer_id else 0.0
        return seconds * (1.0 + 0.25 * jitter)
