"""Workers present what they hold from a predecessor of this scheduler, and clients submit it again. (SCH-62 to SCH-70)

Theory of operation. A scheduler that dies leaves workers with tasks that run, wait there, or have ended there. Each
worker that comes names them (Holding), and each client submits every task that it waits for, as after any lost session.
A task that is found on both sides is adopted: it counts as dispatched to that worker, with its attempt, and is not run
again. A task that was presented and that no client has submitted waits in `Presented`. A task that was submitted and
that no worker has presented is queued like any other.

While workers may still come, queued tasks of clients of that predecessor are held: a worker that comes a moment later
may have begun them. That is *recovering*, and it is bounded: it ends when as many workers have come as the predecessor
had, or after two heartbeats.

With keys a worker proves with the grant of a client that it was given tasks of that client, and the tasks are adopted
only for clients of the same family. So what a worker names is of no effect for the tasks of programs that it has never
had a task of.

An adopted task leaves the chunk that it was submitted in for a chunk of its own, so that it can come back to the queue
as any other task does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, islice

from scaler_protocol.codes import HELD_ENDED
from scaler_protocol.columns import split_ids, split_u16
from scaler_protocol.ids import ID_BYTES, PeerId, TaskId
from scaler_protocol.messages import Cancel, Holding
from scaler_scheduler.core.ending import adopted, completion
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.states import Move, State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.backlog import STEPS_PER_TASK, Job
from scaler_scheduler.core.tables.presentation import Presented
from scaler_scheduler.core.tables.tables import Tables


def expect(tables: Tables, worker: Worker) -> None:
    """It comes from a predecessor, and gets nothing before it has told what it holds. (SCH-63)"""
    tables.presentation.expected[worker] = worker.limit, worker.nested_reserve
    worker.limit = worker.nested_reserve = 0


def holding(tables: Tables, worker: Worker, message: Holding) -> Job | None:
    presentation = tables.presentation
    if worker not in presentation.expected:
        tables.refused_count += 1  # of tasks of this life, or of none: the worker holds what it was dispatched
        return None
    worker.stale_left += len(message.ids) // ID_BYTES
    return _holding(tables, worker, message)


def _holding(tables: Tables, worker: Worker, message: Holding) -> Job:
    presentation = tables.presentation
    ids: Sequence[TaskId] = split_ids(message.ids)  # type: ignore[assignment]
    owners: Sequence[PeerId] = split_ids(message.clients)  # type: ignore[assignment]
    families = _families(tables, owners, message)
    yield 1 + STEPS_PER_TASK * len(families)
    attempts = split_u16(message.attempts) or (1,) * len(ids)
    states = message.states or bytes(len(ids))
    most = max(1, tables.backlog.slice_tasks // 4)
    refused: list[TaskId] = []
    for start in range(0, len(ids), most):
        if worker.is_gone:
            return
        rows = range(start, min(start + most, len(ids)))
        for row in rows:
            is_ended, owner = states[row] == HELD_ENDED, owners[row]
            family = families[owner]
            if family is None or presentation.is_full(worker) or presentation.of(worker, ids[row]) is not None:
                refused.append(ids[row])
            else:
                refused += _present(tables, ids[row], Presented(worker, attempts[row], is_ended, owner, family))
        match(tables, ids[start : start + most])
        yield 1 + 2 * STEPS_PER_TASK * len(rows)
    if worker.is_gone:
        return
    stop(tables, worker, refused)
    if message.is_last:
        worker.limit, worker.nested_reserve = presentation.expected.pop(worker)
        tables.presentation.has_presented.append(worker)
        tables.presentation.has_news = True
        worker.load_changed()


def _families(tables: Tables, owners: Sequence[PeerId], message: Holding) -> dict[PeerId, bytes | None]:
    """Of each client that is named: whose family it belongs to, as its grant proves; None if it is not its grant."""
    sizes = message.grant_sizes or bytes(len(owners))
    starts = accumulate(sizes, initial=0)
    family_of = tables.presentation.family_of
    return {
        owner: family_of(owner, message.grants[start : start + size])
        for owner, size, start in zip(dict.fromkeys(owners), sizes, starts, strict=False)
    }


def _present(tables: Tables, task_id: TaskId, presented: Presented) -> tuple[TaskId, ...]:
    """The id, if its worker is to stop it: another has the task, with this attempt or a later one. (SCH-69)"""
    other = tables.presentation.get(task_id, presented.family)
    if other is not None:
        if other.attempt >= presented.attempt and not other.worker.is_gone:
            return (task_id,)
        adopted.drop(tables, task_id, other)
        stop(tables, other.worker, (task_id,))
    place = tables.where.get(task_id)
    if isinstance(place, Worker):
        if place.held[task_id].client.proven_family != presented.family:
            return (task_id,)
        # A task that was dispatched in this life has its own count of attempts, and one that is being ended may end.
        if task_id not in tables.presentation.owners or tables.attempt(task_id) >= presented.attempt:
            return (task_id,)
        if task_id in tables.canceling:
            return (task_id,)
        _move(tables, task_id, place)
    if task_id in tables.abandoned:
        return (task_id,)
    tables.presentation.add(task_id, presented)
    return ()


def _move(tables: Tables, task_id: TaskId, worker: Worker) -> None:
    """Back to the queue, from a worker that presented an earlier attempt."""
    chunk = tables.take_back(worker, task_id)
    tables.presentation.disown(task_id)
    tables.where[task_id] = chunk
    tables.move(State.DISPATCHED, Move.GIVE_BACK)
    tables.enqueue(chunk, [chunk.index_of[task_id]], at_front=True)
    stop(tables, worker, (task_id,))
    worker.load_changed()


def stop(tables: Tables, worker: Worker, ids: Sequence[TaskId]) -> None:
    """Tells the worker to stop tasks that no client waits for there. Its answers change nothing."""
    if ids and not worker.is_gone:
        tables.tell(worker.peer_id, Cancel(ids=b"".join(ids), grace_seconds=0.0))


# ------------------------------------------------------------ adopting


def match(tables: Tables, ids: Iterable[TaskId]) -> None:
    """Those of these tasks that are presented and submitted are the worker's from now on. (SCH-66)"""
    presentation, where = tables.presentation, tables.where
    found: dict[tuple[Chunk, Worker], list[TaskId]] = {}
    for task_id in ids:
        place = where.get(task_id)
        if isinstance(place, Chunk):
            presented = presentation.get(task_id, place.client.proven_family)
            if presented is not None and not presented.worker.is_gone:
                found.setdefault((place, presented.worker), []).append(task_id)
    for (chunk, worker), own in found.items():
        if worker.can_ever_run(chunk.combination.key.requirement):
            _adopt(tables, chunk, worker, own)
        else:
            stop(tables, worker, own)
            for task_id in own:
                _drop(tables, worker, task_id)


