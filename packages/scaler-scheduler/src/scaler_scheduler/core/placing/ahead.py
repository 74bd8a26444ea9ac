"""Tasks sent ahead of their time, to the worker that holds all they wait for (SCH-36; decision 0009).

Only a task that is alone in waiting for another follows it: the next link of a chain, the sum of two neighbours. Where
many wait for one they could run side by side, so they are better placed when their time has come. And a place is given
to a follower only when no queued task could take it.
"""

from __future__ import annotations

from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.records import dataclass
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.states import State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.tables.tables import DISPATCH_STEPS, Tables

MOST_DEPENDENCIES = 16
"""A task with more waits for its time. For each of them that is with a worker all others are looked up: for the sum of
ten thousand values that took 10 s."""


@dataclass(frozen=True, slots=True)
class Follower:
    task_id: TaskId
    chunk: Chunk
    index: int
    awaited: tuple[TaskId, ...]  #: what it waits for: all of it with one worker


def send_ahead(tables: Tables) -> None:
    """Called when all that is queued has had its turn."""
    while tables.followable and tables.placing_left > 0:
        worker = next(iter(tables.followable))
        _send_followers(tables, worker)
        if tables.placing_left > 0:
            del tables.followable[worker]


def _send_followers(tables: Tables, worker: Worker) -> None:
    """Each may have a follower of its own, so `tails` grows meanwhile."""
    run = _Run(tables, worker)
    while worker.tails and tables.placing_left > 0:
        tail, _ = worker.tails.popitem()
        follower = _follower_of(tables, worker, tail)
        if follower is None:
            continue
        if not _room(tables, worker, follower.chunk):
            worker.tails[tail] = None
            break
        run.add(follower)
    run.send()


def _follower_of(tables: Tables, worker: Worker, tail: TaskId) -> Follower | None:
    task_id = tables.dependencies.dependents.get(tail)
    if task_id is None or isinstance(task_id, dict):
        return None
    waiting = tables.dependencies.waiting[task_id]
    chunk, index = waiting.chunk, waiting.index
    if chunk.dependency_count(index) > MOST_DEPENDENCIES:
        return None
    if chunk.client.is_held:
        return None  # it may be among those that are being ended (CAN-11)
    if tables.families.may_not_begin(chunk):
        return None
    awaited = tables.unfinished(chunk.dependencies(index))
    if len(awaited) != waiting.missing:
        return None  # it waits for its own former life as well, or for one that has failed
    if not all(tables.where[other] is worker and other not in tables.canceling for other in awaited):
        return None
    if not worker.can_ever_run(chunk.combination.key.requirement):
        return None
    return Follower(task_id, chunk, index, awaited)


def _room(tables: Tables, worker: Worker, chunk: Chunk) -> bool:
    key = chunk.combination.key
    return worker.free(is_nested=key.is_nested) > 0 and worker.fits(key.requirement) > 0


class _Run:
    """Followers that leave in one message: of one chunk, and within what the worker accepts."""

    def __init__(self, tables: Tables, worker: Worker) -> None:
        self._tables = tables
        self._worker = worker
        self._clear()

    def _clear(self) -> None:
        self._followers: list[Follower] = []
        self._payload_bytes = 0
        self._column_bytes = 0

    def add(self, follower: Follower) -> None:
        """Dispatched from now on, whether the message has left or not. One too large for a message waits its time."""
        tables, worker, chunk, index = self._tables, self._worker, follower.chunk, [follower.index]
        inputs = tables.dependencies.inputs(chunk, index, follower.awaited)
        payload_bytes = chunk.bytes_of(index) + inputs.payload_bytes
        column_bytes = inputs.envelope_bytes + ID_BYTES * len(follower.awaited)
        if not worker.takes(payload_bytes, column_bytes):
            return
        if self._followers and not self._has_room(chunk, payload_bytes, column_bytes):
            self.send()
        self._followers.append(follower)
        self._payload_bytes += payload_bytes
        self._column_bytes += column_bytes
        tables.dependencies.stop_waiting_for(follower.task_id, follower.awaited)
        tables.placing_left -= DISPATCH_STEPS
        tables.give(worker, chunk, index, (follower.task_id,), State.WAITING)

    def _has_room(self, chunk: Chunk, payload_bytes: int, column_bytes: int) -> bool:
        return (
            chunk is self._followers[0].chunk
            and len(self._followers) < self._worker.most_in_a_dispatch(chunk)
            and self._worker.takes(self._payload_bytes + payload_bytes, self._column_bytes + column_bytes)
        )

    def send(self) -> None:
        followers = self._followers
        if not followers:
            return
        self._clear()
        tables, worker, chunk = self._tables, self._worker, followers[0].chunk
        indexes = [follower.index for follower in followers]
        awaited = [follower.awaited for follower in followers]
        inputs = tables.dependencies.inputs(chunk, indexes, {other for own in awaited for other in own})
        attempts = tables.attempts_column([follower.task_id for follower in followers])
        header = tables.told_header(chunk, worker)
        tables.tell(worker.peer_id, chunk.cut(header, indexes, attempts, inputs, awaited))
        worker.load_changed()
