"""What is known of ended nodes of graphs, so that no successor of a scheduler has to run them again. (CLI-17, CLI-18)

Theory of operation. The client gets the results of the nodes that it wants. Those of others are kept by the scheduler,
which tells of them now and then while unfinished nodes depend on them (SCH-51). Both are noted here, within a bound. A
small value is known by its bytes, a large one by the id of its object. When the session is lost, the client claims
these objects together with its own: it owns them under its new name, or finds out that they are gone. Then it gives
what it knows to the next scheduler, and submits only nodes that are neither known nor needless (`remaining`).

What is unknown, or has fallen out, is run again: the nodes themselves are kept until their graph ends.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from scaler.client.core.records import Graph, Known, Outcomes, result_objects
from scaler.client.core.remaining import needed_results
from scaler_protocol import codes
from scaler_protocol.columns import offsets, split_ids, split_u32
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import KeptResults

KNOWN_BYTES = 64 * 1024 * 1024
"""Of all graphs together."""
ROW_BYTES = 256
"""What knowing a result takes besides its value."""


class Knowledge:
    """Of one core. Which results each graph knows stands in the graph."""

    def __init__(self) -> None:
        #: result objects of graphs that have not ended, as far as the program was told of them
        self.objects: dict[ObjectId, Graph] = {}
        self.known_bytes = 0

    # ------------------------------------------------------------ what becomes known

    def note_end(self, graph: Graph, outcomes: Outcomes) -> None:
        """A wanted node has ended; its graph has not."""
        for object_id in result_objects(outcomes):
            self.note_object(graph, object_id)
        (task_id,) = outcomes.ids
        if task_id in graph.inputs:
            kind = outcomes.kinds[0] if outcomes.kinds else codes.KIND_INLINE
            self._learn(graph, task_id, Known(kind, bytes(outcomes.payload), is_wanted=True))
            self._keep_within_bounds(graph)

    def note_object(self, graph: Graph, object_id: ObjectId) -> None:
        self.objects[object_id] = graph
        graph.told.append(object_id)

    def learn(self, graph: Graph, message: KeptResults, pending: Container[TaskId]) -> None:
        """What the scheduler tells."""
        ids, starts = split_ids(message.ids), offsets(split_u32(message.sizes))
        kinds, payload = message.kinds or bytes(len(ids)), bytes(message.payload)
        for row, task_id in enumerate(map(TaskId, ids)):
            if task_id not in graph.known and task_id not in pending:
                known = Known(kinds[row], payload[starts[row] : starts[row + 1]], is_wanted=False)
                self._learn(graph, task_id, known)
        self._keep_within_bounds(graph)

    def _learn(self, graph: Graph, task_id: TaskId, known: Known) -> None:
        self._forget(graph, task_id)
        graph.known[task_id] = known
        self.known_bytes += ROW_BYTES + len(known.value)

    def _keep_within_bounds(self, graph: Graph) -> None:
        if self.known_bytes <= KNOWN_BYTES:
            return
        needed = needed_results(graph)
        for task_id in [task_id for task_id in graph.known if task_id not in needed]:
            self._forget(graph, task_id)
        # Not to come here soon again; what falls out first is what has been known for the longest time.
        for task_id in list(graph.known):
            if self.known_bytes <= KNOWN_BYTES // 2:
                break
            if not graph.has_stored(task_id):  # which takes next to nothing
                self._forget(graph, task_id)

    # ------------------------------------------------------------ what is known no more

    def _forget(self, graph: Graph, task_id: TaskId) -> None:
        known = graph.known.pop(task_id, None)
        if known is not None:
            self.known_bytes -= ROW_BYTES + len(known.value)

    def forget_graph(self, graph: Graph) -> None:
        """It has ended."""
        self.known_bytes -= sum([ROW_BYTES + len(known.value) for known in graph.known.values()])
        graph.known = {}
        for object_id in graph.told:
            self.objects.pop(object_id, None)
        graph.told = []

    def lose(self, graphs: Iterable[Graph], objects: Iterable[ObjectId]) -> None:
        """These are not in the storage any more."""
        lost = frozenset(objects)
        for graph in graphs:
            for task_id in [task_id for task_id, object_id in objects_of(graph) if object_id in lost]:
                self._forget(graph, task_id)

    def lose_all(self, graph: Graph) -> None:
        """As far as they are objects."""
        for task_id, _ in list(objects_of(graph)):
            self._forget(graph, task_id)

    # ------------------------------------------------------------ when the session is lost

    def adopt(self, other: Knowledge, graphs: Iterable[Graph]) -> None:
        """Go on with what another core knew; `graphs` are the unfinished ones, as the new core has them."""
        by_id = {graph.graph_id: graph for graph in graphs}
        for object_id, graph in other.objects.items():
            if graph.graph_id in by_id:
                self.note_object(by_id[graph.graph_id], object_id)
        self.known_bytes = sum(
            [ROW_BYTES + len(known.value) for graph in by_id.values() for known in graph.known.values()]
        )


def objects_of(graph: Graph) -> Iterator[tuple[TaskId, ObjectId]]:
    """The known results that are in the storage."""
    for task_id, known in graph.known.items():
        if known.kind == codes.KIND_OBJECT:
            yield task_id, ObjectId(known.value)


def claims_of(graph: Graph) -> list[tuple[TaskId, ObjectId]]:
    """Of these, the ones that were the scheduler's to release. It is lost, so they are claimed, and released at the
    latest when the graph ends; before that, perhaps, by the scheduler that they are given to. (CLI-18)"""
    found = [(task_id, object_id) for task_id, object_id in objects_of(graph) if not graph.known[task_id].is_wanted]
    graph.claimed.update([object_id for _, object_id in found])
    return found
