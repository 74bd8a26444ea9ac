"""The pending table: every unfinished task by its id, and the graphs they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scaler.client.core.records import Entry, Graph, Submission
from scaler.client.core.states import Move, State, after
from scaler_protocol.ids import ID_BYTES, GraphId, TaskId


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

    def split(self, entry: Entry, parts: Iterable[Submission]) -> list[Entry]:
        """Entries of the same unfinished tasks, in its place, each to be sent by itself."""
        entry.state = after(entry.state, Move.END)
        pieces = [Entry(part, State.QUEUED, len(part.ids)) for part in parts]
        for piece in pieces:
            self.add(piece)  # in its place: the order of the table is that of the first submission
        return pieces

    def add_graph(self, graph: Graph) -> None:
        assert graph.entries, "a graph of which nobody wants anything never ends"
        self.graphs[graph.graph_id] = graph
        graph.wanted_count = len(graph.entries)
        for entry in graph.entries:
            entry.graph = graph
            self.add(entry)

    def remove_graph(self, graph: Graph) -> None:
        """Its wanted tasks have all ended. Those that were sent a second time end a second time."""
        del self.graphs[graph.graph_id]
        graph.is_ended = True
        for entry in graph.entries:
            if entry.state is not State.ENDED:
                entry.state = after(entry.state, Move.END)

    def calls_in_order(self) -> Iterator[Entry]:
        """Every entry with unfinished tasks that belongs to no graph, each once."""
        last: Entry | None = None
        seen: set[int] = set()
        for entry in self.pending.values():
            if entry is last or entry.graph is not None or id(entry) in seen:
                continue
            last = entry
            seen.add(id(entry))
            yield entry

    def graph_with(self, task_id: TaskId) -> Graph | None:
        """The unfinished graph that has this task, wanted or not. Slow: only for what ends badly."""
        for graph in self.graphs.values():
            if any(_has_id(batch.message.ids, task_id) for batch in graph.batches):
                return graph
        return None


def _has_id(column: bytes, task_id: TaskId) -> bool:
    found = column.find(task_id)
    while found % ID_BYTES > 0:  # two neighbours that look like it; -1 % 16 is 15
        if found < 0:
            return False
        found = column.find(task_id, found + 1)
    return True
