"""Graphs that begin again while their scheduler lives: the storage has lost values between their nodes. (CLI-23)

Theory of operation. A successor of the scheduler knows nothing of a graph, so it can be sent again at once. The same
scheduler has tasks of it, and an id is legal again when its task has ended (CLI-2). So all that was sent is canceled
first, and the program is told meanwhile only of nodes that succeed, or fail for another reason. When each Cancel is
answered and each wanted task has had its one result, the graph goes back to the outbox, as after the loss of a session.

Large values that the scheduler kept are released when the tasks that need them are canceled (OWN-5), so all known ones
are given up. The new attempts are counted from one again and would store under the ids of the old ones, for which a
Release may be on its way: another salt gives them other ids (OWN-6).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from scaler.client.core.actions import Action, Claim, Send
from scaler.client.core.batching import Bounds
from scaler.client.core.canceling import ANSWER_SECONDS
from scaler.client.core.knowledge import Knowledge, claims_of
from scaler.client.core.outbox import Outbox, cancels_of, sent_ids
from scaler.client.core.records import Graph, GraphBatch, Outcomes
from scaler.client.core.remaining import needs_any
from scaler.client.core.table import Table
from scaler_protocol import codes, columns
from scaler_protocol.codec import CodecError, decode_task_error
from scaler_protocol.ids import ObjectId, TaskId, new_salt
from scaler_protocol.messages import Buffer, CancelReply
from scaler_protocol.records import dataclass

MOST = 3
"""How often one graph begins again. A storage that dies time and again, perhaps of this very graph, shall not keep it
alive for ever."""


@dataclass(slots=True)
class _Stop:
    #: tasks whose Cancel has not been answered
    unanswered: set[TaskId]
    #: wanted tasks of which there is no result yet
    unheard: set[TaskId]
    end_by: float


class Reruns:
    def __init__(self, table: Table, knowledge: Knowledge, outbox: Outbox) -> None:
        self._table = table
        self._knowledge = knowledge
        self._outbox = outbox
        #: graphs that are being canceled to begin again; the oldest first
        self.stops: dict[Graph, _Stop] = {}

    def __bool__(self) -> bool:
        return bool(self.stops)

    def next_deadline(self) -> float | None:
        return next((stop.end_by for stop in self.stops.values()), None)

    # ------------------------------------------------------------ why a graph begins again

    def storage_restarted(self) -> list[Action]:
        """It may have kept its objects: those that are known are asked for (STO-42). Of the others some may be lost as
        well, which is known when a node does not find one."""
        results: list[tuple[TaskId, ObjectId]] = []
        for graph in self._table.graphs.values():
            if graph.sent_count and graph not in self.stops:
                graph.may_miss_values = graph.rerun_count < MOST
                results += claims_of(graph) if graph.may_miss_values else ()
        return [Claim(tuple(results), is_asked_for=True)] if results else []

    def lost(self, objects: Container[ObjectId], bounds: Bounds, now: float) -> list[Action]:
        """The storage has not these. Graphs that need one of them begin again at once."""
        actions: list[Action] = []
        for graph in self._table.graphs.values():
            if graph.may_miss_values and needs_any(graph, objects):
                actions += self._stop(graph, bounds, now)
        return actions

    def refused(self, graph: Graph | None, outcomes: Outcomes, bounds: Bounds, now: float) -> list[Action]:
        """Tasks have not succeeded: a wanted one of this graph, or others. Does a graph begin again for that?"""
        actions: list[Action] = []
        if graph is not None and not graph.may_miss_values:
            return actions
        for task_id in _missing_a_value(outcomes):
            found = graph or self._table.places.graph_with(task_id)
            if found is not None and found.may_miss_values:
                actions += self._stop(found, bounds, now)
        return actions

    def _stop(self, graph: Graph, bounds: Bounds, now: float) -> list[Action]:
        graph.may_miss_values = False
        graph.rerun_count += 1
        graph.is_canceling = True  # also what has yet to be sent: only the last batch seals the graph (SCH-18)
        batches = [one.message for one in graph.outgoing or () if isinstance(one, GraphBatch)]
        self.stops[graph] = _Stop(
            {TaskId(task_id) for message in batches for task_id in columns.split_ids(message.ids)},
            {entry.submission.ids[0] for entry in graph.entries if entry.unfinished_count},
            now + graph.grace_seconds + ANSWER_SECONDS,
        )
        return [Send(message) for message in cancels_of(sent_ids(graph), graph, bounds)]

    # ------------------------------------------------------------ until all of it has ended

    def heard(self, graph: Graph, outcomes: Outcomes) -> bool:
        """A wanted task has ended at the scheduler. True: its graph begins again, and the program is not told."""
        stop = self.stops.get(graph)
        if stop is None:
            return False
        stop.unheard.difference_update(outcomes.ids)
        return outcomes.statuses in _OF_THE_STOP

    def answered(self, reply: CancelReply) -> None:
        """CANCELED and TOO_LATE: a result comes as well. UNKNOWN: it has come, or will never (CAN-10)."""
        ids = columns.split_ids(reply.ids)
        unknown = [one for one, outcome in zip(ids, reply.outcomes, strict=False) if outcome == codes.CANCEL_UNKNOWN]
        for stop in self.stops.values():
            stop.unanswered.difference_update(ids)
            stop.unheard.difference_update(unknown)

    def begin_again(self) -> list[Graph]:
        """What has ended at the scheduler is sent again. Answers the graphs of which an argument is lost too: no node
        can make that."""
        doomed: list[Graph] = []
        for graph in [one for one, stop in self.stops.items() if not stop.unanswered and not stop.unheard]:
            self.forget(graph)
            if graph.is_doomed:
                doomed.append(graph)
                continue
            self._knowledge.lose_all(graph)
            graph.batches = tuple(_salted(graph.batches))
            self._outbox.add_again(graph)
        return doomed

    def expired(self, now: float) -> list[Graph]:
        return [graph for graph, stop in self.stops.items() if stop.end_by <= now]

    def forget(self, graph: Graph) -> None:
        """It has ended, or begins again."""
        if self.stops.pop(graph, None) is not None:
            graph.is_canceling = False

    def clear(self) -> None:
        """The session is lost: everything begins again under another name."""
        for graph in list(self.stops):
            self.forget(graph)


def _missing_a_value(outcomes: Outcomes) -> Iterator[TaskId]:
    """Those of these tasks that did not find an argument in the storage. Others, which depend on them, are told another
    code (SCH-19), and later."""
    starts = columns.offsets(outcomes.sizes)
    for row, (task_id, status) in enumerate(zip(outcomes.ids, outcomes.statuses, strict=True)):
        if status == codes.STATUS_REFUSED and code_of(outcomes.payload[starts[row] : starts[row + 1]]) == _MISSING:
            yield task_id


def code_of(error: Buffer) -> int:
    """Returns the code of an encoded TaskError; OK if it cannot be read."""
    return _code_of(bytes(error))


@lru_cache(maxsize=8)
def _code_of(error: bytes) -> int:
    """Thousands of dependents of one task are refused with the same bytes."""
    try:
        return decode_task_error(error).code
    except CodecError:
        return codes.OK


def _salted(batches: Iterable[GraphBatch]) -> Iterator[GraphBatch]:
    salt = new_salt()
    for batch in batches:
        header = replace(batch.message.header, result_salt=salt)
        yield batch._replace(message=replace(batch.message, header=header))


_MISSING = codes.NO_SUCH_OBJECT
_OF_THE_STOP = (bytes((codes.STATUS_REFUSED,)), bytes((codes.STATUS_CANCELED,)))
"""How tasks end that are canceled here, that miss a value, or that depend on such tasks."""
