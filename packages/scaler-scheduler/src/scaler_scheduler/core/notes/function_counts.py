"""What has become of the tasks of each function, and how long they took (MON-38 to MON-41).

How many there are, where they are and how they ended follows the moves of tasks, in steps that do not depend on how
many tasks a batch has, if it has one function. How long runs took comes from the workers, with their WorkerStatus
(WRK-54).

The table is bounded, for programs make functions in loops (LIM-26): one that has no unfinished tasks may be added to
`others`, the longest unused first, of the user with the most functions. So no count is ever lost.

The sum of the times in which tasks were queued, or with workers, needs no time of a single task: it grows by the number
of those tasks from one moment to the next. So for each move of n tasks, n times the moment is added or taken away.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from heapq import nlargest, nsmallest

from scaler_protocol.columns import BUCKET_ROW, BUCKETS, FUNCTION_ROW, join_u64, split_u16
from scaler_protocol.ids import ID_BYTES, ObjectId
from scaler_protocol.messages import FunctionEntry, WorkerStatus
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.function_counts import FunctionCounts
from scaler_scheduler.core.entities.states import State
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.names import FunctionNames

ROWS_MAX = 1_000
"""Functions that are counted one by one."""
ROWS_OF_A_BATCH = 256
"""Of one batch: further ones in it are counted with the others."""
ROWS_SHOWN = 100
"""In a ClusterStatus, besides the others."""


def bucket_columns(counts: Sequence[int]) -> tuple[bytes, bytes]:
    """Those buckets in which there are any, and how many."""
    found = [(bucket, count) for bucket, count in enumerate(counts) if count]
    return bytes(bucket for bucket, _ in found), join_u64([count for _, count in found])


class FunctionTable:
    def __init__(self) -> None:
        self.names = FunctionNames()
        self.rows: dict[bytes, FunctionCounts] = {}
        self.others = FunctionCounts()
        #: so many functions are counted with the others before the table is gone through again
        self._passed_over = 0
        #: of all tasks, how long before they were given to a worker they were submitted (MON-60)
        self.queued_buckets = [0] * BUCKETS
        self.queued_seconds = 0.0

    # ------------------------------------------------------------ tasks

    def accept(self, chunk: Chunk, now: float) -> None:
        """All its tasks are submitted. A lone task costs this one call."""
        row = self.rows.get(chunk.batch.functions)
        if row is None:
            self.enter(chunk, now)
            self.submitted(chunk, range(len(chunk.ids)), now)
            return
        count = len(chunk.ids)
        chunk.counts = row
        chunk.submitted_at = row.used_at = now
        row.submitted += count
        row.open_at -= count * now

    def enter(self, chunk: Chunk, now: float) -> None:
        """Before its first task is counted."""
        chunk.submitted_at = now
        functions, indexes = chunk.batch.functions, chunk.batch.function_indexes
        if not indexes or len(functions) == ID_BYTES:
            chunk.counts = self._row(functions[:ID_BYTES], chunk, now)
            return
        count = len(functions) // ID_BYTES
        known = min(count, ROWS_OF_A_BATCH)
        rows = [self._row(functions[ID_BYTES * at : ID_BYTES * (at + 1)], chunk, now) for at in range(known)]
        chunk.rows = rows + [self.others] * (count - known)
        chunk.row_numbers = array("H", split_u16(indexes))

    def _row(self, function_id: bytes, chunk: Chunk, now: float) -> FunctionCounts:
        row = self.rows.get(function_id)
        if row is None:
            if len(self.rows) >= ROWS_MAX and not self._make_room():
                return self.others
            row = self.rows[function_id] = FunctionCounts(function_id, chunk.client.user)
        row.used_at = now
        return row

    def _make_room(self) -> bool:
        """An eighth at once, so that a program with a function for each task takes few steps for each."""
        if self._passed_over:
            self._passed_over -= 1
            return False
        of_user: dict[str, list[FunctionCounts]] = {}
        for row in self.rows.values():
            of_user.setdefault(row.user, []).append(row)
        room = ROWS_MAX // 8
        for rows in sorted(of_user.values(), key=len, reverse=True):
            idle = [row for row in rows if not row.unfinished_count]
            for row in nsmallest(room, idle, key=lambda row: row.used_at):
                self.others.add(self.rows.pop(row.function_id))
            if idle:
                return True
        self._passed_over = room
        return False

    def submitted(self, chunk: Chunk, indexes: Sequence[int], now: float) -> None:
        row = chunk.counts
        if row is not None:
            row.submitted += len(indexes)
            row.open_at -= len(indexes) * now
            return
        for row, tasks in chunk.rows_at(indexes):
            row.submitted += tasks
            row.open_at -= tasks * now

    def ended(self, chunk: Chunk, indexes: Sequence[int], state: State, now: float) -> None:
        """No worker has them."""
        row = chunk.counts
        if row is not None:
            row.ended[state] += len(indexes)
            row.open_at += len(indexes) * now
            return
        for row, tasks in chunk.rows_at(indexes):
            row.ended[state] += tasks
            row.open_at += tasks * now

    # ------------------------------------------------------------ runs

    def merge(self, worker: Worker, status: WorkerStatus) -> None:
        """Adds what the worker tells of runs. (MON-39) A worker whose ticket is no operator's is believed for functions
        that it was given tasks of, of any user; what else it tells counts for the others."""
        rows = []
        for function_id, run_microseconds, cpu_microseconds in FUNCTION_ROW.iter_unpack(status.functions):
            row = self.rows.get(function_id, self.others)
            if not worker.is_of_operator and function_id not in worker.given_functions:
                row = self.others
            row.run_microseconds += run_microseconds
            row.cpu_microseconds += cpu_microseconds
            rows.append(row)
        for number, bucket, runs in BUCKET_ROW.iter_unpack(status.function_buckets):
            rows[number].add_runs(bucket, runs)

    # ------------------------------------------------------------ for monitors

    def shown(self, now: float) -> tuple[FunctionEntry, ...]:
        """Those with unfinished tasks first, then those that were used last; and all others together. (MON-40)"""
        chosen = nlargest(ROWS_SHOWN, self.rows.values(), key=lambda row: (row.unfinished_count > 0, row.used_at))
        entries = [self._entry(row, now) for row in chosen]
        if self.others.submitted or self.others.run_microseconds or len(self.rows) > len(chosen):
            rest = FunctionCounts()
            rest.add(self.others)
            shown = {row.function_id for row in chosen}
            for function_id, row in self.rows.items():
                if function_id not in shown:
                    rest.add(row)
            entries.append(self._entry(rest, now))
        return tuple(entries)

    def _entry(self, row: FunctionCounts, now: float) -> FunctionEntry:
        ended = row.ended
        buckets, counts = bucket_columns(row.buckets or ())
        return FunctionEntry(
            function_id=ObjectId(row.function_id),
            name=self.names.of(row.function_id),
            user=row.user,
            submitted_count=row.submitted,
            dispatched_count=row.dispatched,
            success_count=ended[State.SUCCESS],
            failed_count=ended[State.FAILED],
            canceled_count=ended[State.CANCELED],
            worker_lost_count=ended[State.LOST],
            refused_count=ended[State.REFUSED],
            queued_seconds=row.queued_seconds(now),
            dispatched_seconds=row.dispatched_seconds(now),
            run_seconds=row.run_microseconds / 1e6,
            cpu_seconds=row.cpu_microseconds / 1e6,
            buckets=buckets,
            bucket_counts=counts,
        )

    def every(self) -> Iterator[FunctionCounts]:
        yield from self.rows.values()
        yield self.others
