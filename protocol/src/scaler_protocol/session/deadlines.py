"""Which session is to be looked at next: a heap whose entries may be early, so hearing from a peer costs nothing."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scaler_protocol.session.server_session import ServerSession


class Deadlines:
    """Every living session has an entry no later than its `checks_at()`. When an entry comes up and the session was
    heard meanwhile, it goes back with its new time: one heap operation per session and heartbeat, not per message."""

    __slots__ = ("_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, ServerSession]] = []
        self._order = 0  # ties are broken by age: a session itself has no order

    def watch(self, session: ServerSession) -> None:
        self._order += 1
        heapq.heappush(self._heap, (session.checks_at(), self._order, session))

    def take_due(self, now: float) -> list[ServerSession]:
        """Sessions that were silent until their check. They are watched no longer."""
        heap = self._heap
        if not heap or heap[0][0] > now:
            return []
        due: dict[ServerSession, None] = {}
        while heap and heap[0][0] <= now:
            session = heapq.heappop(heap)[2]
            if session.is_over:
                continue
            if session.checks_at() > now:
                self.watch(session)
            else:
                due[session] = None
        return list(due)

    def next_deadline(self) -> float | None:
        heap = self._heap
        while heap and heap[0][2].is_over:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def watched(self) -> list[tuple[float, ServerSession]]:
        """For the invariants only."""
        return [(at, session) for at, _, session in self._heap]
