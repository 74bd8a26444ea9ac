"""When each of many things is due. Taking one out is a mark; the heap is cleaned when marks outnumber the rest."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_SLACK = 64


class Deadlines(Generic[Key]):
    def __init__(self) -> None:
        self.due_at: dict[Key, float] = {}
        #: (due_at, counter, key) of every key in due_at, and leftovers of earlier ones; at most twice as many
        self._heap: list[tuple[float, int, Key]] = []
        self._counter = 0

    def __len__(self) -> int:
        return len(self.due_at)

    def set(self, key: Key, due_at: float) -> None:
        self.due_at[key] = due_at
        # The counter keeps equal instants in the order of their coming, and keys from being compared.
        self._counter += 1
        heapq.heappush(self._heap, (due_at, self._counter, key))
        self._clean()

    def remove(self, key: Key) -> None:
        del self.due_at[key]
        self._clean()

    def next(self) -> float | None:
        heap = self._heap
        while heap and self.due_at.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def first_due(self, now: float) -> Key | None:
        """The earliest of what is due; the caller acts on it and takes it out."""
        earliest = self.next()
        return self._heap[0][2] if earliest is not None and earliest <= now else None

    def check(self) -> None:
        entries = {(due_at, key) for due_at, _, key in self._heap}
        assert all((due_at, key) in entries for key, due_at in self.due_at.items()), "every deadline is in the heap"
        assert len(self._heap) <= 2 * len(self.due_at) + _SLACK, "leftovers are bounded"

    def _clean(self) -> None:
        if len(self._heap) > 2 * len(self.due_at) + _SLACK:
            self._heap = [entry for entry in self._heap if self.due_at.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
