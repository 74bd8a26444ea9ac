"""How a role holds a peer back that sends more than the role works off (SES-33, SES-34).

A server cannot leave one peer's messages in its socket and read those of the others. What it must not take yet it
treats as lost on the way: the dialer keeps every message that is not acknowledged, and sends it again when it resumes.
So nothing is lost, the dialer waits, and what the server keeps is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping

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
