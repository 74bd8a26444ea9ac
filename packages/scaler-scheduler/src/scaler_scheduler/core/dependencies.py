"""Tasks that wait for others, and the results that are kept for them (SCH-16 to SCH-19).

A result is kept while some unfinished task depends on it, or while its graph may still grow. Kept inline values travel
with the dispatch of the dependent; kept object ids are released by the scheduler when nobody wanted them (OWN-5).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scaler_protocol.codes import KIND_OBJECT, STATUS_SUCCESS
from scaler_protocol.ids import GraphId, ObjectId, TaskId
from scaler_scheduler.core.chunk import Chunk, Inputs


@dataclass(slots=True)
class Waiting:
    chunk: Chunk
    index: int
    missing: int  #: dependencies that have not succeeded yet; at least 1


class Kept(NamedTuple):
    """The result of a task that has ended. Of one that did not succeed it is the reason why others end."""

    chunk: Chunk
    kind: int
    value: bytes
    is_wanted: bool
    status: int = STATUS_SUCCESS


def listed(dependents: TaskId | dict[TaskId, None] | None) -> Iterable[TaskId]:
    """One of `Dependencies.dependents`, as something to go through."""
    if dependents is None:
        return ()
    return dependents if isinstance(dependents, dict) else (dependents,)


def previous_life(task_id: TaskId) -> TaskId:
    """Stands for the end of an abandoned task of the same id, as something to wait for; longer than any id."""
    return TaskId(b"previous life of " + task_id)


class Dependencies:
    def __init__(self) -> None:
        #: all and only the tasks in state WAITING
        self.waiting: dict[TaskId, Waiting] = {}
        #: unfinished task -> tasks in `waiting` for it; most have one, which then stands here by itself
        self.dependents: dict[TaskId, TaskId | dict[TaskId, None]] = {}
        #: task -> how many unfinished tasks depend on it
        self.users: dict[TaskId, int] = {}
        self.kept: dict[TaskId, Kept] = {}
        #: graphs of which more batches may follow -> their kept results
        self.open_graphs: dict[GraphId, dict[TaskId, None]] = {}

    def add(self, task_id: TaskId, chunk: Chunk, index: int, needs: Iterable[TaskId], missing: list[TaskId]) -> None:
        """`needs` are all its dependencies, `missing` what it waits for."""
        users = self.users
        for other in needs:
            users[other] = users.get(other, 0) + 1
        if missing:
            self.wait(task_id, chunk, index, missing)

    def open(self, graph_id: GraphId) -> None:
        self.open_graphs.setdefault(graph_id, {})

    def succeeded(self, task_id: TaskId, kept: Kept) -> list[tuple[Chunk, int]]:
        """Keeps the result if it has users, and answers which tasks can run now."""
        graph = self.open_graphs.get(kept.chunk.header.graph_id)
        if graph is not None:
            graph[task_id] = None
        if graph is not None or task_id in self.users:
            self.kept[task_id] = kept
        return self._one_less(task_id)

    def previous_life_ended(self, task_id: TaskId) -> list[tuple[Chunk, int]]:
        return self._one_less(previous_life(task_id))

    def _one_less(self, ended: TaskId) -> list[tuple[Chunk, int]]:
        ready = []
        for dependent in listed(self.dependents.pop(ended, None)):
            waiting = self.waiting[dependent]
            waiting.missing -= 1
            if not waiting.missing:
                del self.waiting[dependent]
                ready.append((waiting.chunk, waiting.index))
        return ready

    def keep_failure(self, task_id: TaskId, kept: Kept) -> None:
        """For tasks that depend on it: that may come while its graph grows, or come back from a worker they were sent
        to ahead of their time. They are to hear why they end (SCH-19)."""
        graph = self.open_graphs.get(kept.chunk.header.graph_id)
        if graph is not None:
            graph[task_id] = None
        if graph is not None or task_id in self.users:
            self.kept[task_id] = kept

    def has_failed(self, task_id: TaskId) -> bool:
        kept = self.kept.get(task_id)
        return kept is not None and kept.status != STATUS_SUCCESS

    def failed(self, task_id: TaskId) -> list[tuple[TaskId, Chunk, int]]:
        """The tasks that waited for it directly, taken out of `waiting`: they end the same way."""
        doomed = []
        for dependent in listed(self.dependents.pop(task_id, None)):
            waiting = self.waiting.pop(dependent)
            doomed.append((dependent, waiting.chunk, waiting.index))
        for dependent, chunk, index in doomed:
            self._stop_waiting(dependent, chunk, index)
        return doomed

    def stop_waiting(self, task_id: TaskId) -> bool:
        """It ends before its dependencies do. False: it was not waiting."""
        waiting = self.waiting.pop(task_id, None)
        if waiting is not None:
            self._stop_waiting(task_id, waiting.chunk, waiting.index)
        return waiting is not None

    def _stop_waiting(self, task_id: TaskId, chunk: Chunk, index: int) -> None:
        for other in (*chunk.dependencies(index), previous_life(task_id)):
            dependents = self.dependents.get(other)
            if isinstance(dependents, dict):
                dependents.pop(task_id, None)
            if dependents == task_id or not dependents:
                self.dependents.pop(other, None)

    def ended(self, chunk: Chunk, index: int) -> list[tuple[Chunk, ObjectId]]:
        """This task needs its inputs no longer. Answers the objects that are to be released."""
        objects: list[tuple[Chunk, ObjectId]] = []
        for other in chunk.dependencies(index):
            left = self.users[other] - 1
            if left:
                self.users[other] = left
            else:
                del self.users[other]
                objects += self._forget(other)
        return objects

    def seal(self, graph_id: GraphId) -> list[tuple[Chunk, ObjectId]]:
        """No further batch of this graph follows: what is kept without a user goes."""
        objects: list[tuple[Chunk, ObjectId]] = []
        for task_id in self.open_graphs.pop(graph_id, ()):
            objects += self._forget(task_id)
        return objects

    def _forget(self, task_id: TaskId) -> Iterable[tuple[Chunk, ObjectId]]:
        kept = self.kept.get(task_id)
        if kept is None or task_id in self.users or kept.chunk.header.graph_id in self.open_graphs:
            return
        del self.kept[task_id]
        if kept.kind == KIND_OBJECT and not kept.is_wanted:
            yield kept.chunk, ObjectId(kept.value)

    def wait(self, task_id: TaskId, chunk: Chunk, index: int, missing: Sequence[TaskId]) -> None:
        """For these, of which there is at least one."""
        self.waiting[task_id] = Waiting(chunk, index, len(missing))
        for other in missing:
            first = self.dependents.setdefault(other, task_id)
            if isinstance(first, dict):
                first[task_id] = None
            elif first is not task_id:
                self.dependents[other] = {first: None, task_id: None}

    def input_bytes(self, chunk: Chunk, index: int, awaited: Container[TaskId] = ()) -> int:
        return sum(len(self.kept[other].value) for other in chunk.referred(index) if other not in awaited)

    def inputs(self, chunk: Chunk, indexes: Iterable[int], awaited: Container[TaskId] = ()) -> Inputs:
        """What TASK parts of these tasks refer to, each once (SCH-17, BAT-9), but for what their worker has itself."""
        inputs = Inputs()
        if chunk.has_dependencies:
            for other in dict.fromkeys(other for index in indexes for other in chunk.referred(index)):
                if other in awaited:
                    continue
                kept = self.kept[other]
                inputs.ids.append(other)
                inputs.kinds.append(kept.kind)
                inputs.values.append(kept.value)
        return inputs
