"""The pending table: every unfinished task by its id, and the graphs they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scaler.client.core.records import Entry, Graph
from scaler.client.core.states import Move, State, after
from scaler_protocol.ids import GraphId, TaskId


class Table:
    def __init__(self) -> None:
        #: all and only the unfinished tasks; in the order of submission
        self.pending: dict[TaskId, Entry] = {}
        #: all and only the graphs with a wanted task that is pending
        self.graphs: dict[GraphId, Graph] = {}

    def add(self, entry: Entry) -> None:
        ids = entry.submission.ids
        if len(ids) == 1:
            self.pending[ids[0]] = entry
        else:
            self.pending.update(dict.fromkeys(ids, entry))

    def add_graph(self, graph: Graph) -> None:
        assert graph.entries and graph.wanted_count, "a graph of which nobody wants anything never ends"
        self.graphs[graph.graph_id] = graph
        for entry in graph.entries:
            entry.graph = graph
            self.add(entry)

    def remove_graph(self, graph: Graph) -> list[tuple[TaskId, State]]:
        """Forget a graph whose wanted tasks have all ended. Returns the tasks that nobody told us about."""
        del self.graphs[graph.graph_id]
        graph.is_ended = True
        remaining = []
        for entry in graph.entries:
            for task_id in entry.submission.ids:
                if self.pending.pop(task_id, None) is not None:
                    remaining.append((task_id, entry.state))
                    entry.unfinished_count = 0
                    entry.state = after(entry.state, Move.END)
        return remaining

    def in_order(self) -> Iterator[Entry]:
        """Every entry that must be sent again: those with unfinished tasks, and all of the graphs they belong to."""
        seen_graphs: set[GraphId] = set()
        last: Entry | None = None
        seen: set[int] = set()
        for entry in self.pending.values():
            if entry is last:
                continue
            last = entry
            if entry.graph is None:
                if id(entry) not in seen:
                    seen.add(id(entry))
                    yield entry
            elif entry.graph.graph_id not in seen_graphs:
                seen_graphs.add(entry.graph.graph_id)
                yield from entry.graph.entries

    def with_their_graphs(self, ids: Iterable[TaskId]) -> Iterator[TaskId]:
        """The pending ones among these, each once; of a task of a graph, all pending tasks of the graph. (CAN-6)"""
        done: set[TaskId] = set()
        for task_id in ids:
            entry = self.pending.get(task_id)
            if entry is None or task_id in done:
                continue
            related = [task_id]
            if entry.graph is not None:
                every = [one for node in entry.graph.entries for one in node.submission.ids]
                related = [one for one in every if one in self.pending and one not in done]
            done.update(related)
            yield from related
