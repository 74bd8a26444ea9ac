"""Whose tasks leave next: of those with equally urgent tasks the client that has the next turn (SCH-91), and of lines
the ones that go first (SCH-9, SCH-10)."""

from __future__ import annotations

import heapq
import math
from collections import deque
from itertools import count

from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.columns import Indexes

Run = range | deque[int]

PORTION_TASKS = 32
"""One turn of a client, if others wait as well and there is room for so many: short tasks leave by the dozen."""
RANK_SECONDS = 10e-6
"""Clients are ranked again after this time for each of them, so that ranking takes a few hundredths of the time."""


class Turn:
    """The queued tasks of one client in one class. `count` is exact; runs may still hold indexes that were dropped."""

    __slots__ = ("count", "order", "runs")

    def __init__(self) -> None:
        self.order = 0  #: rises with each turn: of programs that had the same, the one that waits longest comes first
        self.runs: deque[tuple[Chunk, Run]] = deque()
        self.count = 0


class Line:
    """The clients with something that can be taken, and which of them has the next turn."""

    __slots__ = ("_heap", "_orders", "_rank_at", "turns")

    def __init__(self) -> None:
        self.turns: dict[Client, Turn] = {}
        #: (standing, order, its number, client); as long as several wait. May name clients that have left
        self._heap: list[tuple[float, int, int, Client]] = []
        self._orders = count()
        self._rank_at = -math.inf

    def joined(self, client: Client, turn: Turn) -> None:
        """It has just been added to `turns`."""
        client.share.comes()
        turn.order = next(self._orders)
        if len(self._heap) > 2 * len(self.turns):
            self._heap.clear()  # all are ranked when there is a choice again
        elif self._heap:
            heapq.heappush(self._heap, (client.share.standing, turn.order, client.number, client))

    def next(self) -> Client:
        """Of clients of one program in turn; there must be one."""
        if len(self.turns) == 1:
            return next(iter(self.turns))
        heap = self._heap
        while True:
            if len(heap) < len(self.turns) or heap[0][3].share.shares.now >= self._rank_at:
                self._rank()
            standing, order, number, client = heap[0]
            if client not in self.turns:
                heapq.heappop(heap)
            elif (present := client.share.standing) > standing:
                heapq.heapreplace(heap, (present, order, number, client))
            else:
                self.turns[client].order = order = next(self._orders)
                heapq.heapreplace(heap, (standing, order, number, client))
                return client

    def _rank(self) -> None:
        """What is held falls as well as rises, so a standing in the heap is right for a moment only."""
        self._heap[:] = [
            (client.share.standing, turn.order, client.number, client) for client, turn in self.turns.items()
        ]
        heapq.heapify(self._heap)
        self._rank_at = self._heap[0][3].share.shares.now + RANK_SECONDS * len(self.turns)


def take(runs: deque[tuple[Chunk, Run]], limit: int) -> tuple[Chunk, Indexes] | None:
    """Takes of one chunk what has waited, and what follows in the same message: else each would make the next
    smaller."""
    chunk, _ = runs[0]
    taken = take_run(runs, limit)
    if len(taken) < limit and runs and runs[0][0] is chunk:
        taken = list(taken)
        while len(taken) < limit and runs and runs[0][0] is chunk:
            taken += take_run(runs, limit - len(taken))
    return (chunk, taken) if taken else None


def take_run(runs: deque[tuple[Chunk, Run]], limit: int) -> Indexes:
    """Takes of the first run. Returns nothing if only what was dropped is left in it."""
    chunk, run = runs[0]
    if not chunk.unfinished:
        runs.popleft()
        return []
    if isinstance(run, range) and not chunk.dropped:
        if len(run) <= limit:
            runs.popleft()
        else:
            runs[0] = (chunk, run[limit:])
        return run[:limit]
    if isinstance(run, range):
        run = deque(run)
        runs[0] = (chunk, run)
    if not chunk.dropped:
        taken = [run.popleft() for _ in range(min(limit, len(run)))]
    else:
        taken = []
        while run and len(taken) < limit:
            index = run.popleft()
            if index not in chunk.dropped:
                taken.append(index)
    if not run:
        runs.popleft()
    return taken
