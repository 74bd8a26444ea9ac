"""The pending table: every unfinished task by its id, and the graphs they belong to."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import repeat
from operator import and_, rshift

from scaler.client.core.records import Entry, Graph, Submission
from scaler.client.core.states import Move, State, after
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId, TaskId

_BLOCK_BITS = 6
_RUN_BYTES = ID_BYTES << _BLOCK_BITS
"""The size of a run: the ids of 64 tasks. A search looks through the runs of one block, which belong to at most one
graph for each number."""
_SOURCE = (1 << 32) - 1
"""Bits of the first half of an id that all ids of a client have in common."""

_Block = tuple[int, int]
"""The source of ids, and which 64 numbers of it."""


class Places:
    """Where the tasks of graphs are: `(column of ids, offset of a run in it, graph)` for each block. Finds tasks that
    stand in no other table, because they are not wanted.

    A program may have a million such tasks, so there is no entry for each. A client numbers its tasks one after another
    (`ids.task_id_source`): 64 neighbours in a batch have numbers of one or two blocks of 64, and are noted for these
    blocks together. Other ids are found as well, and take more memory.
    """

    def __init__(self) -> None:
        self._blocks: dict[_Block, list[tuple[bytes, int, Graph]]] = {}

    def add(self, graph: Graph) -> None:
        for block, column, begin in _runs_of(graph):
            self._blocks.setdefault(block, []).append((column, begin, graph))

    def remove(self, graph: Graph) -> None:
        for block, _, _ in _runs_of(graph):
            left = [run for run in self._blocks.pop(block, ()) if run[2] is not graph]
            if left:
                self._blocks[block] = left

    def graph_with(self, task_id: TaskId) -> Graph | None:
        """Returns the graph that has this task, or None. Costs the same however many graphs and tasks there are."""
        (block,) = _blocks_of(task_id)
        for column, begin, graph in self._blocks.get(block, ()):
            if _has_id(column, task_id, begin):
                return graph
        return None


class Table:
    def __init__(self) -> None:
        #: all and only the unfinished tasks; in the order of submission
        self.pending: dict[TaskId, Entry] = {}
        #: all and only the graphs with a wanted task that is pending
        self.graphs: dict[GraphId, Graph] = {}
        #: of these
        self.places = Places()
        #: what the present event has taken out, until its actions are performed; parallel
        self.taken_ids: list[TaskId] = []
        self.taken: list[Entry | None] = []
        #: the graphs that the present event has ended, until then
        self._ended: list[Graph] = []

    def add(self, entry: Entry) -> None:
        ids = entry.submission.ids
        if len(ids) == 1:
            self.pending[ids[0]] = entry
        else:
            self.pending.update(dict.fromkeys(ids, entry))

    def ids_of(self, entry: Entry) -> set[TaskId]:
        """Its unfinished tasks. One that has ended may be pending again in another entry: its value is lost. (CLI-8)"""
        return {task_id for task_id in entry.submission.ids if self.pending.get(task_id) is entry}

    def split(self, entry: Entry, parts: Iterable[Submission]) -> list[Entry]:
        """Entries of the same unfinished tasks, in its place, each to be sent by itself."""
        pieces = [Entry(part, State.QUEUED, len(part.ids)) for part in parts]
        places = {task_id: piece for piece in pieces for task_id in piece.submission.ids}
        self.pending.update(places)  # all in one step of the interpreter, and in the order they had
        entry.state = after(entry.state, Move.END)
        return pieces

    def take(self, ids: Sequence[TaskId]) -> list[Entry | None]:
        """Take these tasks out; None for each that is not pending. Each step is one of the interpreter, so whenever an
        interrupt cuts this off, every task is in `pending` or in `taken`."""
        begin = len(self.taken)
        self.taken_ids.extend(ids)
        self.taken.extend(map(self.pending.pop, ids, repeat(None)))
        return self.taken[begin:]

    def put_back(self, task_id: TaskId, entry: Entry) -> None:
        """It was taken out, and has not ended after all: it runs again."""
        self.pending[task_id] = entry

    def forget_taken(self) -> None:
        self.taken_ids.clear()
        self.taken.clear()
        if self._ended:
            self._untie()

    def _untie(self) -> None:
        """Graphs and entries refer to each other, and entries to the futures of the program. A future that the program
        drops has to die at once, because its value stays in the storage until then, and a cyclic collection may be
        minutes away."""
        for graph in self._ended:
            graph.entries = ()
        self._ended.clear()

    def add_graph(self, graph: Graph) -> None:
        assert graph.entries, "a graph of which no result is wanted never ends"
        self.graphs[graph.graph_id] = graph
        self.places.add(graph)
        graph.wanted_count = len(graph.entries)
        for entry in graph.entries:
            entry.graph = graph
            self.add(entry)

    def remove_graph(self, graph: Graph) -> None:
        """Its wanted tasks have all ended. Those that were sent a second time end a second time."""
        del self.graphs[graph.graph_id]
        self.places.remove(graph)
        self._ended.append(graph)
        graph.is_ended = True
        graph.kept = ()
        for entry in graph.entries:
            if entry.state is not State.ENDED:
                entry.state = after(entry.state, Move.END)

    def inherit(self, broken: Table, has_ended: Callable[[TaskId, Entry], bool]) -> None:
        """Everything unfinished of a table whose owner was cut off in the middle of an event, as if it were new."""
        unfinished = broken.untold()
        calls: dict[int, Entry] = {}
        graphs: dict[int, Graph] = {}
        for task_id in [task_id for task_id, entry in unfinished.items() if has_ended(task_id, entry)]:
            del unfinished[task_id]
        for task_id, entry in unfinished.items():
            if entry.graph is not None:
                graphs[id(entry.graph)] = entry.graph
                continue
            call = calls.setdefault(id(entry), Entry(entry.submission, State.QUEUED, 0))
            call.unfinished_count += 1
            self.pending[task_id] = call
        for graph in graphs.values():
            self._inherit_graph(graph, unfinished)
            self._ended.append(graph)

    def untold(self) -> dict[TaskId, Entry]:
        """What is pending, and what the present event has taken out."""
        taken = zip(self.taken_ids, self.taken, strict=False)  # an interrupt may have left one shorter
        return self.pending | {task_id: entry for task_id, entry in taken if entry is not None}

    def needless(self, broken: Table, posted_again: Container[TaskId]) -> tuple[ObjectId, ...]:
        """What tasks of that table took, of which nothing was inherited: they have ended, and whether this was released
        is unknown. (OWN-2, OWN-10)"""
        found: dict[ObjectId, None] = {}
        for task_id, entry in broken.untold().items():
            graph, submission = entry.graph, entry.submission
            if task_id in posted_again:
                continue
            if graph is None and not any(one in self.pending or one in posted_again for one in submission.ids):
                found.update(dict.fromkeys(submission.objects))
            elif graph is not None and graph.graph_id not in self.graphs:
                found.update(dict.fromkeys((*graph.objects, *graph.unneeded, *graph.claimed)))
        return tuple(found)

    def _inherit_graph(self, old: Graph, unfinished: dict[TaskId, Entry]) -> None:
        """All of its nodes: a successor has none of their results."""
        graph = Graph(
            old.graph_id, old.batches, objects=old.objects, kept=old.kept, inputs=old.inputs, known=old.known,
            claimed=old.claimed, unneeded=old.unneeded,
        )  # fmt: skip
        graph.entries = tuple(Entry(entry.submission, State.QUEUED, 0, graph) for entry in old.entries)
        self.graphs[graph.graph_id] = graph
        self.places.add(graph)
        for entry in graph.entries:
            (task_id,) = entry.submission.ids
            if task_id in unfinished:
                entry.unfinished_count = 1
                graph.wanted_count += 1
                self.pending[task_id] = entry

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


def _runs_of(graph: Graph) -> Iterator[tuple[_Block, bytes, int]]:
    for batch in graph.batches:
        column = batch.message.ids
        for begin in range(0, len(column), _RUN_BYTES):
            for block in _blocks_of(column[begin : begin + _RUN_BYTES]):
                yield block, column, begin


def _blocks_of(column: bytes) -> set[_Block]:
    # In loops of C: a graph has a million tasks. On a big-endian machine the blocks are others, and small: more memory.
    words = array("Q", column)
    sources, numbers = map(and_, words[::2], repeat(_SOURCE)), map(rshift, words[1::2], repeat(_BLOCK_BITS))
    return set(zip(sources, numbers, strict=True))


def _has_id(column: bytes, task_id: TaskId, begin: int) -> bool:
    end = begin + _RUN_BYTES
    found = column.find(task_id, begin, end)
    while found % ID_BYTES > 0:  # two neighbours that look like it; -1 % 16 is 15
        if found < 0:
            return False
        found = column.find(task_id, found + 1, end)
    return True
