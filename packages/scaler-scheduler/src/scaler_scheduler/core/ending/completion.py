"""A worker reports how tasks ended (SCH-6, SCH-13 to SCH-15).

Most reports are plain: all first attempts, all successes, nothing that waits for them. Those pass in bulk, untouched.
Where others wait, or no client waits, successes are still taken by the column. The rest is looked at row by row.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import repeat

from scaler_protocol.codes import (
    KIND_OBJECT,
    OVERLOADED,
    STATUS_CANCELED,
    STATUS_PROCESSOR_DIED,
    STATUS_REFUSED,
    STATUS_SUCCESS,
)
from scaler_protocol.columns import PROFILE_BYTES, split_ids
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Results
from scaler_scheduler.core.actions import Disconnect
from scaler_scheduler.core.ending import adopted, cut_off, endings, retrying, successes
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.moments import NOT_YET
from scaler_scheduler.core.entities.results import Row, lost_row, parts, picked, rows, stored_by
from scaler_scheduler.core.entities.states import Move, State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.history import ROWS_OF_A_MESSAGE, Told
from scaler_scheduler.core.tables.backlog import STEPS_PER_TASK, Job
from scaler_scheduler.core.tables.tables import Tables

_MOVES = {STATUS_SUCCESS: Move.SUCCEED, STATUS_CANCELED: Move.CONFIRM, STATUS_REFUSED: Move.REFUSE}


NO_OWNERS: Mapping[Chunk | None, int] = {}

#: So many successes that nothing else has to do with are taken by the column at once.
PLAIN_ROWS = 4_096
#: To look up tasks and the clients that they are for takes a step for so many.
LOOKED_UP_PER_STEP = 10
#: Of successes that others wait for, and of anything else: to read the error of a failure takes longest.
STEPS_PER_SUCCESS = 4
STEPS_PER_ROW = 4 * STEPS_PER_TASK
#: Rows that need a look each are taken by a fraction of a slice; successes for one client by so many slices.
SLICES = 4
SLICES_OF_SUCCESSES = 2


def results(tables: Tables, worker: Worker, message: Results) -> Job | None:
    limit = worker.limit
    if message.credit:
        worker.limit = message.credit
    if worker.limit != limit:
        worker.load_changed()  # there may be room before the first of these tasks is looked at
    worker.results_count += 1
    count = len(message.ids) // ID_BYTES
    if count > PLAIN_ROWS:
        return _in_slices(tables, worker, message)
    ids: Sequence[TaskId] = split_ids(message.ids)  # type: ignore[assignment]
    owners = Counter(map(worker.held.get, ids)) if count > 1 else {worker.held.get(ids[0]): 1}
    client = _client_of_successes(tables, message, ids, owners)
    if client is not None and _are_plain(tables, ids, owners):
        _end_in_bulk(tables, worker, ids, owners, message)
        tables.tell(client.peer_id, _without_credit(message))
    elif count > _most_rows(tables, client):
        return _in_slices(tables, worker, message)
    else:
        _end(tables, worker, message, ids, owners, client)
    _has_ended(tables, worker, owners)
    return None


def _most_rows(tables: Tables, client: Client | None) -> int:
    """In one slice."""
    most = tables.backlog.slice_tasks
    return SLICES_OF_SUCCESSES * most if client is not None else max(1, most // SLICES)


def _in_slices(tables: Tables, worker: Worker, message: Results) -> Job:
    """Each slice is looked at for itself: what is plain at first may not be so a turn later."""
    for part in parts(message, PLAIN_ROWS):
        ids: Sequence[TaskId] = split_ids(part.ids)  # type: ignore[assignment]
        if not _are_some_known(tables, worker, ids):
            yield 1 + len(ids) // LOOKED_UP_PER_STEP
            continue
        owners = Counter(map(worker.held.get, ids))
        client = _client_of_successes(tables, part, ids, owners)
        if client is not None and _are_plain(tables, ids, owners):
            _end_in_bulk(tables, worker, ids, owners, part)
            tables.tell(client.peer_id, _without_credit(part))
            _has_ended(tables, worker, owners)
            yield 1 + len(ids) // 4
        else:
            yield 1 + 2 * len(ids) // LOOKED_UP_PER_STEP
            known = _known(tables, worker, ids) if None in owners else range(len(ids))
            if known:
                left = part if len(known) == len(ids) else picked(part, known)
                yield from _in_small_slices(tables, worker, left, _most_rows(tables, client))


def _are_some_known(tables: Tables, worker: Worker, ids: Sequence[TaskId]) -> bool:
    """Some of these tasks have not ended. Nothing is to be done for the others: a worker that reports many tasks which
    it does not hold costs the scheduler little more than to read its messages. (SCH-6)"""
    held, where, presented = worker.held, tables.where, tables.presentation.of_worker.get(worker)
    if not held.keys().isdisjoint(ids) or not where.keys().isdisjoint(ids):
        return True
    if presented is not None and not presented.keys().isdisjoint(ids):
        return True
    _note_stale(tables, worker, len(ids))
    return False


def _known(tables: Tables, worker: Worker, ids: Sequence[TaskId]) -> Sequence[int]:
    """The rows of tasks that have not ended."""
    held, where, presented = worker.held, tables.where, tables.presentation.of_worker.get(worker, ())
    known = [row for row, task_id in enumerate(ids) if task_id in held or task_id in where or task_id in presented]
    if len(known) < len(ids):
        _note_stale(tables, worker, len(ids) - len(known))
    return known


def _in_small_slices(tables: Tables, worker: Worker, message: Results, most: int) -> Job:
    for part in parts(message, most):
        ids: Sequence[TaskId] = split_ids(part.ids)  # type: ignore[assignment]
        owners = Counter(map(worker.held.get, ids))
        client = _client_of_successes(tables, part, ids, owners)
        held = len(ids) - owners.get(None, 0)
        _end(tables, worker, part, ids, owners, client)
        _has_ended(tables, worker, owners)
        yield 3 * len(ids) + held * (STEPS_PER_ROW if client is None else STEPS_PER_SUCCESS)


def _end(
    tables: Tables,
    worker: Worker,
    message: Results,
    ids: Sequence[TaskId],
    owners: Mapping[Chunk | None, int],
    client: Client | None,
) -> None:
    """By the column if all are successes for this client, else row by row."""
    if client is None:
        for row in rows(message, _known(tables, worker, ids) if None in owners else None):
            _end_one(tables, worker, row)
        return
    chunks = [worker.held[task_id] for task_id in ids]
    indexes = _indexes(worker, ids, owners)
    _end_in_bulk(tables, worker, ids, owners, message, indexes)
    wanted = successes.pass_on(tables, message, ids, chunks, indexes)
    if len(wanted) == len(ids):
        tables.tell(client.peer_id, _without_credit(message))
    elif wanted:
        tables.tell(client.peer_id, picked(message, wanted))


def end_rows(tables: Tables, worker: Worker, ended: Sequence[Row]) -> None:
    """The worker holds these, and has told before how they ended."""
    for row in ended:
        _end_one(tables, worker, row)
    _has_ended(tables, worker)


def claimed(tables: Tables, request_id: int, *, is_there: bool) -> None:
    """The storage has answered: the client owns the value of an adopted task, or the value is lost, and made again."""
    claim = tables.presentation.take_claim(request_id)
    worker, row = claim.worker, claim.row
    chunk = worker.held.get(row.task_id)
    if chunk is None or row.task_id not in tables.presentation.owners or row.attempt != tables.attempt(row.task_id):
        return  # it has ended another way
    adopted.disown(tables, chunk, row)
    if is_there or row.task_id in tables.canceling:
        end_rows(tables, worker, (row,))
        return
    tables.take_back(worker, row.task_id)
    if not _begins_anew(tables, chunk, row):
        lost = (*tables.lost_workers.get(row.task_id, ()), f"{worker.name}: the value that it had stored is lost")
        endings.end_started(tables, chunk, lost_row(row.task_id, row.attempt, lost), Move.GIVE_UP)
    _has_ended(tables, worker)


def _begins_anew(tables: Tables, chunk: Chunk, row: Row) -> bool:
    """Begins a further attempt of a task whose last attempt's work is lost by no fault of its worker. Returns False if
    that attempt was the last: then the task ends."""
    if not tables.begin_attempt(row.task_id, row.attempt):
        return False
    endings.requeue(tables, row.task_id, chunk, Move.LOSE_WORKER)
    endings.cancel_children(tables, row.task_id)
    return True


def _has_ended(tables: Tables, worker: Worker, owners: Mapping[Chunk | None, int] = NO_OWNERS) -> None:
    """What the worker took for these is charged to the programs of which they are. (SCH-91)"""
    shares = tables.shares
    if owners and shares.is_contended:
        seconds = worker.worked(shares) / sum(owners.values())
        for chunk, tasks in owners.items():
            if chunk is not None:
                chunk.client.share.charge(tasks, seconds * tasks)
    elif owners:
        worker.worked_until = shares.now
    if not worker.held:
        tables.has_idled = True
    worker.load_changed(has_just_worked=True)


def _without_credit(message: Results) -> Results:
    """The credit is between the worker and us."""
    return Results(
        ids=message.ids,
        payload=message.payload,
        sizes=message.sizes,
        attempts=message.attempts,
        statuses=message.statuses,
        kinds=message.kinds,
        profiles=message.profiles,
    )


def _client_of_successes(
    tables: Tables, message: Results, ids: Sequence[TaskId], owners: Mapping[Chunk | None, int]
) -> Client | None:
    """The one client all of this is for, when every task has succeeded at its first attempt, and nothing happened to
    any of them before: no lost worker, no Cancel, no child. None: they are to be looked at one by one."""
    if message.statuses or message.attempts:
        return None
    client = None
    for chunk in owners:
        if chunk is None or chunk.header.parent_task or client not in (None, chunk.client):
            return None
        client = chunk.client
    if client is None or client.is_gone:
        return None
    sparse = (
        tables.attempts, tables.lost_workers, tables.canceling, tables.abandoned, tables.children,
        tables.presentation.owners,
    )  # fmt: skip
    return client if all(table.keys().isdisjoint(ids) for table in sparse if table) else None


def _are_plain(tables: Tables, ids: Sequence[TaskId], owners: Mapping[Chunk | None, int]) -> bool:
    users = tables.dependencies.users
    return all(chunk is not None and chunk.is_plain for chunk in owners) and users.keys().isdisjoint(ids)


def _indexes(
    worker: Worker, ids: Sequence[TaskId], owners: Mapping[Chunk | None, int]
) -> dict[Chunk | None, list[int]]:
    """Which tasks of their batches these are, of which the worker holds all."""
    if len(owners) == 1:
        return {chunk: list(map(chunk.index_of.__getitem__, ids)) for chunk in owners if chunk is not None}
    found: dict[Chunk | None, list[int]] = {chunk: [] for chunk in owners}
    for task_id in ids:
        chunk = worker.held[task_id]
        found[chunk].append(chunk.index_of[task_id])
    return found


def _end_in_bulk(
    tables: Tables,
    worker: Worker,
    ids: Sequence[TaskId],
    owners: Mapping[Chunk | None, int],
    message: Results,
    indexes: Mapping[Chunk | None, Sequence[int]] | None = None,
) -> None:
    _count(tables, worker, ids, owners, indexes)
    if KIND_OBJECT in message.kinds:
        for row in rows(message, [index for index, kind in enumerate(message.kinds) if kind == KIND_OBJECT]):
            _note_result(tables, worker.held[row.task_id], row)
    deque(map(worker.held.__delitem__, ids), 0)
    deque(map(tables.where.__delitem__, ids), 0)
    if tables.retried:
        deque(map(tables.retried.pop, ids, repeat(None)), 0)
        deque(map(tables.deaths.pop, ids, repeat(None)), 0)
    if worker.tails:
        deque(map(worker.tails.pop, ids, repeat(None)), 0)
    if worker.lenders:
        deque(map(worker.lenders.pop, ids, repeat(None)), 0)
    worker.recalling.difference_update(ids)
    worker.completed_count += len(ids)
    tables.move(State.DISPATCHED, Move.SUCCEED, len(ids))
    for chunk, tasks in owners.items():
        assert chunk is not None, "what ends in bulk is held by this worker"
        worker.commit(chunk, -tasks)
        tables.unfinish(chunk, tasks)
    first = next(iter(owners))
    assert first is not None
    several = first.batch.function_indexes
    function = first.function_id(first.index_of[ids[0]]) if several else first.batch.functions
    shown = ids[: 1 if several or len(owners) > 1 else ROWS_OF_A_MESSAGE]  # of one function
    count = len(shown)
    measured = message.profiles[: PROFILE_BYTES * count]
    client = first.client
    history = tables.history
    told: float | Told = first.dispatched if not isinstance(first.dispatched, array) else NOT_YET
    if (told is NOT_YET or first.has_dependencies or first.batch.keys) and history.told_left > 0:
        told = history.told(first, shown)
    history.successes.append((
        worker.peer_id, worker.name, worker.heard_at, len(ids), shown, function, measured, client.peer_id,
        client.share.of_user.user, first.submitted_at, told, message.sizes[: 4 * count], message.kinds[:count],
    ))  # fmt: skip


def _count(
    tables: Tables,
    worker: Worker,
    ids: Sequence[TaskId],
    owners: Mapping[Chunk | None, int],
    indexes: Mapping[Chunk | None, Sequence[int]] | None,
) -> None:
    """Their functions have so many successes more, for monitors. Before the worker has them no longer."""
    now = tables.history.now
    for chunk, tasks in owners.items():
        assert chunk is not None, "what ends in bulk is held by this worker"
        if chunk.counts is not None:
            counts = [(chunk.counts, tasks)]
        else:
            indexes = indexes or _indexes(worker, ids, owners)
            counts = chunk.rows_at(indexes[chunk])
        for row, of_row in counts:
            row.dispatched -= of_row
            row.given_at -= of_row * now
            row.ended[State.SUCCESS] += of_row
            row.open_at += of_row * now


def _end_one(tables: Tables, worker: Worker, row: Row) -> None:
    chunk = worker.held.get(row.task_id)
    abandoned = tables.abandoned.get(row.task_id)  # its attempt, if no client waits for its end
    if chunk is None and tables.presentation.tasks and adopted.ended(tables, worker, row):
        return
    if chunk is None or row.attempt != (abandoned or tables.attempt(row.task_id)):
        _drop_stale(tables, worker, chunk, row)
        return
    if row.kind == KIND_OBJECT:
        _note_result(tables, chunk, row)
    is_adopted = row.task_id in tables.presentation.owners
    if is_adopted:
        if adopted.must_claim(tables, worker, chunk, row):
            return
        adopted.disown(tables, chunk, row)
    tables.take_back(worker, row.task_id)
    worker.completed_count += 1
    if abandoned:
        tables.presentation.has_other_results = tables.presentation.has_news = True
        endings.end_abandoned(tables, row.task_id, chunk)
        return
    if row.status == STATUS_PROCESSOR_DIED:
        # It may have stored a large value and not reported it, as a worker that is lost may have (OWN-6, OWN-7).
        tables.release([(chunk, chunk.value_id(row.task_id, row.attempt))])
    may_begin_anew = is_adopted and row.task_id not in tables.canceling and cut_off.has_no_owner(row)
    if may_begin_anew and _begins_anew(tables, chunk, row):
        return
    if cut_off.is_cut_off(row) and cut_off.run_elsewhere(tables, worker, chunk, row):
        return
    if retrying.may_retry(tables, chunk, row):
        retrying.retry(tables, worker, chunk, row)
    else:
        if row.status == STATUS_PROCESSOR_DIED:
            retrying.note_death(tables, worker, chunk, row, 0)
            row = retrying.with_earlier_deaths(tables, worker, chunk, row)
        endings.end_started(tables, chunk, row, _move_of(row), worker.name)


def _note_result(tables: Tables, chunk: Chunk, row: Row) -> None:
    """For monitors. A worker may name any object: only that of this attempt is its result."""
    if row.value == chunk.value_id(row.task_id, row.attempt):
        tables.known_objects.note_result(bytes(row.value), chunk.function_id(chunk.index_of[row.task_id]))


def _drop_stale(tables: Tables, worker: Worker, chunk: Chunk | None, row: Row) -> None:
    """A result of an attempt that is not current, or of a task this worker does not hold (SCH-6). A worker may name any
    object here: only that of this attempt is released, and not that which the task's present worker stores (OWN-7)."""
    _note_stale(tables, worker, 1)
    if chunk is None and row.task_id in tables.where and row.attempt != tables.attempt(row.task_id):
        chunk = tables.chunk_of(row.task_id)
    if chunk is not None and stored_by(row) == chunk.value_id(row.task_id, row.attempt):
        tables.release_unused(chunk, row)


def _note_stale(tables: Tables, worker: Worker, count: int) -> None:
    """The worker is told all the same that it need not keep so many results. (SCH-72) One that goes on and on reports
    what it was never given, and loses its session: what it has sent behind that is dropped unread. (LIM-24)"""
    tables.presentation.has_other_results = tables.presentation.has_news = True
    before = worker.stale_left
    worker.stale_left -= count
    if worker.stale_left < 0 <= before and not worker.is_gone:
        text = (
            "too many results of tasks that this worker does not hold: report what was dispatched, and each task once"
        )
        tables.act(Disconnect(worker.peer_id, OVERLOADED, text))


def _move_of(row: Row) -> Move:
    return _MOVES.get(row.status, Move.FAIL)
