"""How much of the messages of peers waits to be worked off, and which peers are held back for it (SES-33, LIM-13).

What is counted are the messages whose work is not over: those in work and those behind them. A peer needs no more than
the message in work and the next few, or the scheduler would wait for the network between two of them. What a peer
sends beyond stays with the peer.
"""

from __future__ import annotations

from collections.abc import Mapping

from scaler_protocol.ids import PeerId
from scaler_protocol.session.gate import Gate

PEER_BYTES = 8 * 1024 * 1024
"""Of one peer. One message more is always taken, however large."""

TOTAL_BYTES = 32 * 1024 * 1024
"""Of all peers together. Beyond it a peer that has something here sends nothing more, and the others what is small."""

SMALL_BYTES = 16 * 1024
"""A message that is worked off at once, most likely."""


class Pressure(Gate):
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
        self.is_strained = self.total > self.peer_bytes

    def drop(self, peer_id: PeerId, size: int) -> None:
        left = self._held[peer_id] - size
        if left:
            self._held[peer_id] = left
        else:
            del self._held[peer_id]
        self.total -= size
        self.is_strained = self.total > self.peer_bytes

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
        assert self.is_strained == (self.total > self.peer_bytes)
