"""How a task ends: its client is told, those that wait for it go on or end too, its children are cancelled.

What follows from the end of one task may be the end of a million others, which may have children and dependents
themselves. That is work for the backlog: it is done in slices, and nothing here calls itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from scaler_protocol.codes import CANCEL_CANCELED, CANCEL_TOO_LATE, STATUS_CANCELED, STATUS_SUCCESS
from scaler_protocol.columns import join_ids
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import Cancel, CancelReply, TaskError
from scaler_scheduler.core.ending import queued
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.moments import marked
from scaler_scheduler.core.entities.results import Row, canceled_row, refused_row, row_of_dependent
from scaler_scheduler.core.entities.states import Move, State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.records import accounts_of
from scaler_scheduler.core.tables.backlog import STEPS_PER_TASK, Job
from scaler_scheduler.core.tables.dependencies import Kept, Ready
from scaler_scheduler.core.tables.tables import TASKS_TAKEN_IN_A_MESSAGE, Place, Tables

#: How long a running task may take to stop when no client is there to say (CAN-4).
DEFAULT_GRACE_SECONDS = Cancel().grace_seconds


def end_started(tables: Tables, chunk: Chunk, row: Row, move: Move, worker: str = "") -> None:
    """A DISPATCHED or CANCELING task, which no worker has any longer, ends as `row` says. If it was canceled, or a task
    above it has ended so, children that are on their way are canceled too. (CAN-13) `worker`: the one that ran it."""
    task_id = row.task_id
    replies = tables.canceling.pop(task_id, None)
    state = tables.move(State.DISPATCHED if replies is None else State.CANCELING, move)
    parent_task = chunk.header.parent_task
    if replies is not None or (parent_task and tables.families.has_ended(parent_task)):
        tables.families.note_end(task_id)
    _end(tables, chunk, row, state, worker)
    outcome = CANCEL_CANCELED if row.status == STATUS_CANCELED else CANCEL_TOO_LATE
    for _ in range(0 if chunk.client.is_gone else replies or 0):
        tables.answer(chunk.client, CancelReply(ids=task_id, outcomes=bytes([outcome])))


def refuse_queued(tables: Tables, task_id: TaskId, chunk: Chunk, error: TaskError) -> None:
    """A QUEUED task that has left the queue cannot be given to any worker (PAY-4)."""
    state = tables.move(State.QUEUED, Move.REFUSE)
    _end(tables, chunk, refused_row(task_id, tables.attempt(task_id), error), state)


def end_unstarted(tables: Tables, task_id: TaskId, chunk: Chunk) -> None:
    """A WAITING or QUEUED task is cancelled."""
    if tables.dependencies.stop_waiting(task_id):
        state = tables.move(State.WAITING, Move.CANCEL)
    else:
        tables.ready.drop(chunk, chunk.index_of[task_id])
        state = tables.move(State.QUEUED, Move.CANCEL)
    attempt = tables.attempts.get(task_id, 1)
    if attempt > 1:
        tables.families.note_end(task_id)
    _end(tables, chunk, canceled_row(task_id, attempt), state)


def requeue(
    tables: Tables, task_id: TaskId, chunk: Chunk, move: Move, enqueue: Callable[[Chunk, int], None] | None = None
) -> None:
    """A DISPATCHED task that no worker has any longer: before everything that has not had its turn yet, unless
    `enqueue` knows better. One that was sent ahead waits again, or ends as what it waited for has ended (SCH-37)."""
    index = chunk.index_of[task_id]
    needs = chunk.dependencies(index)
    failed = list(filter(tables.dependencies.has_failed, needs))
    missing = [*tables.unfinished(needs), *failed]
    tables.where[task_id] = chunk
    if not missing:
        tables.move(State.DISPATCHED, move)
        if enqueue is None:
            tables.enqueue(chunk, [index], at_front=True)
        else:
            enqueue(chunk, index)
        return
    tables.move(State.DISPATCHED, Move.WAIT_AGAIN)
    tables.dependencies.wait(task_id, chunk, index, missing)
    if failed:
        fail_dependents_of(tables, failed[0])


def _end(tables: Tables, chunk: Chunk, row: Row, state: State, worker: str = "") -> None:
    # As `note_ended`, which would be one more call for each.
    counts = chunk.counts or chunk.rows[chunk.row_numbers[chunk.index_of[row.task_id]]]
    counts.ended[state] += 1
    counts.open_at += tables.history.now
    if row.status == STATUS_SUCCESS:
        is_wanted = chunk.is_wanted(chunk.index_of[row.task_id])
        if is_wanted:
            tables.deliver(chunk.client, row)
        _succeed(tables, chunk, row, is_wanted)
        if row.attempt > 1:
            _note_recovery(tables, chunk, row, worker)
    else:
        tables.deliver(chunk.client, row)
        if row.status != STATUS_CANCELED:
            _note_failure(tables, chunk, row, worker)
        elif chunk.header.graph_id:  # as `note_outcomes`, which would be one more call for each
            tables.history.outcomes[row.task_id] = STATUS_CANCELED
            chunk.canceled_count += 1
        _fail_dependents(tables, chunk, row)
    tables.forget(row.task_id, chunk)
    cancel_children(tables, row.task_id)


def _note_failure(tables: Tables, chunk: Chunk, row: Row, worker: str) -> None:
    if chunk.header.graph_id:
        tables.history.note_outcomes(chunk, (row.task_id,), row.status)
    lost, deaths = tables.lost_workers.get(row.task_id, ()), tables.deaths.get(row.task_id)
    tables.history.failed(chunk, row, worker, lost, deaths)


def _note_recovery(tables: Tables, chunk: Chunk, row: Row, worker: str) -> None:
    accounts = accounts_of(tables.lost_workers.get(row.task_id, ()), tables.deaths.get(row.task_id))
    if accounts:
        tables.history.recovered(chunk, row, worker, accounts)


def _succeed(tables: Tables, chunk: Chunk, row: Row, is_wanted: bool) -> None:
    dependencies = tables.dependencies
    if dependencies.has_use_for(row.task_id, chunk):
        dependencies.keep(row.task_id, _kept(chunk, row))
        resume_waiting(tables, dependencies.succeeded((row.task_id,)))
    elif not is_wanted:
        tables.release_unused(chunk, row)


def resume_waiting(tables: Tables, ready: Ready) -> None:
    """The last dependency of these succeeded. They go first, for they free what they take as input: else a reduction
    of a million values would keep all of them before it adds the first two. (SCH-11)"""
    for chunk, indexes in ready.items():
        tables.enqueue(chunk, indexes, at_front=chunk.has_dependencies)
        tables.move(State.WAITING, Move.DEPENDENCIES_MET, len(indexes))
        seconds = tables.history.now - chunk.submitted_at
        chunk.ready = marked(chunk.ready, len(chunk.ids), indexes, seconds)


def _fail_dependents(tables: Tables, chunk: Chunk, row: Row) -> None:
    """Everything that waited for it, directly or not, ends with the error that began it (SCH-19)."""
    if chunk.client.is_gone:
        return  # what waited for it is of the same client, and is being forgotten itself
    _keep_failure(tables, chunk, row)
    if row.task_id in tables.dependencies.dependents:
        tables.failing[row.task_id] = None
        tables.backlog.start(chunk.client, _failing(tables, chunk.client, row), is_first=True)


def _failing(tables: Tables, client: Client, row: Row) -> Job:
    """One after another, those that wait for one that has just ended before its neighbours."""
    next_failed = tables.dependencies.next_failed
    failed = [row.task_id]
    row = row_of_dependent(row)
    move = Move.CANCEL if row.status == STATUS_CANCELED else Move.DEPENDENCY_FAILED
    failing = tables.failing
    steps = 0
    while failed and not client.is_gone:
        steps += STEPS_PER_TASK
        doomed = next_failed(failed[-1])
        if doomed is None:
            failing.pop(failed.pop(), None)
        else:
            task_id, chunk = doomed
            index = chunk.index_of[task_id]
            failed.append(task_id)
            failing[task_id] = None
            steps += chunk.dependency_count(index)
            row = row._replace(task_id=task_id, attempt=tables.attempt(task_id))
            _keep_failure(tables, chunk, row)
            if chunk.header.graph_id:
                tables.history.note_outcomes(chunk, (task_id,), row.status)
            tables.note_ended(chunk, task_id, tables.move(State.WAITING, move))
            if move is Move.CANCEL or chunk.is_wanted(index):  # a Cancel may be answered CANCELED for it (CAN-2)
                tables.deliver(chunk.client, row)
            tables.forget(task_id, chunk)
        if steps >= 2 * tables.backlog.slice_tasks:
            yield steps
            steps = 0
    for task_id in failed:
        failing.pop(task_id, None)
    yield steps + 1


def _keep_failure(tables: Tables, chunk: Chunk, row: Row) -> None:
    """Tasks that depend on it may come while its graph grows, or come back from a worker they were sent to ahead of
    their time. They are to hear why they end (SCH-19)."""
    if tables.dependencies.has_use_for(row.task_id, chunk):
        tables.dependencies.keep(row.task_id, _kept(chunk, row))


def fail_dependents_of(tables: Tables, task_id: TaskId) -> None:
    """Of a task that ended earlier without success, and is kept for those that depend on it."""
    kept = tables.dependencies.kept[task_id]
    _fail_dependents(tables, kept.chunk, Row(task_id, 1, kept.status, kept.kind, kept.value, b""))


def _kept(chunk: Chunk, row: Row) -> Kept:
    is_wanted = chunk.is_wanted(chunk.index_of[row.task_id])
    return Kept(chunk, row.kind, bytes(row.value), is_wanted, row.status)


def cancel_children(tables: Tables, parent_task: TaskId) -> None:
    """Cancel the tasks that an ended task has submitted: their submitter cannot wait for them any more (CAN-7). Nearly
    always they all belong to one client. Its queued tasks are held until this is done, so that none of them takes a
    place that has just become free."""
    children = tables.children.pop(parent_task, None)
    if children:
        tables.families.note_end(parent_task)
        client = tables.chunk_of(next(iter(children))).client
        tables.backlog.start(client, _canceling(tables, tuple(children)))


def cancel_late(tables: Tables, chunk: Chunk) -> None:
    """These have just come. If the task that has submitted them was canceled and has ended, they end too. (CAN-13)"""
    if tables.families.has_ended(chunk.header.parent_task):
        cancel_children(tables, chunk.header.parent_task)


def _canceling(tables: Tables, children: Sequence[TaskId]) -> Job:
    """The newest first: so each is reached before those it depends on."""
    running: dict[Worker, list[TaskId]] = {}
    most = tables.backlog.slice_tasks
    for stop in range(len(children), 0, -most):
        ids = children[max(0, stop - most) : stop][::-1]
        for place, run in groupby(ids, tables.where.get):
            yield _cancel_run(tables, place, list(run), running)
    tell_workers(tables, {worker: held[::-1] for worker, held in running.items()}, DEFAULT_GRACE_SECONDS)


def _cancel_run(tables: Tables, place: Place | None, ids: list[TaskId], running: dict[Worker, list[TaskId]]) -> int:
    """Children that are in the same place. Answers how many steps it took."""
    if place is None:  # they have ended meanwhile
        return 1 + len(ids) // 8
    if isinstance(place, Worker):
        for task_id in ids:
            mark_canceling(tables, task_id, is_asked=False)
        running.setdefault(place, []).extend(ids)
        return 1 + len(ids)
    if queued.are_plainly_queued(tables, place, ids):
        queued.cancel_queued(tables, place, ids)
        return 3 + len(ids)
    for task_id in ids:
        if tables.where.get(task_id) is place:  # else it depended on one of these
            end_unstarted(tables, task_id, place)
    return STEPS_PER_TASK * len(ids)


def _abandon(tables: Tables, task_id: TaskId, worker: Worker) -> None:
    """From here on only its worker knows of it."""
    chunk = worker.held[task_id]
    if tables.canceling.pop(task_id, None) is None:
        tables.move(State.DISPATCHED, Move.CANCEL)
    tables.abandoned[task_id] = tables.attempt(task_id)
    _fail_dependents(tables, chunk, canceled_row(task_id, 1))
    tables.forget(task_id, chunk)
    cancel_children(tables, task_id)


def abandon_all(tables: Tables, ids: Iterable[TaskId]) -> None:
    """Their client went, or took them over under another id: what no worker has is forgotten, what some worker has is
    cancelled there (SCH-8, SCH-22)."""
    running: dict[Worker, list[TaskId]] = {}
    for task_id in ids:
        place = tables.where.get(task_id)  # none: a dependent of one before it has ended with that
        if isinstance(place, Worker):
            _abandon(tables, task_id, place)
            running.setdefault(place, []).append(task_id)
        elif place is not None:
            end_unstarted(tables, task_id, place)
    tell_workers(tables, running, DEFAULT_GRACE_SECONDS)


def end_abandoned(tables: Tables, task_id: TaskId, chunk: Chunk) -> None:
    """It is out of its worker's hands. If it was submitted again under its id, that may start now (SCH-8); children
    that have come since are its own, and not those of its next life."""
    del tables.abandoned[task_id]
    tables.families.note_end(task_id)
    cancel_children(tables, task_id)
    tables.note_ended(chunk, task_id, tables.move(State.CANCELING, Move.CONFIRM))
    resume_waiting(tables, tables.dependencies.previous_life_ended(task_id))


def mark_canceling(tables: Tables, task_id: TaskId, *, is_asked: bool) -> None:
    if task_id not in tables.canceling:
        tables.move(State.DISPATCHED, Move.CANCEL)
    tables.canceling[task_id] = tables.canceling.get(task_id, 0) + is_asked


def tell_workers(tables: Tables, running: dict[Worker, list[TaskId]], grace_seconds: float) -> None:
    for worker, ids in running.items():
        if tables.workers.get(worker.peer_id) is not worker:
            continue  # it was lost since, and its tasks have ended with it
        for start in range(0, len(ids), TASKS_TAKEN_IN_A_MESSAGE):
            part = join_ids(ids[start : start + TASKS_TAKEN_IN_A_MESSAGE])
            tables.tell(worker.peer_id, Cancel(ids=part, grace_seconds=grace_seconds))
