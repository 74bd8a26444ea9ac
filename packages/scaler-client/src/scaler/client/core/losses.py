"""Tasks that cannot run any more: objects among their arguments are lost, or no message can carry these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from scaler.client.core.events import ObjectsLost
from scaler.client.core.records import Graph, Outcomes, Submission
from scaler.client.core.states import State
from scaler.client.core.table import Table
from scaler_protocol import codes, columns
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.messages import Submit, TaskError


@cache
def error() -> TaskError:
    return TaskError(
        code=codes.NO_SUCH_OBJECT,
        message="an argument is no longer in the object storage, and its bytes were not kept here: send it again",
    )


@cache
def too_large() -> TaskError:
    return TaskError(
        code=codes.TOO_LARGE,
        type_name="refused",
        message="the task has more arguments than a message to this scheduler may carry: pass them in a few lists",
    )


def begun_once(table: Table) -> list[TaskId]:
    """Tasks that a scheduler was sent and that must not run again; also those whose end was not told. (CLI-27)"""
    pending = [(task_id, entry) for task_id, entry in table.pending.items() if entry.state is State.SENT]
    taken = zip(table.taken_ids, table.taken, strict=False)  # an interrupt may have left one shorter
    every = [*pending, *[(task_id, entry) for task_id, entry in taken if entry is not None]]
    return [task_id for task_id, entry in every if getattr(entry.submission.collector, "runs_once", False)]


@cache
def session_lost() -> TaskError:
    return TaskError(
        code=codes.LEASE_EXPIRED,
        message="the session with the scheduler was lost while a generator was streaming, and a generator is not begun "
        "a second time: call stream() again",
    )


def not_back(seconds: float, reason: str) -> str:
    """Why everything fails: no session for so long. `reason`: that of a scheduler that answers, and has no room."""
    if reason:
        return f"the scheduler had no session for this client for {seconds:g} s, and has said: {reason}"
    return f"the scheduler has not come back within {seconds:g} s"


def outcomes() -> Outcomes:
    """Of one task."""
    return Outcomes((), bytes((codes.STATUS_FAILED,)), bytes((codes.KIND_NONE,)), (0,), error=error())


def note_doomed(table: Table, lost: frozenset[ObjectId]) -> None:
    """Graphs that have been sent may have these arguments where they need them, but could not begin again."""
    for graph in table.graphs.values():
        graph.is_doomed = graph.is_doomed or bool(graph.sent_count and _names_any(graph, lost))


def doomed(table: Table, event: ObjectsLost) -> tuple[list[TaskId], list[Graph]]:
    """Calls and graphs. When only the storage has lost them, tasks that were sent may have their arguments already."""
    lost = frozenset(event.ids)
    calls = [
        task_id
        for task_id, entry in table.pending.items()
        if entry.graph is None
        and (event.is_session_lost or entry.state is State.QUEUED)
        and not lost.isdisjoint(named_objects(entry.submission, entry.submission.part_sizes))
    ]
    graphs = [
        graph
        for graph in table.graphs.values()
        if (event.is_session_lost or not graph.sent_count) and _names_any(graph, lost)
    ]
    return calls, graphs


def _names_any(graph: Graph, lost: frozenset[ObjectId]) -> bool:
    messages = [batch.message for batch in graph.batches]
    return any(not lost.isdisjoint(named_objects(one, columns.split_u32(one.part_sizes))) for one in messages)


def named_objects(tasks: Submission | Submit, sizes: Sequence[int]) -> Iterator[ObjectId]:
    """The objects among the arguments of these tasks."""
    if codes.KIND_OBJECT not in tasks.part_kinds:
        return
    offset = 0
    for kind, size in zip(tasks.part_kinds, sizes, strict=True):
        if kind == codes.KIND_OBJECT:
            yield ObjectId(bytes(tasks.payload[offset : offset + size]))
        offset += size
