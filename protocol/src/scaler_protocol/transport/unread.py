"""What libzmq has received and a server has not read: bounded while the server is behind (LIM-34).

libzmq receives in a thread of its own, without a bound, and keeps what has come by a connection that has closed. The
one sure sign is a turn that finds nothing to read: libzmq holds nothing then but messages that are not whole.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from scaler_protocol.ids import RoutingId
from scaler_protocol.transport.door import Door
from scaler_protocol.transport.tcp import hold, let_go

#: What connections that have closed since a server last found nothing to read may have left in libzmq: each counts with
#: the first number, more than can come before it is counted. Beyond the second number no further connections are
#: accepted until half of it has been read, or for so long; so newcomers wait for little more than that.
CLOSED_BYTES = 64 * 1024
OWED_BYTES = 1024 * 1024
SHUT_SECONDS = 1.0
#: What a server that is behind has not read of a peer with a session; beyond it the system holds the peer back, for so
#: long at most, because our count of what was read is a little too low.
UNREAD_BYTES = 16 * 1024 * 1024
HOLD_SECONDS = 0.5


class Unread:
    def __init__(self, at_peer: Callable[[int, Callable[[socket.socket], None]], None]) -> None:
        """Bounds nothing yet. `at_peer`: does this with the connection that has this descriptor, if it is a peer's
        still."""
        self._at_peer = at_peer
        self.door = Door()
        #: the last turn of the server has left something to read
        self.is_behind = False
        #: bytes of each peer since then; None: the server is not behind
        self.reads: dict[RoutingId, int] | None = None
        #: what had come by connections when they were first measured since then, or were let go
        self._bases: dict[int, int] = {}
        #: those that are held back, and until when
        self._held: dict[int, float] = {}
        self._owed_bytes = 0
        self._read_bytes = 0
        self._opens_at = 0.0

    def fall_behind(self, now: float, read_bytes: int) -> None:
        """Notes that a turn has left something to read. What libzmq holds of connections that are closed can only be
        read, so no further ones are accepted; those that are open are held back. `read_bytes`: in all."""
        if not self.is_behind:
            self.is_behind, self.reads = True, {}
        else:
            self._owed_bytes = max(0, self._owed_bytes - (read_bytes - self._read_bytes))
        self._read_bytes = read_bytes
        if self._owed_bytes > OWED_BYTES and not self.door.is_shut:
            self.door.shut()
            self._opens_at = now + SHUT_SECONDS
        elif self.door.is_shut and (self._owed_bytes < OWED_BYTES // 2 or now >= self._opens_at):
            self.door.open()  # of those that wait, some are accepted until the next turn ends
        for descriptor in [one for one, until in self._held.items() if now >= until]:
            self._let_go(descriptor)

    def catch_up(self) -> None:
        """Ends it all: a turn has found nothing left to read."""
        self.is_behind, self.reads = False, None
        self._owed_bytes = 0
        self.door.open()
        for descriptor in list(self._held):
            self._let_go(descriptor)
        self._bases.clear()

    def closed(self) -> None:
        """Counts a connection that has closed, and may have left something."""
        self._owed_bytes += CLOSED_BYTES

    def weigh(self, descriptor: int, routing_id: RoutingId, received: int, now: float) -> None:
        """Holds the peer back if too much is unread: so much has ever come by its connection."""
        if self.reads is None:
            return
        read = self.reads.get(routing_id, 0)
        base = self._bases.setdefault(descriptor, received - read)
        if received - base - read > UNREAD_BYTES and descriptor not in self._held:
            self._held[descriptor] = now + HOLD_SECONDS
            self._at_peer(descriptor, hold)

    def forget(self, descriptor: int) -> None:
        """Forgets a connection that is no peer's any more."""
        self._bases.pop(descriptor, None)
        self._held.pop(descriptor, None)

    def _let_go(self, descriptor: int) -> None:
        self.forget(descriptor)
        self._at_peer(descriptor, let_go)
