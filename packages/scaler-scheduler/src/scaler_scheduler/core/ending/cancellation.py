"""Cancelling: always answered, whatever state the task is in (CAN-1 to CAN-6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from scaler_protocol.codes import CANCEL_CANCELED, CANCEL_TOO_LATE, CANCEL_UNKNOWN
from scaler_protocol.columns import split_ids
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Cancel, CancelReply
from scaler_scheduler.core.ending import endings, forgetting, queued
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.results import canceled_row
from scaler_scheduler.core.entities.states import Move
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables import delivery
from scaler_scheduler.core.tables.backlog import STEPS_PER_TASK, Job
from scaler_scheduler.core.tables.tables import Tables


def cancel(tables: Tables, client: Client, message: Cancel) -> Job:
    """Unknown ids, and other clients' tasks, are answered UNKNOWN. `is_all` of nothing has an empty answer (CAN-3)."""
    return _Canceling(tables, client, message).work()


def cancel_unasked(tables: Tables, client: Client, message: Cancel) -> Job:
    """As if this client had sent it, but for the replies. (MON-50)"""
    return _Canceling(tables, client, message, is_asked=False).work()


def _named(tables: Tables, message: Cancel) -> Iterator[Sequence[TaskId]]:
    """The last first. An id that comes twice counts once (CAN-1)."""
    ids = split_ids(message.ids)
    most = tables.backlog.slice_tasks
    seen: set[bytes] = set()
    for stop in range(len(ids), 0, -most):
        run = dict.fromkeys(reversed(ids[max(0, stop - most) : stop]))
        yield [TaskId(task_id) for task_id in run if task_id not in seen]
        seen.update(run)


def _unfinished(tables: Tables, client: Client) -> Iterator[Sequence[TaskId]]:
    """All tasks of this client; those that end before their turn comes are passed over."""
    chunks = list(client.chunks)
    most = tables.backlog.slice_tasks
    while chunks:
        chunk = chunks.pop()
        for stop in range(len(chunk.ids), 0, -most):
            ids = chunk.ids[max(0, stop - most) : stop][::-1]
            yield [task_id for task_id in ids if forgetting.is_of(tables, task_id, chunk)]


