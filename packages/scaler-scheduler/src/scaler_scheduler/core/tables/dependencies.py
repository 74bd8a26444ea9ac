"""Tasks that wait for others, and the results that are kept for them (SCH-16 to SCH-19).

A result is kept while some unfinished task depends on it, or while its graph may still grow. Kept inline values travel
with the dispatch of the dependent; kept object ids are released by the scheduler when no client wanted them (OWN-5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from scaler_protocol.codes import KIND_OBJECT, STATUS_SUCCESS
from scaler_protocol.ids import ObjectId, TaskId
from scaler_protocol.records import dataclass
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.columns import Inputs

#: tasks that can run now, by chunk
Ready = dict[Chunk, list[int]]


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
    #: by the client, which has it from another session: it is not told of it again (SCH-53)
    is_given: bool = False


def listed(dependents: TaskId | dict[TaskId, None] | None) -> Iterable[TaskId]:
    """One of `Dependencies.dependents`, as something to go through."""
    if dependents is None:
        return ()
    return dependents if isinstance(dependents, dict) else (dependents,)


def previous_life(task_id: TaskId) -> TaskId:
    """Stands for the end of an abandoned task of the same id, as something to wait for; longer than any id."""
    return TaskId(b"previous life of " + task_id)


def admission_of(task_id: TaskId) -> TaskId:
    """Stands for the end of what it takes to note all that a task depends on, as something to wait for."""
    return TaskId(b"admission of " + task_id)


class Dependencies:
    def __init__(self) -> None:
        #: all and only the tasks in state WAITING
        self.waiting: dict[TaskId, Waiting] = {}
        #: unfinished task -> tasks in `waiting` for it; most have one, which then stands here by itself
        self.dependents: dict[TaskId, TaskId | dict[TaskId, None]] = {}
        #: task -> how many unfinished tasks depend on it
        self.users: Counter[TaskId] = Counter()
        self.kept: dict[TaskId, Kept] = {}

    def has_use_for(self, task_id: TaskId, chunk: Chunk) -> bool:
        """Its result is an input of others, or may become one: its client has not sealed its graph."""
        return task_id in self.users or chunk.header.graph_id in chunk.client.graphs

    def keep(self, task_id: TaskId, kept: Kept) -> None:
        self.kept[task_id] = kept
        graph = kept.chunk.client.graphs.get(kept.chunk.header.graph_id)
        if graph is not None:
            graph[task_id] = None

    def succeeded(self, ids: Iterable[TaskId]) -> Ready:
        """Which tasks can run now, in the order in which these have ended."""
        ready: Ready = {}
        take, waiting = self.dependents.pop, self.waiting
        for ended in ids:
            dependents = take(ended, None)
            if dependents is None:
                continue
            # As `listed`, which would be one more call for each.
            for dependent in dependents if isinstance(dependents, dict) else (dependents,):
                entry = waiting[dependent]
                entry.missing -= 1
                if not entry.missing:
                    del waiting[dependent]
                    ready.setdefault(entry.chunk, []).append(entry.index)
        return ready

    def previous_life_ended(self, task_id: TaskId) -> Ready:
        return self.succeeded((previous_life(task_id),))

    def has_failed(self, task_id: TaskId) -> bool:
        kept = self.kept.get(task_id)
        return kept is not None and kept.status != STATUS_SUCCESS

    def next_failed(self, task_id: TaskId) -> tuple[TaskId, Chunk] | None:
        """The last of the tasks that wait for this one directly, taken out of `waiting`: it ends the same way."""
        dependents = self.dependents.get(task_id)
        if dependents is None:
            return None
        last: TaskId
        if isinstance(dependents, dict):
            last, _ = dependents.popitem()  # the last of a dict is looked for behind all that were deleted there
        else:
            last = dependents
            del self.dependents[task_id]
        chunk = self.waiting[last].chunk
        self.stop_waiting(last)
        return last, chunk

    def stop_waiting(self, task_id: TaskId) -> bool:
        """It ends before its dependencies do. False: it was not waiting."""
        waiting = self.waiting.get(task_id)
        if waiting is not None:
            needs = waiting.chunk.dependencies(waiting.index)
            self.stop_waiting_for(task_id, (*needs, previous_life(task_id), admission_of(task_id)))
        return waiting is not None

    def stop_waiting_for(self, task_id: TaskId, others: Iterable[TaskId]) -> None:
        """Of a task that waits for these and for nothing else."""
        del self.waiting[task_id]
        for other in others:
            dependents = self.dependents.get(other)
            if isinstance(dependents, dict):
                dependents.pop(task_id, None)
            if dependents == task_id or not dependents:
                self.dependents.pop(other, None)

    def ended(self, chunk: Chunk, indexes: Sequence[int]) -> list[tuple[Chunk, ObjectId]]:
        """These tasks need their inputs no longer. Answers the objects that are to be released."""
        return self.unused(chunk.dependencies_of(indexes))

    def unused(self, needs: Iterable[TaskId]) -> list[tuple[Chunk, ObjectId]]:
        """Each of these has one user less."""
        users = self.users
        unused: list[TaskId] = []
        for other in needs:
            left = users[other] - 1
            if left:
                users[other] = left
            else:
                users.pop(other)  # `del` of a Counter is a Python function
                unused.append(other)
        return self._forget(unused)

    def sealed(self, ended: Iterable[TaskId]) -> list[tuple[Chunk, ObjectId]]:
        """No further batch of their graph follows: those of these kept results that nothing uses are forgotten."""
        return self._forget([task_id for task_id in ended if task_id not in self.users])

    def _forget(self, unused: Iterable[TaskId]) -> list[tuple[Chunk, ObjectId]]:
        objects = []
        last, is_open = None, False
        for task_id in unused:
            kept = self.kept.get(task_id)
            if kept is None:
                continue
            if kept.chunk is not last:  # one batch has one graph
                last = kept.chunk
                is_open = last.header.graph_id in last.client.graphs
            if is_open:
                continue
            del self.kept[task_id]
            if kept.kind == KIND_OBJECT and not kept.is_wanted:
                objects.append((kept.chunk, ObjectId(kept.value)))
        return objects

    def wait(self, task_id: TaskId, chunk: Chunk, index: int, missing: Sequence[TaskId]) -> None:
        """For these, of which there is at least one."""
        self.waiting[task_id] = Waiting(chunk, index, len(missing))
        self._note_dependent(task_id, missing)

    def wait_for(self, task_id: TaskId, missing: Sequence[TaskId]) -> None:
        """It waits already, and for these besides."""
        self.waiting[task_id].missing += len(missing)
        self._note_dependent(task_id, missing)

    def _note_dependent(self, task_id: TaskId, others: Iterable[TaskId]) -> None:
        for other in others:
            first = self.dependents.setdefault(other, task_id)
            if isinstance(first, dict):
                first[task_id] = None
            elif first is not task_id:
                self.dependents[other] = {first: None, task_id: None}

    def inputs(self, chunk: Chunk, indexes: Sequence[int], awaited: Container[TaskId] = ()) -> Inputs:
        """What TASK parts of these tasks refer to, each once (SCH-17, BAT-9), but for what their worker has itself."""
        inputs = Inputs()
        if chunk.has_dependencies:
            inputs.ids = [other for other in chunk.referred(indexes) if other not in awaited]
            found = [self.kept[other] for other in inputs.ids]
            inputs.kinds = [kept.kind for kept in found]
            inputs.values = [kept.value for kept in found]
        return inputs
