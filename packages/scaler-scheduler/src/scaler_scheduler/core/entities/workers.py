"""A worker as the scheduler knows it, and the index that finds the least loaded one (SCH-11, CRD)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count
from typing import Any, Generic, TypeVar

from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import Hello, Welcome, WorkerStatus
from scaler_protocol.records import dataclass
from scaler_scheduler.core.entities.clients import Chunk
from scaler_scheduler.core.entities.columns import Indexes
from scaler_scheduler.core.entities.requirements import (
    CODE_SETS,
    FEATURE_CODE_SETS,
    ClassKey,
    Requirement,
    offered,
    offers,
)
from scaler_scheduler.core.entities.shares import Shares

STALE_RESULTS = 8_192
"""A worker may report so many results for tasks that it does not hold, and as many as it has presented. (LIM-24)"""
KEEPING_SECONDS = 30.0
"""A unit whose workers hold no tasks is kept so long, at the most, for results that clients have not acknowledged."""
GIVEN_FUNCTIONS = 256
"""A worker may tell the runs of so many functions that it was given last: no more are named in a WorkerStatus. (WRK-55)
"""
INDEXES_LIMIT = 256
"""So many indexes are kept, also of requirements that no queued task has just now."""


@dataclass(slots=True)
class Still:
    """A worker that ended nothing for seconds, and was asked for what it had not begun (SCH-96)."""

    results_count: int  #: its Results messages by then: with the next one it works again
    ask_at: float  #: not before then again
    rests_until: float = 0.0  #: it gave some back, and rests; zero: not for this reason


class Worker:
    __slots__ = (
        "batch_limit",
        "borrowers",
        "capabilities",
        "code_tags",
        "completed_count",
        "confirmed_count",
        "dispatches",
        "envelope_limit",
        "free_amounts",
        "given_functions",
        "heard_at",
        "held",
        "indexes",
        "is_cut_off",
        "is_gone",
        "is_of_operator",
        "is_presenter",
        "is_retired",
        "lease_seconds",
        "lenders",
        "lent_to",
        "limit",
        "manager_id",
        "may_sample",
        "may_sample_stacks",
        "may_stack",
        "name",
        "nested_reserve",
        "offer",
        "payload_limit",
        "peer_id",
        "presented_count",
        "recalling",
        "results_count",
        "sample_limit",
        "samples_until",
        "software",
        "stack_bytes",
        "stale_left",
        "status",
        "status_at",
        "still",
        "tails",
        "takes_followers",
        "unit_id",
        "user",
        "worked_until",
    )  # fmt: skip

    def __init__(self, peer_id: PeerId, hello: Hello, welcome: Welcome, now: float) -> None:
        offer = hello.worker
        self.peer_id = peer_id
        self.name = offer.name
        #: of the ticket with which it has come, and whom grants are lent to (OWN-24); empty: the cluster has no keys
        self.user, self.lent_to = "", b""
        self.software = hello.software
        self.capabilities: dict[str, int] = {item.name: item.amount for item in offer.capabilities}
        #: code that its processors read; empty: it has not said, and is given any (SCH-39)
        self.code_tags = offer.code_tags
        #: all that tasks may ask for
        self.offer = offered(self.capabilities, offer.code_tags, takes_code_sets=FEATURE_CODE_SETS in welcome.features)
        #: what is left of counted capabilities while tasks that need them are held
        self.free_amounts: dict[str, int] = {name: amount for name, amount in self.capabilities.items() if amount >= 0}
        #: held tasks that are blocked and lend the counted amounts they take; and those that borrow -> from which task
        self.lenders: dict[TaskId, None] = {}
        self.borrowers: dict[TaskId, TaskId] = {}
        self.limit = offer.credit
        self.nested_reserve = offer.nested_reserve
        #: all and only the tasks given to this worker and not yet ended or returned, oldest first
        self.held: dict[TaskId, Chunk] = {}
        #: held tasks it was asked to give back and has not answered for
        self.recalling: set[TaskId] = set()
        self.is_gone = False  #: its session has ended; what it held goes back to the queue, in slices
        #: what the session calls the Dispatches of what is held: first task -> seq, ids. With some that say nothing any
        #: more, because that task has ended (SCH-42)
        self.dispatches: dict[TaskId, tuple[int, bytes]] = {}
        #: held tasks that others wait for, and may be followed by one (SCH-36)
        self.tails: dict[TaskId, None] = {}
        self.takes_followers = False
        self.completed_count = 0
        #: when it was last idle, or has last ended something
        self.worked_until = now
        self.status = WorkerStatus()
        self.status_at = self.heard_at = now
        self.lease_seconds = welcome.timers.lease_seconds  #: of its session: after so much silence it is lost
        self.payload_limit = welcome.limits.payload_frame_bytes  #: of one payload frame that it takes
        self.batch_limit = welcome.limits.batch_tasks
        self.envelope_limit = welcome.limits.envelope_bytes
        self.indexes: list[LoadIndex[Any]] = []
        #: who started it, and as part of what (MGR-8)
        self.manager_id = offer.manager_id
        self.unit_id = offer.unit_id
        #: its session has the features `samples` (MON-10), `stacks` (MON-44) and `stack-samples` (MON-45)
        self.may_sample = self.may_stack = self.may_sample_stacks = False
        self.sample_limit, self.samples_until, self.stack_bytes = 0, 0.0, 0  #: tasks; stacks, until then, so long
        #: it is to leave: it gets no tasks any more, whatever credit it gives (MGR-16)
        self.is_retired = False
        #: it does not do its part, and rests: all and only those in `Tables.cut_off` (SCH-44, SCH-96)
        self.is_cut_off = False
        self.still: Still | None = None  #: set while it stands still (recalling.py)
        self.is_of_operator = True  #: its ticket is an operator's, or there are no keys
        self.given_functions: dict[bytes, None] = {}  #: else: of which it was given tasks, at most GIVEN_FUNCTIONS
        #: its session has the feature `present-held`
        self.is_presenter = False
        #: tasks that it has presented, that have not ended there, and that no client has submitted (SCH-66)
        self.presented_count = 0
        #: Results messages of this session that were worked off, or are being so; those that clients have (SCH-71, -72)
        self.results_count = self.confirmed_count = 0
        self.stale_left = STALE_RESULTS  #: so many results for tasks that it does not hold may it report (LIM-24)

    def may_leave(self, now: float) -> bool:
        """It holds no tasks, and no results of the last half minute that a successor of this scheduler would ask for.
        (WRK-40)"""
        keeps = self.is_presenter and self.results_count > self.confirmed_count
        return not (self.held or (keeps and now - self.worked_until < KEEPING_SECONDS))

    def still_seconds(self, now: float) -> float:
        """Returns for how long it has had tasks and has ended none. (MON-67)"""
        return max(0.0, now - self.worked_until) if self.held else 0.0

    @property
    def takes_code_sets(self) -> bool:
        return CODE_SETS in self.offer

    def leave(self) -> None:
        """It is given nothing any more, nothing follows what it held, and none of that lends or borrows."""
        self.is_gone = True
        self.takes_followers = False
        for index in self.indexes:
            index.leave(self)
        for notes in (self.indexes, self.tails, self.lenders, self.borrowers):
            notes.clear()

    def free(self, *, is_nested: bool) -> int:
        """How many more tasks it may be given: never beyond its credit (CRD-1, CRD-4)."""
        if self.is_retired or self.is_cut_off or self.is_gone:
            return 0
        free = self.limit - len(self.held) - self.presented_count
        return free + self.nested_reserve if is_nested else free

    def most_in_a_dispatch(self, chunk: Chunk) -> int:
        """As its session has agreed, by count and by envelope (LIM-1, LIM-3). Half of an envelope is for the header and
        for tasks with more parts than others."""
        return max(1, min(self.batch_limit, self.envelope_limit // 2 // chunk.envelope_bytes_per_task))

    def worked(self, shares: Shares) -> float:
        """How long it took for what has just ended, as far as that is counted."""
        seconds = shares.now - max(self.worked_until, shares.contended_since)
        self.worked_until = shares.now
        return seconds

    def takes(self, payload_bytes: int, input_columns_bytes: int) -> bool:
        """A Dispatch with so much payload, and so much in its envelope besides the tasks (LIM-3, PAY-4)."""
        return payload_bytes <= self.payload_limit and input_columns_bytes <= self.envelope_limit // 2

    def fits(self, requirement: Requirement) -> int:
        """How many tasks with this requirement its uncommitted amounts allow now; very many if uncounted (SCH-12)."""
        room = 1 << 30
        for item in requirement:
            if item.amount > 0 and item.name in self.free_amounts:
                room = min(room, self.free_amounts[item.name] // item.amount)
        return room

    def can_ever_run(self, requirement: Requirement) -> bool:
        return offers(self.offer, requirement)

    def commit(self, chunk: Chunk, tasks: int) -> None:
        """Take (or, with a negative count, give back) what so many tasks of this chunk use."""
        share = chunk.client.share
        share.held += tasks
        share.of_user.held += tasks
        for item in chunk.header.capabilities:
            if item.amount > 0 and item.name in self.free_amounts:
                self.free_amounts[item.name] -= item.amount * tasks

    def note_given(self, chunk: Chunk, indexes: Indexes) -> None:
        """Notes the functions of these tasks: the worker may tell how long they ran. (MON-39)"""
        rows = [chunk.counts] if chunk.counts is not None else [row for row, _ in chunk.rows_at(indexes)]
        given = self.given_functions
        for row in rows:
            if row.function_id not in given:
                if len(given) >= GIVEN_FUNCTIONS:
                    del given[next(iter(given))]
                given[row.function_id] = None

    def load_changed(self, *, has_just_worked: bool = False) -> None:
        for index in self.indexes:
            index.push(self, is_next=has_just_worked)


Line = TypeVar("Line")
"""Tasks of one class that wait: `tables.ready.ReadyClass`."""


class LoadIndex(Generic[Line]):
    """Workers that can run one requirement, the least loaded first.

    A heap with lazy deletion: an entry counts only while its load is still the worker's. Cost is logarithmic in the
    number of workers, per message rather than per task.
    """

    def __init__(self, requirement: Requirement, changed: dict[LoadIndex[Line], None], *, is_nested: bool) -> None:
        self.requirement = requirement
        self._changed = changed
        #: of this requirement; all that have something which can be taken, and some that have nothing any more
        self.lines: dict[Line, None] = {}
        self._has_amounts = any(item.amount > 0 for item in requirement)
        self.is_nested = is_nested
        self.members: dict[Worker, None] = {}
        #: empty: none of them has room
        self.heap: list[tuple[int, int, Worker]] = []
        self._order = count()

    def wait(self, line: Line) -> None:
        """Notes that the line has something that can be taken."""
        self.lines[line] = None
        self._changed[self] = None

    def join(self, worker: Worker) -> None:
        if worker.can_ever_run(self.requirement):
            self.members[worker] = None
            worker.indexes.append(self)
            self.push(worker)

    def leave(self, worker: Worker) -> None:
        self.members.pop(worker, None)

    def push(self, worker: Worker, *, is_next: bool = False) -> None:
        """With `is_next` it comes before others of equal load: a worker that has just ended a task finds its code and
        its data still in the caches, one that has slept does not."""
        if self.room(worker) > 0:
            if self.lines:
                self._changed[self] = None
            order = next(self._order)
            heapq.heappush(self.heap, (len(worker.held), -order if is_next else order, worker))
            if len(self.heap) > 64 + 4 * len(self.members):
                self._compact()

    def room(self, worker: Worker) -> int:
        free = worker.free(is_nested=self.is_nested)
        return min(free, worker.fits(self.requirement)) if self._has_amounts else free

    def pop_least_loaded(self) -> tuple[Worker, int] | None:
        """With its room. The caller dispatches to it and reports `load_changed`, which puts it back."""
        while self.heap:
            load, _, worker = heapq.heappop(self.heap)
            if load == len(worker.held) and worker in self.members and (room := self.room(worker)) > 0:
                return worker, room
        return None

    def _compact(self) -> None:
        self.heap = [(len(worker.held), next(self._order), worker) for worker in self.members if self.room(worker) > 0]
        heapq.heapify(self.heap)


class LoadIndexes(Generic[Line]):
    """One for each requirement of tasks that are queued, and of some that were."""

    def __init__(self, workers: dict[PeerId, Worker]) -> None:
        self._workers = workers
        #: those with a line, since a worker got room or the line something to take; `ReadyQueue` takes them out
        self.changed: dict[LoadIndex[Line], None] = {}
        self._of: dict[tuple[Requirement, bool], LoadIndex[Line]] = {}
        self._most = INDEXES_LIMIT

    def of(self, key: ClassKey, in_use: Iterable[LoadIndex[Line]]) -> LoadIndex[Line]:
        index = self._of.get((key.requirement, key.is_nested))
        if index is None:
            if len(self._of) >= self._most:
                self._forget_unused(set(in_use))
            index = self._of[key.requirement, key.is_nested] = LoadIndex(
                key.requirement, self.changed, is_nested=key.is_nested
            )
            for worker in self._workers.values():
                index.join(worker)
        return index

    def join(self, worker: Worker) -> None:
        for index in self._of.values():
            index.join(worker)

    def _forget_unused(self, in_use: set[LoadIndex[Line]]) -> None:
        """Seldom: only when there may be twice as many as are in use."""
        self._of = {name: index for name, index in self._of.items() if index in in_use}
        self._most = max(INDEXES_LIMIT, 2 * len(self._of))
        for worker in self._workers.values():
            worker.indexes[:] = [index for index in worker.indexes if index in in_use]