class _Canceling:
    """One Cancel. The newest tasks come first: so each is reached before those it depends on, and the end of one does
    not end thousands of others. Workers are told last, when no canceled task is left that could take a free place."""

    def __init__(self, tables: Tables, client: Client, message: Cancel, *, is_asked: bool = True) -> None:
        self._tables = tables
        self._client = client
        self._message = message
        self._is_asked = is_asked
        self._running: dict[Worker, list[TaskId]] = {}
        self._ids: list[TaskId] = []
        self._outcomes = bytearray()
        self._is_known = False

    def work(self) -> Job:
        tables, where = self._tables, self._tables.where
        is_all = self._message.is_all
        for ids in _unfinished(tables, self._client) if is_all else _named(tables, self._message):
            for place, run in groupby(ids, where.get):
                yield from self._end(list(run), place)
        yield from self._tables.ready.discard(self._client)
        endings.tell_workers(self._tables, self._running, self._message.grace_seconds)
        if self._is_asked:
            yield from self._reply()

    def _end(self, ids: list[TaskId], place: Chunk | Worker | None) -> Job:
        """Neighbours that are in the same place."""
        self._is_known = True
        tables = self._tables
        chunk = place if isinstance(place, Chunk) and place.client is self._client else None
        if chunk is not None and queued.are_plainly_queued(tables, chunk, ids):
            queued.cancel_queued(tables, chunk, ids)
            self._answer(ids, CANCEL_CANCELED)
            yield 3 + len(ids)
            return
        if place is None:
            # With is_all, a dependent of a task cancelled just before has ended with it.
            self._answer(ids, CANCEL_CANCELED if self._message.is_all else CANCEL_UNKNOWN)
            yield 1 + len(ids) // 2
            return
        steps = 0
        for task_id in ids:
            steps += STEPS_PER_TASK + 2
            if chunk is not None and chunk.has_dependencies:
                steps += chunk.dependency_count(chunk.index_of[task_id])
            self._end_one(task_id)
            if steps > STEPS_PER_TASK * tables.backlog.slice_tasks // 2:
                yield steps
                steps = 1
        yield 1 + steps

    def _end_one(self, task_id: TaskId) -> None:
        tables = self._tables
        place = tables.where.get(task_id)
        chunk = None if place is None else tables.chunk_of(task_id)
        if chunk is None or chunk.client is not self._client:
            # With is_all, a dependent of a task cancelled just before has ended with it.
            self._answer((task_id,), CANCEL_CANCELED if self._message.is_all else CANCEL_UNKNOWN)
        elif isinstance(place, Worker):
            endings.mark_canceling(tables, task_id, is_asked=self._is_asked)
            self._running.setdefault(place, []).append(task_id)
        else:
            endings.end_unstarted(tables, task_id, chunk)
            self._answer((task_id,), CANCEL_CANCELED)

    def _answer(self, ids: Sequence[TaskId], outcome: int) -> None:
        self._ids += ids
        self._outcomes += bytes((outcome,)) * len(ids)

    def _reply(self) -> Job:
        most = self._client.rows_limit
        yield from self._correct_outcomes()
        self._ids.reverse()
        self._outcomes.reverse()
        if not self._is_known:
            self._tell(CancelReply(ids=b""))
        for begin in range(0, len(self._ids), most):
            ids, outcomes = self._ids[begin : begin + most], self._outcomes[begin : begin + most]
            self._tell(CancelReply(ids=b"".join(ids), outcomes=bytes(outcomes)))
            yield 1 + len(ids) // 16

    def _correct_outcomes(self) -> Job:
        """A task that is not here any more may have a result that its client has not been sent yet (SCH-45)."""
        most = self._tables.backlog.slice_tasks
        place = self._outcomes.find(CANCEL_UNKNOWN)
        unread: set[bytes] = set()
        for ids in delivery.waiting_ids(self._client) if place >= 0 else ():
            unread.update(ids)
            yield 1 + len(ids) // 8
        looked_at = 0
        while unread and place >= 0:
            if self._ids[place] in unread:
                self._outcomes[place] = CANCEL_TOO_LATE
            place = self._outcomes.find(CANCEL_UNKNOWN, place + 1)
            looked_at += 1
            if looked_at % most == 0:
                yield most

    def _tell(self, reply: CancelReply) -> None:
        if not self._client.is_gone:
            self._tables.answer(self._client, reply, len(reply.ids) // ID_BYTES)


def answered(tables: Tables, worker: Worker, message: CancelReply) -> Job | None:
    """A task that the worker knows ends by its result; one that it does not know ends here. If the task is not being
    canceled, it was dispatched again after the Cancel that is answered here. (CAN-12)"""
    outcomes = message.outcomes or bytes(len(message.ids) // ID_BYTES)
    if not any(outcomes):
        return None  # every result is on its way
    return _answered(tables, worker, split_ids(message.ids), outcomes)  # type: ignore[arg-type]


def _answered(tables: Tables, worker: Worker, ids: Sequence[TaskId], outcomes: bytes) -> Job:
    most = tables.backlog.slice_tasks
    for start in range(0, len(ids), most):
        run = zip(ids[start : start + most], outcomes[start : start + most], strict=True)
        unknown = [task_id for task_id, outcome in run if outcome == CANCEL_UNKNOWN and task_id in worker.held]
        for task_id in unknown:
            if task_id in tables.abandoned:
                endings.end_abandoned(tables, task_id, tables.take_back(worker, task_id))
            elif task_id in tables.canceling:
                chunk = tables.take_back(worker, task_id)
                endings.end_started(tables, chunk, canceled_row(task_id, tables.attempt(task_id)), Move.CONFIRM)
        worker.load_changed()
        yield 1 + most // 8 + 2 * STEPS_PER_TASK * len(unknown)