def _adopt(tables: Tables, chunk: Chunk, worker: Worker, ids: Sequence[TaskId]) -> None:
    presentation = tables.presentation
    indexes = sorted(chunk.index_of[task_id] for task_id in ids)
    queued = []
    for index in indexes:
        if tables.dependencies.stop_waiting(chunk.ids[index]):
            tables.move(State.WAITING, Move.DISPATCH)
        else:
            queued.append(index)
    if queued:
        tables.ready.drop_all(chunk, queued)
        tables.move(State.QUEUED, Move.DISPATCH, len(queued))
    part = chunk.part(indexes)
    part.is_adopted = True
    part.client.begin(part, len(ids))
    tables.unfinish(chunk, len(ids))
    worker.held.update(dict.fromkeys(part.ids, part))
    tables.note_held(part, range(len(part.ids)), 1)
    if not worker.is_of_operator:
        worker.note_given(part, range(len(part.ids)))
    tables.where.update(dict.fromkeys(part.ids, worker))
    worker.commit(part, len(ids))
    rows = []
    for task_id in part.ids:
        presented = presentation.of(worker, task_id)
        assert presented is not None, "it was found there"
        presentation.take(task_id, presented)
        tables.attempts.pop(task_id, None)
        if presented.attempt != 1:
            tables.attempts[task_id] = presented.attempt
        presentation.own(task_id, presented.owner)
        if presented.row is not None:
            rows.append(presented.row)
    tables.note_tails(worker, filter(tables.dependencies.dependents.__contains__, part.ids))
    if rows:
        completion.end_rows(tables, worker, rows)
    worker.load_changed()


def drop_orphans(tables: Tables) -> Job:
    """The lease is over, and no client has asked for these. (SCH-68)"""
    presentation = tables.presentation
    most = tables.backlog.slice_tasks
    while presentation.tasks:
        worker, own = next(iter(presentation.of_worker.items()))
        ids = []
        for task_id, presented in tuple(islice(own.items(), most)):
            if not presented.is_ended:
                ids.append(task_id)
            adopted.drop(tables, task_id, presented)
        stop(tables, worker, ids)
        if not worker.is_gone:
            worker.load_changed()
        yield STEPS_PER_TASK * most


def _drop(tables: Tables, worker: Worker, task_id: TaskId) -> None:
    presented = tables.presentation.of(worker, task_id)
    assert presented is not None, "it was found there"
    adopted.drop(tables, task_id, presented)
