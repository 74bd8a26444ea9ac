"""How tasks end at their client, one by one and with their graphs, and what is released then."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from weakref import WeakValueDictionary

from scaler.client.core.actions import Action, Complete, Hold, Release, Send
from scaler.client.core.batching import Bounds
from scaler.client.core.canceling import Cancels
from scaler.client.core.knowledge import Knowledge
from scaler.client.core.outbox import cancels_of, sent_ids
from scaler.client.core.records import Definition, Entry, Graph, LargeError, Outcomes, Submission, stored_results
from scaler.client.core.reruns import Reruns, code_of
from scaler.client.core.states import Move, after
from scaler.client.core.table import Table
from scaler_protocol import codes, columns
from scaler_protocol.codec import CodecError, decode_task_error
from scaler_protocol.ids import STORED, ObjectId, TaskId, stored_at
from scaler_protocol.messages import TaskError


class Endings:
    def __init__(self, table: Table, cancels: Cancels, knowledge: Knowledge, reruns: Reruns) -> None:
        self._table = table
        self._cancels = cancels
        self._knowledge = knowledge
        self._reruns = reruns
        #: of messages in this session; None while there is none
        self.bounds: Bounds | None = None
        #: results of tasks that this client does not wait for
        self.dropped_count = 0
        #: by the objects that are their exceptions; they live while a future refers to them
        self._large_errors: WeakValueDictionary[ObjectId, LargeError] = WeakValueDictionary()

    def inherit(self, broken: Endings) -> None:
        self.dropped_count, self._large_errors = broken.dropped_count, broken._large_errors

    def complete_all(self, ids: Iterable[TaskId], status: int, error: TaskError | None = None) -> list[Action]:
        """End these pending tasks with an outcome that this client makes itself."""
        actions: list[Action] = []
        pending = self._table.pending
        # The first of a graph takes the others with it, so ids may be gone when their turn comes.
        for entry, run in groupby(ids, key=pending.get):
            if entry is None:
                continue
            ended = tuple(task_id for task_id in run if task_id in pending)
            self._table.take(ended)
            for task_id in ended:
                self._cancels.waiting.pop(task_id, None)
            count = len(ended)
            if count:
                statuses, kinds = bytes((status,)) * count, bytes((codes.KIND_NONE,)) * count
                self.end(entry, Outcomes(ended, statuses, kinds, (0,) * count, error=error), actions)
        return actions

    def end(self, entry: Entry, outcomes: Outcomes, actions: list[Action]) -> None:
        """These tasks of an entry have left the pending table."""
        submission = entry.submission
        graph = entry.graph
        entry.unfinished_count -= len(outcomes.ids)
        if graph is not None and graph.failure is not None and outcomes.statuses == _REFUSED:
            # The scheduler tells what befell another task; the graph has heard it from that one itself.
            outcomes = graph.failure._replace(ids=outcomes.ids)
        is_stored = outcomes.kinds and codes.KIND_OBJECT in outcomes.kinds
        source = _source_of(entry) if is_stored else None
        actions.append(Complete(submission.collector, outcomes, source))
        if entry.unfinished_count == 0:
            entry.state = after(entry.state, Move.END)
            if submission.objects:
                actions.append(Release(submission.objects))
        if graph is not None:
            self._progress_graph(graph, outcomes, actions)

    def _progress_graph(self, graph: Graph, outcomes: Outcomes, actions: list[Action]) -> None:
        graph.wanted_count -= 1
        if not any(outcomes.statuses) and (graph.inputs or outcomes.kinds):
            self._knowledge.note_end(graph, outcomes)
        if graph.wanted_count == 0:
            if any(outcomes.statuses):
                graph.failure = graph.failure or outcomes
            self._end_graph(graph, actions)
        elif any(outcomes.statuses):
            self.fail_graph(graph, outcomes, actions)

    def note_exception(self, outcomes: Outcomes, actions: list[Action]) -> Outcomes:
        """Notes the exception of a task that did not succeed, and returns the task's outcomes. If the exception was too
        large to ride along, these outcomes get an error that keeps the exception stored. All futures that end with this
        exception refer to that one error."""
        payload = bytes(outcomes.payload)
        if STORED not in payload:
            return outcomes
        try:
            error = decode_task_error(payload)
        except CodecError:
            return outcomes
        object_id = stored_at(error.serialized)
        if object_id is None:
            return outcomes
        large = self._large_errors.get(object_id)
        if large is None:
            large = self._large_errors[object_id] = LargeError.of(error, object_id)
            actions.append(Hold(outcomes.ids[0], large))
        return outcomes._replace(error=large)

    def fail_graphs_of(self, outcomes: Outcomes, actions: list[Action]) -> None:
        """End the graphs whose unwanted tasks have ended badly. A task that was refused or canceled because of another
        one does not count: the other one has told the reason already."""
        if not self._table.graphs:
            return
        starts = columns.offsets(outcomes.sizes)
        for index, (task_id, status) in enumerate(zip(outcomes.ids, outcomes.statuses, strict=False)):
            graph = self._table.places.graph_with(task_id) if status not in _NO_REASONS else None
            if graph is None:
                continue
            payload = outcomes.payload[starts[index] : starts[index + 1]]
            if status == codes.STATUS_REFUSED and (graph in self._reruns.stops or code_of(payload) in _OF_ANOTHER):
                continue
            kinds = outcomes.kinds[index : index + 1]
            one = Outcomes((task_id,), bytes((status,)), kinds, (len(payload),), payload, error=outcomes.error)
            self.fail_graph(graph, one, actions)

    def fail_graph(self, graph: Graph, outcomes: Outcomes, actions: list[Action]) -> None:
        """One task did not succeed, so all that is unfinished ends the same way, with the same error."""
        if graph.failure is not None:
            return
        graph.failure = outcomes._replace(profiles=b"")
        for entry in graph.entries:
            (task_id,) = entry.submission.ids
            if self._table.take((task_id,)) != [None]:
                self._cancels.waiting.pop(task_id, None)
                self.end(entry, graph.failure._replace(ids=(task_id,)), actions)

    def _end_graph(self, graph: Graph, actions: list[Action]) -> None:
        self._table.remove_graph(graph)
        is_canceled = graph.is_canceling
        self._reruns.forget(graph)
        if graph.failure is not None and not is_canceled and self.bounds is not None:
            # The outbox cancels what is still to leave.
            actions += [Send(message) for message in cancels_of(sent_ids(graph), graph, self.bounds)]
        graph.is_canceling = True  # what of it has not been sent
        if graph.definition is not None:
            graph.definition.is_ended = True
        self._knowledge.forget_graph(graph)
        if graph.objects or graph.unneeded or graph.claimed:
            actions.append(Release((*graph.objects, *graph.unneeded, *graph.claimed)))

    def drop(self, outcomes: Outcomes, actions: list[Action]) -> None:
        """Results of tasks that have ended here already. Their objects are ours to release all the same (OWN-10), but
        not before the graph has ended, if a node has run a second time for others that take its value (CLI-14)."""
        self.dropped_count += len(outcomes.ids)
        free: list[ObjectId] = []
        for task_id, object_id in stored_results(outcomes):
            graph = self._table.places.graph_with(task_id)
            if graph is None:
                free.append(object_id)
            elif object_id not in self._knowledge.objects:  # the same one again, if its attempt has the same number
                self._knowledge.note_object(graph, object_id)
                graph.unneeded.append(object_id)
        if free:
            actions.append(Release(tuple(free)))


def _source_of(entry: Entry) -> Submission | Definition:
    """What is sent again if a value is lost."""
    graph = entry.graph
    if graph is None:
        return entry.submission
    if graph.definition is None:
        graph.definition = Definition(graph)
    return graph.definition


_REFUSED = bytes((codes.STATUS_REFUSED,))
_NO_REASONS = (codes.STATUS_SUCCESS, codes.STATUS_CANCELED)
#: a task was refused because of another one, or without a reason that can be read
_OF_ANOTHER = (codes.DEPENDENCY_FAILED, codes.OK)
