"""All tasks of a graph, a part at a time, for monitors that ask for them (MON-63, MON-64): a bounded query, nothing is
changed.

Tasks are named by their places in the order of submission. So that a place means one task from one question to the
next, the batches of a graph that is asked for stay listed here when their tasks have ended, without their arguments.
What is noted for each task, its place by its id, grows with the parts that are asked for. All of it is forgotten some
seconds after the last question.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

from scaler_protocol.ids import GraphId, PeerId, TaskId
from scaler_protocol.messages import GraphPart, GraphRequest
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.tables.tables import Tables
from scaler_scheduler.core.watching.shapes import CHUNKS_LIMIT, shape_of

PART_TASKS = 1_000
PART_STATES = 8_192
PART_NEEDS = 8_192
"""A part ends before the task whose dependencies would be more; its first task may have more."""
DESCRIBED_LIMIT = 65_536
"""Places have 16 bits."""
ORDERS_KEPT = 8
KEPT_SECONDS = 15.0

Key = tuple[PeerId, GraphId]
"""Display id of the client, and graph."""


class _Order:
    """`starts`: the place of the first task of each batch, and the number of all tasks."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked_at = 0.0
        self.chunks: dict[Chunk, None] = {}
        #: all but parts of those that are listed, which have the same tasks
        self.listed: list[Chunk] = []
        self._listed_ids: set[int] = set()
        self.starts = array("Q", (0,))
        self._places: dict[TaskId, int] = {}
        self._placed = 0

    def add(self, chunks: Iterable[Chunk]) -> None:
        for chunk in sorted((one for one in dict.fromkeys(chunks) if one not in self.chunks), key=_place):
            self.chunks[chunk] = None
            if id(chunk.whole_ids) not in self._listed_ids:
                self.listed.append(chunk)
                self._listed_ids.add(id(chunk.ids))
                self.starts.append(self.starts[-1] + len(chunk.ids))

    @property
    def described_count(self) -> int:
        return min(DESCRIBED_LIMIT, self.starts[-1])

    def runs(self, first: int, end: int) -> Iterator[tuple[Chunk, range]]:
        """Of each batch the tasks that have these places."""
        at = bisect_right(self.starts, first) - 1
        while first < end:
            start, stop = self.starts[at], min(end, self.starts[at + 1])
            yield self.listed[at], range(first - start, stop - start)
            first, at = stop, at + 1

    def places(self, end: int) -> dict[TaskId, int]:
        """Those of all tasks before `end` among them: a task depends on earlier ones."""
        while self._placed < len(self.listed) and self.starts[self._placed] < end:
            start = self.starts[self._placed]
            ids = self.listed[self._placed].ids[: DESCRIBED_LIMIT - start]
            self._places.update(zip(ids, range(start, start + len(ids)), strict=True))
            self._placed += 1
        return self._places


class GraphParts:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        #: the one that was asked for longest ago first
        self._orders: dict[Key, _Order] = {}
        self._last_number = 0

    def answer(self, question: GraphRequest, now: float) -> GraphPart:
        """Some of the tasks of a graph, of whichever client, for a monitor. (MON-63)"""
        key = question.client_id, question.graph_id
        order = self._order(key, now)
        if order is None:
            return GraphPart(question.request_id, question.first)
        end = self._end(order, question)
        runs = list(order.runs(question.first, end)) if question.first < end else []
        places = order.places(end) if question.wants_shape else None
        graph = shape_of(self._tables, key, order.chunks, order.starts[-1], runs, places)
        return GraphPart(question.request_id, question.first, order.number, graph, order.described_count)

    def watch(self, *, is_watched: bool) -> None:
        """About once a second: whether graphs are watched. What is not asked for any more is forgotten."""
        history = self._tables.history
        for key in [key for key, order in self._orders.items() if history.now - order.asked_at > KEPT_SECONDS]:
            del self._orders[key]
        if is_watched != (history.ended_graphs is not None):
            history.take_ended_graphs(is_watched=is_watched)

    def _order(self, key: Key, now: float) -> _Order | None:
        """With the batches that have come since the question before."""
        order = self._orders.pop(key, None) or _Order(self._last_number + 1)
        if order.starts[-1] < DESCRIBED_LIMIT:
            order.add(self._chunks(key))
        if not order.listed:
            return None
        order.asked_at = now
        self._last_number = max(self._last_number, order.number)
        self._orders[key] = order
        while len(self._orders) > ORDERS_KEPT:
            del self._orders[next(iter(self._orders))]
        return order

    def _chunks(self, key: Key) -> list[Chunk]:
        """Those that have ended of late stand first: they were submitted before others of the same moment, if these
        depend on them."""
        client_id, graph_id = key
        of, history = self._tables.display.of, self._tables.history
        found = [
            one
            for one in history.kept_graphs
            if one.header.graph_id == graph_id and of(one.client.peer_id) == client_id
        ]
        client = next((one for one in self._tables.clients.values() if of(one.peer_id) == client_id), None)
        if client is not None:
            found += [one for one in islice(client.chunks, CHUNKS_LIMIT) if one.header.graph_id == graph_id]
        return found

    @staticmethod
    def _end(order: _Order, question: GraphRequest) -> int:
        """The place behind the last task of the part."""
        first = question.first
        if not question.wants_shape:
            return min(order.described_count, first + PART_STATES)
        end, place, needs = min(order.described_count, first + PART_TASKS), first, 0
        for chunk, indexes in order.runs(first, end):
            for index in indexes:
                needs += chunk.dependency_count(index)
                if needs > PART_NEEDS and place > first:
                    return place
                place += 1
        return end


def _place(chunk: Chunk) -> tuple[bool, float]:
    """Parts of others, which workers have presented to a restarted scheduler, stand behind these."""
    return bool(chunk.whole_ids), chunk.submitted_at
