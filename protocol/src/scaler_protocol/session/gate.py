"""How a role holds a peer back that sends more than the role works off (SES-33, SES-34).

A server cannot leave one peer's messages in its socket and read those of the others. What it must not take yet it
treats as lost on the way: the dialer keeps every message that is not acknowledged, and sends it again when it resumes.
So nothing is lost, the dialer waits, and what the server keeps is bounded.

What is not read is bounded in the same way. A request is short, and a server answers many of them without any work that
would slow their sender down. What was answered and is not acknowledged is kept. So answers are charged to the peer that
has caused them, and a peer whose charge is too high sends nothing more until it has acknowledged some. (SES-35)

A charge is an upper bound: all answers since the last look, and no more than what is kept for the peer. That is looked
up only when the charge would hold the peer back. A peer that reads has acknowledged by then, so it goes on.

A peer that was held back must be able to read, or it could never acknowledge. So a resume does not wait for these
charges: what the peer lacks follows the Welcome, and the answer to its next message tells whether that was enough.
(SES-36)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scaler_protocol.ids import PeerId

PEER_BYTES = 8 * 1024 * 1024
"""Of one peer. One message more is always taken, however large."""

TOTAL_BYTES = 16 * 1024 * 1024
"""Of all peers together. Beyond it a peer that has something here sends nothing more, and the others what is small."""

SMALL_BYTES = 64 * 1024
"""A message that is worked off at once, most likely."""


class Gate:
    """Open for all peers and all messages. A role that keeps messages for later has one of its own."""

    __slots__ = ("is_strained",)

    def __init__(self) -> None:
        #: some peer may be held back. It is looked at for every message; the methods only while it is true
        self.is_strained = False

    def admits(self, peer_id: PeerId, size: int) -> bool:
        """Whether the next message of this peer, of so many bytes, is taken now."""
        return True

    def is_relieved(self, peer_id: PeerId) -> bool:
        """Whether a peer that was held back may go on."""
        return True


class Pressure(Gate):
    """Shut for a peer of which too many messages wait to be worked off: those in work and those behind them. (LIM-13)

    A peer needs no more than the message in work and the next few, or the role would wait for the network between two
    of them. What a peer sends beyond that stays with the peer.
    """

    __slots__ = ("_held", "peer_bytes", "total", "total_bytes")

    def __init__(self, peer_bytes: int = PEER_BYTES, total_bytes: int = TOTAL_BYTES) -> None:
        super().__init__()
        #: simulations and tests take smaller ones
        self.peer_bytes = peer_bytes
        self.total_bytes = total_bytes
        #: of each peer: positive. A peer that has come back is charged with what its former session has left
        self._held: dict[PeerId, int] = {}
        #: the sum of these
        self.total = 0

    def hold(self, peer_id: PeerId, size: int) -> None:
        self._held[peer_id] = self._held.get(peer_id, 0) + size
        self.total += size
        self._set_strained()

    def drop(self, peer_id: PeerId, size: int) -> None:
        left = self._held[peer_id] - size
        if left:
            self._held[peer_id] = left
        else:
            del self._held[peer_id]
        self.total -= size
        self._set_strained()

    def admits(self, peer_id: PeerId, size: int) -> bool:
        own = self._held.get(peer_id, 0)
        if self.total > self.total_bytes:
            return not own and size <= SMALL_BYTES
        return own <= self.peer_bytes

    def is_relieved(self, peer_id: PeerId) -> bool:
        """Well below the bound, so that a peer does not come back for each single message."""
        return self.total <= self.total_bytes and self._held.get(peer_id, 0) <= self.peer_bytes // 4

    def check(self, held: Mapping[PeerId, int]) -> None:
        """`held`: the bytes of each peer, counted again."""
        assert self._held == held, "each peer is charged with what it has here"
        assert self.total == sum(held.values()), "total is the sum"
        assert self.is_strained == self._is_strained()

    def _is_strained(self) -> bool:
        return self.total > self.peer_bytes

    def _set_strained(self) -> None:
        self.is_strained = self._is_strained()


class Unread:
    """Bytes that peers were sent and may not have read, of one kind."""

    __slots__ = ("_by_peer", "_kept", "all_most_bytes", "least_bytes", "most_bytes", "total")

    def __init__(self, kept: Callable[[PeerId], int], most_bytes: int, all_most_bytes: int, least_bytes: int) -> None:
        """`kept`: bytes of any kind that the session keeps for a peer. `most_bytes` of one peer and `all_most_bytes` of
        all peers together are enough; beyond the second, of one peer `least_bytes` are."""
        self._kept = kept
        #: simulations and tests take smaller ones
        self.most_bytes = most_bytes
        self.all_most_bytes = all_most_bytes
        self.least_bytes = least_bytes
        #: of each peer: positive, the one that was looked at last at the end
        self._by_peer: dict[PeerId, int] = {}
        #: the sum of these
        self.total = 0

    def add(self, peer_id: PeerId, size: int) -> None:
        self._by_peer[peer_id] = self._by_peer.get(peer_id, 0) + size
        self.total += size

    def forget(self, peer_id: PeerId) -> None:
        """Its session is over, and with it what was kept for it."""
        self.total -= self._by_peer.pop(peer_id, 0)

    @property
    def is_much(self) -> bool:
        """Some peer may have too much."""
        return self.total > self.most_bytes or self.total > self.all_most_bytes

    def is_too_much(self, peer_id: PeerId) -> bool:
        """This peer has too much."""
        if not self.is_much:
            return False
        self._look_at(next(iter(self._by_peer)))  # also peers that send nothing more are looked at in time
        return self._by_peer.get(peer_id, 0) > self._most() and self._look_at(peer_id) > self._most()

    def check(self) -> None:
        assert all(size > 0 for size in self._by_peer.values())
        assert self.total == sum(self._by_peer.values()), "total is the sum"

    def _most(self) -> int:
        return min(self.least_bytes, self.most_bytes) if self.total > self.all_most_bytes else self.most_bytes

    def _look_at(self, peer_id: PeerId) -> int:
        before = self._by_peer.pop(peer_id, 0)
        size = min(before, self._kept(peer_id))
        self.total += size - before
        if size:
            self._by_peer[peer_id] = size
        return size


class Intake(Pressure):
    """Shut also for a peer that has caused too many answers and has not read them. (SES-35)"""

    __slots__ = ("answers",)

    def __init__(self, answers: Unread) -> None:
        super().__init__()
        self.answers = answers

    def answered(self, peer_id: PeerId, size: int) -> None:
        """This peer is sent so many bytes, for which its request was all the work."""
        self.answers.add(peer_id, size)
        self._set_strained()

    def forget(self, peer_id: PeerId) -> None:
        self.answers.forget(peer_id)
        self._set_strained()

    def admits(self, peer_id: PeerId, size: int) -> bool:
        if self.answers.is_much:
            is_unread = self.answers.is_too_much(peer_id)
            self._set_strained()
            if is_unread:
                return False
        return super().admits(peer_id, size)

    def check(self, held: Mapping[PeerId, int]) -> None:
        super().check(held)
        self.answers.check()

    def _is_strained(self) -> bool:
        return super()._is_strained() or self.answers.is_much
