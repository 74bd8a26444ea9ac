"""What has become of tasks, for monitors, also for one that comes afterwards (MON-32 to MON-35).

Failures are kept one by one, because each may be the one that a person looks for. Of successes the last are kept, some
of each message of a worker. All of it is bounded, whatever clients, tasks and workers send.

Users share the room for failures: where there is too little, the user that has the most of it loses some. So a user
that has less than an equal part keeps all, whatever others do. Without keys all clients are of one user.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain, islice, takewhile
from operator import itemgetter
from typing import NamedTuple

from scaler_protocol.codec import CodecError, decode_task_error
from scaler_protocol.codes import (
    DEPENDENCY_FAILED,
    KIND_INLINE,
    KIND_OBJECT,
    STATUS_CANCELED,
    STATUS_REFUSED,
    STATUS_SUCCESS,
)
from scaler_protocol.columns import PROFILE_BYTES, measured, split_u32
from scaler_protocol.ids import ID_BYTES, ObjectId, PeerId, TaskId
from scaler_protocol.messages import SampleBlock, TaskError, TaskFailure
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.moments import ago, moments_of
from scaler_scheduler.core.entities.results import Row
from scaler_scheduler.core.notes.deaths import Deaths
from scaler_scheduler.core.notes.display import DisplayIds
from scaler_scheduler.core.notes.encoded_size import FAILURE_BYTES, size_of_failure
from scaler_scheduler.core.notes.records import accounts_of, aged, cut, record_of

FAILURES_KEPT = 2_000
WHOLE_KEPT = 32
"""The last failures keep their texts, of at most 32 KiB each."""
FAILURES_PER_SECOND = 200
"""More than this are counted, and not described."""
BURST = 200
FAILURES_OF_EACH = 5
"""Of each user so many a second more are described, as many as the above of all users together."""
TYPE_CHARACTERS, LINE_CHARACTERS, TEXT_CHARACTERS = 200, 300, 4_000
OUTCOMES_KEPT = 65_536
"""Tasks of graphs that did not succeed: of more than that, it is forgotten how the first ended."""
SUCCESSES_KEPT = 2_000
"""Messages of workers; of each, so many tasks:"""
ROWS_OF_A_MESSAGE = 4
TOLD_PER_SECOND = 200
"""Messages of workers of whose tasks it is looked up when they were ready and dispatched, and what their keys are."""
FAILED_KEPT = 50
"""Tasks of each batch of a graph, the first that failed: they are shown also when the graph is too large."""
GRAPHS_TOLD = 64
"""Batches of graphs that have just ended, until they are published."""
GRAPHS_KEPT, GRAPH_TASKS, GRAPH_SECONDS = 1_024, 131_072, 12.0
"""Batches of graphs that have ended, for those who ask (MON-63), with so many tasks together, or the last batch; for so
long."""
RECOVERED_KEPT = 1_000
"""Tasks that succeeded after lost attempts, the last ones."""
_ROW = struct.Struct("<16s16sQQII")
_OBJECT = bytes((KIND_OBJECT,))


class Told(NamedTuple):
    """Of tasks of a batch that succeeded: how long after its submission each was ready and was dispatched, its key, and
    the size of its arguments."""

    ready: list[float]
    dispatched: list[float]
    keys: list[bytes]
    argument_bytes: list[int]


Success = tuple[
    PeerId, str, float, int, "Sequence[TaskId]", bytes, bytes, PeerId, str, float, "float | Told", bytes, bytes
]
"""Worker and its name, when the message came and how many it told of; some of them, their function, profiles, their
client and its user; when they were submitted; how long afterwards they were dispatched, or what `History.told` tells of
each; sizes and kinds of their values. A plain tuple, which `completion` makes for each message of a worker."""


class _Unread(NamedTuple):
    """A failure whose error was not read yet."""

    failure: TaskFailure
    kind: int
    value: bytes
    accounts: tuple[str, ...]


class _OfUser:
    """The failures of one user, the oldest first, numbered and with the time of each."""

    __slots__ = ("bare_count", "kept", "size")

    def __init__(self) -> None:
        self.kept: deque[tuple[int, float, TaskFailure]] = deque()
        #: bytes in a message
        self.size = 0
        #: so many of the oldest have no text and no accounts any more
        self.bare_count = 0

    def shrink(self) -> None:
        """Forgets the texts of one failure, those of the last few excepted, or else the oldest failure."""
        if self.bare_count >= len(self.kept) - WHOLE_KEPT:
            self.forget()
            return
        number, at, long = self.kept[self.bare_count]
        bare = replace(long, text="", accounts=())
        self.kept[self.bare_count] = number, at, bare
        self.size -= size_of_failure(long) - size_of_failure(bare)
        self.bare_count += 1

    def forget(self) -> None:
        self.size -= size_of_failure(self.kept.popleft()[2])
        self.bare_count = max(0, self.bare_count - 1)


class History:
    def __init__(self, display: DisplayIds, *, shows_texts: bool = False) -> None:
        self._display = display
        self._shows_texts = shows_texts
        #: set before anything is handled
        self.now = 0.0
        #: to read an error takes tens of microseconds: that is left to `tick`, so that no turn becomes long, as far as
        #: there is room
        self._unread: deque[tuple[float, _Unread]] = deque()
        #: of users that have some
        self._failures: dict[str, _OfUser] = {}
        #: of all users
        self._failure_count = self._failure_bytes = 0
        #: of the last one, and of the last that was published
        self._number = self._told_number = 0
        self._failed_count = 0
        self._left = float(BURST)
        self._left_at = 0.0
        #: described though there were more than are, since the last `tick`
        self._beyond: Counter[str] = Counter()
        #: of tasks of graphs that did not succeed, the oldest first
        self.outcomes: dict[TaskId, int] = {}
        self.successes: deque[Success] = deque(maxlen=SUCCESSES_KEPT)
        #: of so many messages more before the next `tick`
        self.told_left = TOLD_PER_SECOND
        self._recovered: deque[tuple[float, TaskFailure]] = deque(maxlen=RECOVERED_KEPT)
        #: batches of graphs whose tasks have all ended, while a session watches graphs
        self.ended_graphs: deque[Chunk] | None = None
        self._kept_graphs: deque[tuple[float, Chunk]] = deque()
        self._kept_tasks = 0

    # ------------------------------------------------------------ what is noted

    def failed(self, chunk: Chunk, row: Row, worker: str, lost: Sequence[str], deaths: Deaths | None) -> None:
        """A task ended, and neither well nor canceled. `lost` and `deaths`: what became of earlier attempts."""
        self._failed_count += 1
        if self._left < 1 and (self.now <= self._left_at or not self._refill()) and not self._has_own(chunk):
            return  # there are more than are described
        self._left -= 1
        failure = record_of(
            self._display, chunk, row.task_id, row.attempt, self.now, worker=worker, status=row.status,
            profile=bytes(row.profile), is_dispatched=bool(worker) or row.status != STATUS_REFUSED,
        )  # fmt: skip
        accounts = accounts_of(lost, deaths)
        if len(self._unread) >= BURST:
            self._read_one()
        self._unread.append((self.now, _Unread(failure, row.kind, bytes(row.value), accounts)))

    def told(self, chunk: Chunk, ids: Sequence[TaskId]) -> Told:
        """Of tasks of a batch that succeeded."""
        self.told_left -= 1
        places = chunk.places(ids)
        keys = [chunk.key(at) for at in places] if chunk.batch.keys else [b""] * len(ids)
        return Told(
            moments_of(chunk.ready, places), moments_of(chunk.dispatched, places), keys, chunk.bytes_of_each(places)
        )

    def recovered(self, chunk: Chunk, row: Row, worker: str, accounts: Sequence[str]) -> None:
        """A task succeeded after attempts whose workers were lost or whose processors died. (MON-57)"""
        record = record_of(
            self._display, chunk, row.task_id, row.attempt, self.now, worker=worker, profile=bytes(row.profile),
            accounts=accounts,
        )  # fmt: skip
        record = _with_result(record, len(row.value), is_stored=row.kind == KIND_OBJECT)
        self._recovered.append((self.now, record))

    def _refill(self) -> bool:
        self._left = min(BURST, self._left + (self.now - self._left_at) * FAILURES_PER_SECOND)
        self._left_at = self.now
        return self._left >= 1

    def _has_own(self, chunk: Chunk) -> bool:
        """Whether its user has some of its own left, when all have used up what they share."""
        user = chunk.client.user
        if not user or self._left <= -BURST or self._beyond[user] >= FAILURES_OF_EACH:
            return False
        self._beyond[user] += 1
        return True

    def note_outcomes(self, chunk: Chunk, ids: Sequence[TaskId], status: int) -> None:
        """Of tasks of one batch of a graph that did not succeed."""
        if status == STATUS_CANCELED:
            chunk.canceled_count += len(ids)
        else:
            chunk.failed_count += len(ids)
            if status != STATUS_REFUSED and (room := FAILED_KEPT - len(chunk.first_failed)):
                chunk.first_failed += tuple(ids[:room])
        self.outcomes.update(dict.fromkeys(ids, status))

    def graph_ended(self, chunk: Chunk, *, is_whole: bool) -> None:
        """All tasks of a batch of a graph have; not `is_whole`: all that are accepted yet."""
        if self.ended_graphs is not None:
            self.ended_graphs.append(chunk)
            self._kept_graphs.append((self.now, chunk))
            self._kept_tasks += len(chunk.ids)
            while len(self._kept_graphs) > 1 and self._is_too_much():
                self._forget_graph()
            if is_whole:
                chunk.forget_payload()

    def _is_too_much(self) -> bool:
        return len(self._kept_graphs) > GRAPHS_KEPT or self._kept_tasks > GRAPH_TASKS

    def _forget_graph(self) -> None:
        self._kept_tasks -= len(self._kept_graphs.popleft()[1].ids)

    @property
    def kept_graphs(self) -> Iterable[Chunk]:
        """Batches of graphs that have ended of late, in this order."""
        return (chunk for _, chunk in self._kept_graphs)

    def tick(self) -> None:
        """About once a second: read the errors of the failures since, and forget the oldest outcomes."""
        self.told_left = TOLD_PER_SECOND
        self._beyond.clear()
        while self._unread:
            self._read_one()
        excess = len(self.outcomes) - OUTCOMES_KEPT
        for task_id in tuple(islice(self.outcomes, excess)) if excess > 0 else ():
            del self.outcomes[task_id]
        while self._kept_graphs and self.now - self._kept_graphs[0][0] > GRAPH_SECONDS:
            self._forget_graph()

    def _read_one(self) -> None:
        at, unread = self._unread.popleft()
        error = _error_of(unread)
        if unread.failure.status == STATUS_REFUSED and error.code == DEPENDENCY_FAILED:
            self._failed_count = max(0, self._failed_count - 1)  # it follows from another failure
        else:
            self._add(at, _described(unread, error, shows_texts=self._shows_texts))

    def _add(self, at: float, failure: TaskFailure) -> None:
        """All failures that are kept fit into one message."""
        self._number += 1
        own = self._failures.setdefault(failure.user, _OfUser())
        own.kept.append((self._number, at, failure))
        size = size_of_failure(failure)
        own.size += size
        self._failure_bytes += size
        self._failure_count += 1
        users = self._failures.values()
        while self._failure_bytes > FAILURE_BYTES and users:
            self._lessen(max(users, key=lambda one: one.size), _OfUser.shrink)
        while self._failure_count > FAILURES_KEPT:
            self._lessen(max(users, key=lambda one: len(one.kept)), _OfUser.forget)

    def _lessen(self, one: _OfUser, how: Callable[[_OfUser], None]) -> None:
        user, size, count = one.kept[0][2].user, one.size, len(one.kept)
        how(one)
        self._failure_bytes -= size - one.size
        self._failure_count -= count - len(one.kept)
        if not one.kept:
            del self._failures[user]

    # ------------------------------------------------------------ what is told

    def new_failures(self, now: float) -> tuple[tuple[TaskFailure, ...], int]:
        """Since the last time; and how many they were, those that are not described among them."""
        self.tick()
        new = self._since(self._told_number)
        count, self._told_number, self._failed_count = self._failed_count, self._number, 0
        return _aged(new, now), max(count, len(new))

    def all_failures(self, now: float) -> tuple[TaskFailure, ...]:
        self.tick()
        return _aged(self._since(0), now)

    def _since(self, number: int) -> list[tuple[float, TaskFailure]]:
        """Returns those with a higher number, of all users, the oldest first."""
        found = [takewhile(lambda one: one[0] > number, reversed(user.kept)) for user in self._failures.values()]
        return [(at, failure) for _, at, failure in sorted(chain(*found), key=itemgetter(0))]

    def ended(self, is_asked: Callable[[TaskId], bool], now: float) -> TaskFailure | None:
        """How a task has ended, as far as it is kept. (MON-57)"""
        self.tick()
        failures = (one[1:] for user in self._failures.values() for one in reversed(user.kept))
        for at, record in chain(failures, reversed(self._recovered)):
            if is_asked(record.task_id):
                return aged(record, now - at)
        for success in reversed(self.successes):
            for index, task_id in enumerate(success[4]):
                if is_asked(task_id):
                    return self._success(success, index, now)
        return None

    def _success(self, success: Success, index: int, now: float) -> TaskFailure:
        _, worker, at, _, ids, function, profiles, client_id, user, submitted_at, told, sizes, kinds = success
        since_seconds = now - submitted_at
        seconds, cpu_seconds, memory_bytes = measured(profiles[PROFILE_BYTES * index : PROFILE_BYTES * (index + 1)])
        record = TaskFailure(
            ids[index], ObjectId(function[:ID_BYTES]), self._display.of(client_id), user, worker, STATUS_SUCCESS,
            attempt=1, age_seconds=max(0.0, now - at), duration_seconds=seconds, cpu_seconds=cpu_seconds,
            memory_bytes=memory_bytes, submitted_seconds=ago(0.0, since_seconds),
        )  # fmt: skip
        record = _with_result(record, split_u32(sizes)[index], is_stored=kinds[index : index + 1] == _OBJECT)
        if not isinstance(told, Told):
            return replace(record, dispatched_seconds=ago(told, since_seconds))
        return replace(
            record,
            ready_seconds=ago(told.ready[index], since_seconds),
            dispatched_seconds=ago(told.dispatched[index], since_seconds),
            key=told.keys[index].decode(errors="replace"),
            argument_bytes=told.argument_bytes[index],
        )

    def blocks(self, now: float) -> tuple[SampleBlock, ...]:
        """The last successes, as samples of their workers. Which of its processes ran a task is not known."""
        rows: dict[tuple[PeerId, str], list[bytes]] = {}
        counts: dict[tuple[PeerId, str], int] = {}
        for worker_id, name, ended_at, count, ids, function, profiles, *_ in self.successes:
            worker = worker_id, name
            counts[worker] = counts.get(worker, 0) + count
            own = rows.setdefault(worker, [])
            for index, task_id in enumerate(ids):
                seconds = measured(profiles[PROFILE_BYTES * index : PROFILE_BYTES * (index + 1)])[0]
                since = max(0, int(1e6 * (now - ended_at + seconds)))
                own.append(_ROW.pack(task_id, function[:ID_BYTES], since, int(1e6 * seconds), 0, STATUS_SUCCESS))
        return tuple(
            SampleBlock(self._display.of(worker[0]), worker[1], 0.0, counts[worker], b"".join(own))
            for worker, own in rows.items()
        )

    def take_ended_graphs(self, *, is_watched: bool) -> tuple[Chunk, ...]:
        """Those that have ended since the last time. From now on they are noted only if graphs are watched."""
        ended = tuple(self.ended_graphs or ())
        self.ended_graphs = deque(maxlen=GRAPHS_TOLD) if is_watched else None
        return ended


def _with_result(record: TaskFailure, size: int, *, is_stored: bool) -> TaskFailure:
    """Of a stored value the scheduler has the id alone. (MON-66)"""
    return replace(record, result_bytes=0 if is_stored else size, is_result_stored=is_stored)


def _aged(failures: Iterable[tuple[float, TaskFailure]], now: float) -> tuple[TaskFailure, ...]:
    return tuple(aged(one, now - at) for at, one in failures)


def _described(unread: _Unread, error: TaskError, *, shows_texts: bool) -> TaskFailure:
    lines = error.message.splitlines()
    return replace(
        unread.failure,
        code=error.code,
        type_name=error.type_name[:TYPE_CHARACTERS],
        first_line=lines[0][:LINE_CHARACTERS] if lines else "",
        text=error.text[:TEXT_CHARACTERS] if shows_texts else "",
        # The error of a task whose processors died names the earlier attempts as well.
        accounts=cut((*unread.accounts, *(one for one in error.workers if one not in unread.accounts))),
    )


def _error_of(unread: _Unread) -> TaskError:
    if unread.kind != KIND_INLINE:
        return TaskError(0)
    try:
        return decode_task_error(unread.value)
    except CodecError as error:
        return TaskError(0, message=f"its error cannot be read: {error}")
