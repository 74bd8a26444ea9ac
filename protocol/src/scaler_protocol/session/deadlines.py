"""Which session is to be looked at next: a heap whose entries may be early, so hearing from a peer costs nothing."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaler_protocol.session.server_session import ServerSession


class Deadlines:
    """Every living session has an entry no later than its `checks_at()`. When an entry comes up and the session was
    heard meanwhile, it goes back with its new time: one heap operation per session and heartbeat, not per message."""

    __slots__ = ("_earliest", "_heap", "_order", "next_at")

    def __init__(self) -> None:
        #: a session whose check was put forward, when it lost its socket, has a later entry too, which means nothing
        self._heap: list[tuple[float, int, ServerSession]] = []
        #: the one that counts
        self._earliest: dict[ServerSession, float] = {}
        self._order = 0  # ties are broken by age: a session itself has no order
        #: when `take_due` is to be called: the first entry may be of a session that has ended
        self.next_at = math.inf

    def watch(self, session: ServerSession) -> None:
        at = session.checks_at()
        if at < self._earliest.get(session, math.inf):
            self._earliest[session] = at
            self._order += 1
            heapq.heappush(self._heap, (at, self._order, session))
            self.next_at = self._heap[0][0]

    def take_due(self, now: float) -> list[ServerSession]:
        """Sessions that were silent until their check. They are watched no longer."""
        due: list[ServerSession] = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, _, session = heapq.heappop(heap)
            if self._earliest.get(session) != at:
                continue
            del self._earliest[session]
            if session.is_over:
                continue
            if session.checks_at() > now:
                self.watch(session)
            else:
                due.append(session)
        self.next_at = heap[0][0] if heap else math.inf
        return due

    def watched(self) -> list[tuple[float, ServerSession]]:
        """For the invariants only."""
        return [(at, session) for at, _, session in self._heap]
