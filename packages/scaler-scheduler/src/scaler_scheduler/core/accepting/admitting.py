"""A large batch with dependencies, or one that takes many tasks over, is accepted in slices (SCH-1, SCH-16).

Theory of operation. First every task and every dependency is looked at, and each dependency is counted as used from
then on: a result that comes meanwhile is kept for it. If something is wrong, the counts are taken back, and nothing has
happened. Else the batch is accepted, and its tasks are registered one after another, each behind those it depends on.
So between two slices the tables are as if the rest had not been submitted yet. Other messages of the client wait
meanwhile, and none of its tasks is given to a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from operator import lt
from typing import TypeVar

from scaler_protocol.codes import BAD_GRAPH, DUPLICATE_TASK
from scaler_protocol.ids import TaskId
from scaler_scheduler.core.ending import endings, forgetting
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.columns import contiguous
from scaler_scheduler.core.entities.states import Move, State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.succession import presenting
from scaler_scheduler.core.tables import rights
from scaler_scheduler.core.tables.backlog import SHARE_STEPS, STEPS_PER_TASK, Job
from scaler_scheduler.core.tables.dependencies import admission_of, previous_life
from scaler_scheduler.core.tables.tables import Tables

Refusal = tuple[int, str, str]
Item = TypeVar("Item")

STEPS_PER_ADMITTED = 2
"""Of a task in a portion of them, and one for each of its dependencies."""
NEEDS_OF_A_PORTION = 4
"""So many times the tasks of a slice: a portion that needs more is accepted task by task."""


def is_known_to(tables: Tables, client: Client, task_id: TaskId) -> bool:
    if task_id in tables.where:
        return tables.chunk_of(task_id).client is client
    kept = tables.dependencies.kept.get(task_id)
    return kept is not None and kept.chunk.client is client


def unknown(task_id: TaskId, other: TaskId) -> Refusal:
    text = (
        f"task {task_id.hex()} depends on {other.hex()}, which is neither in the batch nor unfinished nor kept for its "
        "graph: submit a graph in one batch, or leave it unsealed until the last"
    )
    return BAD_GRAPH, text, "SCH-16"


def duplicate(task_id: TaskId) -> Refusal:
    text = f"task {task_id.hex()} is here already and has not ended: nothing of this batch was accepted"
    return DUPLICATE_TASK, text, "SCH-2"


def line_up(tables: Tables, chunk: Chunk, indexes: Sequence[int], needs: Sequence[Sequence[TaskId]]) -> None:
    """These tasks of a batch, which are in the tables and need these others, wait for what of it has not ended, or are
    queued. One that is submitted again waits for its own earlier life (SCH-8). None of them needs a later one."""
    dependencies, where, abandoned = tables.dependencies, tables.where, tables.abandoned
    failed: dict[TaskId, None] = {}
    if dependencies.kept:
        failed.update(dict.fromkeys(filter(dependencies.has_failed, chain.from_iterable(needs))))
    ready: list[int] = []
    awaited: list[TaskId] = []
    for index, own in zip(indexes, needs, strict=True):
        missing = [other for other in own if other in where or other in failed] if own else []
        if abandoned and (task_id := chunk.ids[index]) in abandoned:
            missing.append(previous_life(task_id))
            tables.go_on_counting(task_id)
        if missing:
            dependencies.wait(chunk.ids[index], chunk, index, missing)
            awaited += missing
        else:
            ready.append(index)
    for other, place in zip(awaited, map(where.get, awaited), strict=True):
        if isinstance(place, Worker):
            tables.note_tails(place, (other,))
    tables.move(State.NEW, Move.SUBMIT_WAITING, len(indexes) - len(ready))
    tables.move(State.NEW, Move.SUBMIT_READY, len(ready))
    ready.sort()  # in the order of the batch, as far as it is known
    for run in contiguous(ready) if ready else ():
        tables.enqueue(chunk, run)
    for task_id in failed:
        endings.fail_dependents_of(tables, task_id)


CIRCLE: Refusal = (BAD_GRAPH, "the dependencies of this batch run in a circle: nothing of it was accepted", "SCH-16")


class Admission:
    def __init__(self, tables: Tables, client: Client, chunk: Chunk, *, is_graph_sealed: bool) -> None:
        self._tables = tables
        self._client = client
        self._chunk = chunk
        self._most = tables.backlog.slice_tasks
        #: what is wrong with it, once that has been looked at
        self.refusal: Refusal | None = None
        self._is_graph_sealed = is_graph_sealed
        self._needs = chunk.every_need()
        #: so many of these are counted as used
        self._pinned_count = 0
        self._order: Sequence[int] = range(len(chunk.ids))

    # ------------------------------------------------------------ looking

    def look(self) -> Job:
        """Then `refusal` says whether it is accepted, and if not, nothing is left of it."""
        tables, chunk = self._tables, self._chunk
        tables.admitting[chunk] = None
        while tables.failing and not tables.failing.keys().isdisjoint(chunk.ids):
            yield SHARE_STEPS  # what depends on their former selves is just being ended
        if self.refusal is None:
            yield from self._look_at_ids()
        if self.refusal is None and chunk.has_dependencies:
            yield from self._look_at_needs()
        if self.refusal is not None:
            yield from self._unpin(self._needs[: self._pinned_count])
            del tables.admitting[chunk]

    def _look_at_ids(self) -> Job:
        where = self._tables.where
        for ids in _slices(self._chunk.ids, self._most):
            self.refusal = rights.foreign_task(self._tables, self._client, ids)
            for task_id in filter(where.__contains__, ids):
                if self.refusal is None and self._is_older(task_id):
                    self.refusal = duplicate(task_id)
            if self.refusal is not None:
                return
            yield 1 + len(ids)

    def _is_older(self, task_id: TaskId) -> bool:
        """A session that was opened later may have taken the task over already. (SCH-48)"""
        return self._tables.chunk_of(task_id).client.number >= self._client.number

    def _look_at_needs(self) -> Job:
        """By the column: most of what a large batch needs is in the batch, and before the task that needs it."""
        chunk, tables = self._chunk, self._tables
        place_of, indexes = chunk.index_of.get, chunk.every_needing()
        is_in_order = True
        for needs in _slices(self._needs, self._most):
            places, here = list(map(place_of, needs)), list(islice(indexes, len(needs)))
            if None not in places:
                is_in_order = is_in_order and all(map(lt, places, here))  # type: ignore[arg-type]
            else:
                for place, index, other in zip(places, here, needs, strict=True):
                    if place is not None:
                        is_in_order = is_in_order and place < index
                    elif not is_known_to(tables, self._client, other):
                        self.refusal = unknown(chunk.ids[index], other)
                        return
            tables.dependencies.users.update(needs)
            self._pinned_count += len(needs)
            yield 1 + len(needs)
        if not is_in_order:
            yield from self._sort()

    def _pieces(self) -> Iterator[tuple[int, int, int]]:
        """Of each task in turn what it needs, as places in the list of all needs."""
        starts = self._chunk.need_starts()
        for index in range(len(self._chunk.ids)):
            for start in range(starts[index], starts[index + 1], self._most):
                yield index, start, min(start + self._most, starts[index + 1])

    def _sort(self) -> Job:
        """Kahn's count: in an acyclic batch, taking tasks without dependencies away in turn leaves none."""
        own = self._chunk.index_of
        missing = [0] * len(own)
        dependents: dict[TaskId, list[int]] = {}
        for index, start, stop in self._pieces():
            for other in self._needs[start:stop]:
                if other in own:
                    missing[index] += 1
                    dependents.setdefault(other, []).append(index)
            yield 2 + stop - start
        free = [index for index, count in enumerate(missing) if not count]
        order: list[int] = []
        while free:
            index = free.pop()
            order.append(index)
            following = dependents.get(self._chunk.ids[index], ())
            for dependent in following:
                missing[dependent] -= 1
                if not missing[dependent]:
                    free.append(dependent)
            yield 1 + len(following)
        self._order = order
        if len(order) < len(own):
            self.refusal = CIRCLE

    def _unpin(self, needs: Sequence[TaskId]) -> Job:
        for part in _slices(needs, self._most):
            self._tables.release(self._tables.dependencies.unused(part))
            yield 1 + 2 * len(part)

    # ------------------------------------------------------------ accepting

    def accept(self) -> Job:
        tables, client, chunk = self._tables, self._client, self._chunk
        graph_id = chunk.header.graph_id
        if graph_id and not self._is_graph_sealed:
            client.graphs.setdefault(graph_id, {})
        chunk.unfinished = 0
        tables.functions.enter(chunk, tables.history.now)
        tables.admitting[chunk] = None
        starts = chunk.need_starts() if chunk.has_dependencies else bytes(len(chunk.ids) + 1)
        for part in _slices(self._order, max(1, self._most // STEPS_PER_ADMITTED)):
            needs = [self._needs[starts[index] : starts[index + 1]] for index in part]
            if self._is_plain(part, needs):
                self._note(part)
                line_up(tables, chunk, part, needs)
                yield STEPS_PER_ADMITTED * len(part) + sum(map(len, needs))
            else:
                yield from self._accept_one_by_one(part)
        for ids in _slices(chunk.ids, self._most) if tables.presentation.tasks else ():
            presenting.match(tables, ids)
            yield 1 + len(ids)
        del tables.admitting[chunk]
        if graph_id and self._is_graph_sealed and not client.is_gone:
            yield from forgetting.seal(tables, client, graph_id)
        if tables.policy.waiting_limit >= 0:
            tables.arrived.append(chunk)
        endings.cancel_late(tables, chunk)
        yield 1

    def _is_plain(self, part: Sequence[int], needs: Sequence[Sequence[TaskId]]) -> bool:
        """None of these tasks is here already, and what they need is not looked at for long."""
        ids, where = self._chunk.ids, self._tables.where
        if self._client.is_gone or sum(map(len, needs)) > NEEDS_OF_A_PORTION * self._most:
            return False
        return where.keys().isdisjoint([ids[index] for index in part])

    def _accept_one_by_one(self, part: Sequence[int]) -> Job:
        tables, client, chunk = self._tables, self._client, self._chunk
        for index in part:
            needs = chunk.dependencies(index)
            if client.is_gone or chunk.ids[index] in tables.where:
                yield from self._make_room(chunk.ids[index])
            if client.is_gone or chunk.ids[index] in tables.where:
                yield from self._unpin(needs)  # a later session has it: this batch was on its way (SCH-48)
                continue
            self._note((index,))
            if len(needs) > self._most:
                yield from self._wait_in_slices(index, needs)
            else:
                line_up(tables, chunk, (index,), (needs,))
            yield STEPS_PER_TASK + 2 * len(needs)

    def _make_room(self, task_id: TaskId) -> Job:
        """A task of a client that came back under a new id before its former self was given up ends there (SCH-8)."""
        tables = self._tables
        if task_id not in tables.where or rights.foreign_task(tables, self._client, (task_id,)) is not None:
            return
        if not self._is_older(task_id):
            endings.abandon_all(tables, (task_id,))
            yield 2 * STEPS_PER_TASK
            while task_id in tables.failing:
                yield SHARE_STEPS

    def _note(self, part: Sequence[int]) -> None:
        tables, client, chunk = self._tables, self._client, self._chunk
        ids = [chunk.ids[index] for index in part]
        tables.where.update(dict.fromkeys(ids, chunk))
        client.begin(chunk, len(ids))
        chunk.unfinished += len(ids)
        tables.functions.submitted(chunk, part, tables.history.now)
        if chunk.header.parent_task:
            tables.children.setdefault(chunk.header.parent_task, {}).update(dict.fromkeys(ids))

    def _missing(self, needs: Sequence[TaskId]) -> list[TaskId]:
        where, has_failed = self._tables.where, self._tables.dependencies.has_failed
        return [other for other in needs if other in where or has_failed(other)]

    def _wait(self, index: int, missing: Sequence[TaskId]) -> None:
        tables = self._tables
        tables.dependencies.wait(self._chunk.ids[index], self._chunk, index, missing)
        tables.move(State.NEW, Move.SUBMIT_WAITING)
        self._wait_for(missing)

    def _wait_for(self, missing: Sequence[TaskId]) -> None:
        tables = self._tables
        failed = None
        for other in missing:
            if isinstance(place := tables.where.get(other), Worker):
                tables.note_tails(place, (other,))
            elif place is None and tables.dependencies.has_failed(other):
                failed = other
        if failed is not None:
            endings.fail_dependents_of(tables, failed)

    def _wait_in_slices(self, index: int, needs: Sequence[TaskId]) -> Job:
        """It waits for its own admission besides, so that it does not begin before all it needs is known."""
        tables, chunk = self._tables, self._chunk
        dependencies, task_id = tables.dependencies, chunk.ids[index]
        first = [admission_of(task_id)]
        if task_id in tables.abandoned:
            first.append(previous_life(task_id))
            tables.go_on_counting(task_id)
        self._wait(index, first)
        for part in _slices(needs, self._most):
            waiting = dependencies.waiting.get(task_id)
            if waiting is None or waiting.chunk is not chunk:
                return  # it has ended meanwhile
            missing = self._missing(part)
            dependencies.wait_for(task_id, missing)
            self._wait_for(missing)
            yield 1 + 2 * len(part)
        if task_id in dependencies.waiting:
            endings.resume_waiting(tables, dependencies.succeeded(first[:1]))


def _slices(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    return (items[start : start + most] for start in range(0, len(items), most))
