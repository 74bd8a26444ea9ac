"""Whose tasks leave next: of those with equally urgent tasks the client that has the next turn (SCH-91), and of lines
the ones that go first (SCH-9, SCH-10)."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count, groupby, repeat
from operator import attrgetter
from typing import TYPE_CHECKING

from scaler_scheduler.core.entities.chunk import Chunk, Indexes

if TYPE_CHECKING:
    from scaler_scheduler.core.entities.shares import UserShare
    from scaler_scheduler.core.tables.ready import ReadyClass
    from scaler_scheduler.core.tables.tables import Client

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


_DEPTH, _USER, _URGENCY = attrgetter("key.negative_depth"), attrgetter("key.user"), attrgetter("urgency")
_IN_ORDER = attrgetter("key.negative_depth", "key.user", "key.negative_priority", "number")


def _by_priority(group: Iterable[ReadyClass]) -> Iterator[ReadyClass]:
    """Yields those of one user and one depth, of equally urgent ones first that of the program which had the least."""
    for _, equals in groupby(group, key=_URGENCY):
        # Those before have taken places meanwhile.
        left = [ready for ready in equals if ready.index.heap or ready.may_borrow]
        yield from sorted(left, key=lambda ready: ready.standing) if len(left) > 1 else left


def _by_user(groups: Iterable[list[ReadyClass]]) -> Iterator[tuple[ReadyClass, int]]:
    """Yields those of several users and one depth: the user that had the least has a turn, as long as there are places.
    What a user has had changes in its own turn only, so a heap tells who is next."""
    heap: list[tuple[float, int, UserShare, ReadyClass, Iterator[ReadyClass]]] = []
    for group in groups:
        lines = _by_priority(group)
        first = next(lines, None)
        if first is not None:
            heap.append((first.user.standing, first.number, first.user, first, lines))
    heapq.heapify(heap)
    while heap:
        _, number, user, ready, lines = heap[0]
        before = ready.count
        yield ready, len(heap)
        if ready.count in (0, before):  # nothing is left, or found a place
            following = next(lines, None)
            if following is None:
                heapq.heappop(heap)
                continue
            ready = following
        heapq.heapreplace(heap, (user.standing, number, user, ready, lines))


def in_order(lines: list[ReadyClass]) -> Iterator[tuple[ReadyClass, int]]:
    """Yields them in their order, each with the number of users that wait beside it. (SCH-9, SCH-10, SCH-91)"""
    lines.sort(key=_IN_ORDER)
    for _, equals in groupby(lines, key=_DEPTH):
        of_users = [list(group) for _, group in groupby(equals, key=_USER)]
        if len(of_users) == 1:
            yield from zip(_by_priority(*of_users), repeat(1))
        else:
            yield from _by_user(of_users)
