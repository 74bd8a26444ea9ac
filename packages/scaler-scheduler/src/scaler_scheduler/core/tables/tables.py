"""Everything the scheduler remembers, and the few primitive changes that keep it consistent.

Collections that are ever gone through keep their order (dicts, never sets), so that a seed tells one story.

`where` says for each unfinished task of a present client where it is: in a chunk's queue place (WAITING or QUEUED) or
with a worker (DISPATCHED or CANCELING). What is rare is kept sparse: the attempt of a task only when it is not the
first, its lost workers only when there are any. A task of a client that has gone is only found in `Worker.held`, until
the worker has ended it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import count, repeat

from scaler_protocol.columns import BUCKET_BOUNDS_SECONDS, join_ids, join_u16
from scaler_protocol.ids import LAST_ATTEMPT, ObjectId, PeerId, TaskId
from scaler_protocol.messages import Message, Release, TaskHeader
from scaler_scheduler.core.actions import Action, Send, SendToStorage
from scaler_scheduler.core.entities.clients import Chunk, Client
from scaler_scheduler.core.entities.columns import Indexes
from scaler_scheduler.core.entities.combinations import Combinations
from scaler_scheduler.core.entities.headers import Lend, LentHeaders, with_generation
from scaler_scheduler.core.entities.moments import marked
from scaler_scheduler.core.entities.results import Row, pack, stored_by
from scaler_scheduler.core.entities.shares import Shares
from scaler_scheduler.core.entities.states import Move, State, target
from scaler_scheduler.core.entities.workers import LoadIndexes, Worker
from scaler_scheduler.core.notes.cluster_events import ClusterEvents
from scaler_scheduler.core.notes.deaths import Deaths
from scaler_scheduler.core.notes.display import DisplayIds
from scaler_scheduler.core.notes.function_counts import FunctionTable
from scaler_scheduler.core.notes.history import History
from scaler_scheduler.core.notes.names import FunctionNames, KnownObjects
from scaler_scheduler.core.policy import Policy
from scaler_scheduler.core.tables.backlog import Backlog
from scaler_scheduler.core.tables.delivery import Delivery
from scaler_scheduler.core.tables.dependencies import Dependencies
from scaler_scheduler.core.tables.families import Families
from scaler_scheduler.core.tables.gone_owners import GoneOwners
from scaler_scheduler.core.tables.presentation import Presentation
from scaler_scheduler.core.tables.ready import ReadyClass, ReadyQueue

#: Why an attempt of a task was followed by another one. (MON-58)
REPEAT_REASONS = ("worker_lost", "worker_left", "processor_died", "failed")

#: So many in one Release: an envelope of the default size has room for some more (LIM-1).
IDS_IN_A_MESSAGE = 65_536
#: So many in one Dispatch, and so many in one Cancel or Recall, which cost a worker more for each task, however long
#: its queue is: what a worker does with one message takes it some milliseconds then, and its processors wait no longer
#: than that. (LIM-23)
TASKS_IN_A_MESSAGE = 4_096
TASKS_TAKEN_IN_A_MESSAGE = 1_024

#: So many steps of placing in one turn: one for each task, and some for each message. The rest has its turn at once,
#: after what others have sent meanwhile. (LIM-25)
PLACED_A_TURN = 8_192
DISPATCH_STEPS = 16

#: What an answer weighs that no worker has worked for, and each of its rows.
ANSWER_BYTES = 512
ANSWER_ROW_BYTES = 24


Place = Chunk | Worker


class Tables:
    lend: Lend  #: what makes grants for workers, of which the shell has the keys

    def __init__(self, policy: Policy, unacknowledged: Callable[[PeerId], int], display_key: bytes = b"") -> None:
        self.policy = policy
        self._unacknowledged = unacknowledged
        self.display = DisplayIds(display_key)  #: what monitors are shown in place of peers' ids
        self.history = History(self.display, shows_texts=policy.shows_texts)
        self.events = ClusterEvents(lambda: self.history.now)
        self.clients: dict[PeerId, Client] = {}
        self.client_sessions = 0  #: how many sessions clients have opened
        self.workers: dict[PeerId, Worker] = {}
        self.where: dict[TaskId, Place] = {}
        self.load_indexes: LoadIndexes[ReadyClass] = LoadIndexes(self.workers)
        self.ready = ReadyQueue(lambda key: self.load_indexes.of(key, self.ready.indexes()), self.load_indexes.changed)
        self.combinations = Combinations()  #: of depth, priority and requirement, by user (SCH-49)
        self.shares = Shares(policy.user_weights)
        self.backlog = Backlog(self.ready, self._unread)
        self.dependencies = Dependencies()
        self.attempts: dict[TaskId, int] = {}  #: current attempt, for tasks past their first (SCH-5)
        self.lost_workers: dict[TaskId, tuple[str, ...]] = {}  #: names of the workers that were lost with a task
        #: runs that used up a retry: they failed, or were lost with a processor too many (SCH-15)
        self.retried: dict[TaskId, int] = {}
        #: what is known of the attempts whose processor died and that were tried again (SCH-75, SCH-41)
        self.deaths: dict[TaskId, Deaths] = {}
        #: tasks in state CANCELING -> how many replies their client waits for (CAN-8)
        self.canceling: dict[TaskId, int] = {}
        #: held tasks whose client went, or took them over under another id -> the attempt that the worker runs
        self.abandoned: dict[TaskId, int] = {}
        self.children: dict[TaskId, dict[TaskId, None]] = {}  #: task -> unfinished tasks that it submitted (CAN-7)
        self.families = Families(self.where, self.canceling, self.abandoned, self.backlog)
        #: ended tasks whose dependents are just being ended: no task is accepted under these ids
        self.failing: dict[TaskId, None] = {}
        self.admitting: dict[Chunk, None] = {}  #: large batches that are just being looked at or accepted
        #: what was accepted since the last settling, where there is a limit for it (SCH-32)
        self.arrived: list[Chunk] = []
        self.storage_request_ids = count(1)  #: of requests to the storage that are answered
        self.gone_owners = GoneOwners(self.storage_request_ids)
        self.generation = 1  #: what tells this scheduler from those before it (HSK-35)
        self.presentation = Presentation()  #: what workers have from a predecessor
        self.counts: Counter[State] = Counter()
        self.functions = FunctionTable()
        self.known_objects = KnownObjects(self.functions.names)
        self.recalled_count = self.returned_count = 0  #: tasks that workers were asked to give back, and gave (SCH-20)
        self.repeat_counts = dict.fromkeys(REPEAT_REASONS, 0)
        #: batches that were well-formed and refused; what the session layer refuses it counts itself
        self.refused_count = 0
        #: workers that do not reach the storage, or stand still -> until when they get nothing (SCH-44, SCH-96)
        self.cut_off: dict[Worker, float] = {}
        #: queued tasks, and for each the worker on which its processor has just died (SCH-40)
        self.elsewhere: list[tuple[Chunk, int, Worker]] = []
        self.lending: dict[Worker, None] = {}  #: workers with blocked tasks that lend what they take (SCH-47)
        self.has_idled = False  #: a worker has just run out of tasks, or come without any (SCH-20)
        #: workers that may have a place, and something that follows what they hold (SCH-36)
        self.followable: dict[Worker, None] = {}
        self.placed_a_turn = self.placing_left = PLACED_A_TURN  #: in each turn, and in this one: then the next goes on
        self.delivery = Delivery(self.ready, unacknowledged)
        self._out: dict[PeerId, list[Message]] = {}
        self._out_rows: dict[PeerId, list[Row]] = {}
        self._actions: list[Action] = []
        self._last_actions: list[Action] = []

    @property
    def function_names(self) -> FunctionNames:
        return self.functions.names

    # ------------------------------------------------------------ moves

    def move(self, source: State, move: Move, tasks: int = 1) -> State:
        """So many tasks take this row of the transition table."""
        destination = target(source, move)
        self.counts[source] -= tasks
        self.counts[destination] += tasks
        return destination

    def note_ended(self, chunk: Chunk, task_id: TaskId, state: State) -> None:
        """For those who watch: a task that no worker has any longer has ended so."""
        row = chunk.counts or chunk.rows[chunk.row_numbers[chunk.index_of[task_id]]]
        row.ended[state] += 1
        row.open_at += self.history.now

    def note_held(self, chunk: Chunk, indexes: Indexes, sign: int) -> None:
        """For those who watch: a worker has these from now on (1), or has them no longer (-1)."""
        at = sign * self.history.now
        row = chunk.counts
        if row is not None:
            row.dispatched += sign * len(indexes)
            row.given_at += at * len(indexes)
            return
        for row, tasks in chunk.rows_at(indexes):
            row.dispatched += sign * tasks
            row.given_at += at * tasks

    def attempt(self, task_id: TaskId) -> int:
        return self.attempts.get(task_id, 1)

    def begin_attempt(self, task_id: TaskId, after: int) -> bool:
        """Counts the next attempt of a task. False: the one before was the last that has a number. (SCH-5, SCH-95)"""
        if after < LAST_ATTEMPT:
            self.attempts[task_id] = after + 1
        return after < LAST_ATTEMPT

    def go_on_counting(self, task_id: TaskId) -> None:
        """Numbers a task that is submitted again. It waits until no worker has its earlier life. (SCH-8, SCH-95)"""
        self.attempts[task_id] = min(self.abandoned[task_id] + 1, LAST_ATTEMPT)

    def chunk_of(self, task_id: TaskId) -> Chunk:
        """Of an unfinished task."""
        place = self.where[task_id]
        return place.held[task_id] if isinstance(place, Worker) else place

    def enqueue(self, chunk: Chunk, indexes: Indexes, *, at_front: bool = False) -> None:
        self.ready.add(chunk, indexes, at_front=at_front)

    def enqueue_elsewhere(self, worker: Worker, chunk: Chunk, index: int) -> None:
        """Queues a task whose processor died on this worker: for another one with a place, as long as nothing more
        urgent waits, else at the front, for any worker (SCH-40). It is placed with all others, because its Cancel may
        have arrived by then (CAN-11)."""
        self.enqueue(chunk, [index], at_front=True)
        self.elsewhere.append((chunk, index, worker))

    def attempts_column(self, ids: Sequence[TaskId]) -> bytes:
        """Empty when all are at their first."""
        if not self.attempts or self.attempts.keys().isdisjoint(ids):
            return b""
        return join_u16([self.attempt(task_id) for task_id in ids])

    def unfinished(self, ids: Iterable[TaskId]) -> tuple[TaskId, ...]:
        return tuple([task_id for task_id in ids if task_id in self.where])

    def give(
        self, worker: Worker, chunk: Chunk, indexes: Indexes, ids: Sequence[TaskId], source: State = State.QUEUED
    ) -> None:
        """QUEUED, or ahead of their time WAITING, -> DISPATCHED for these tasks of one chunk."""
        if not worker.held:
            worker.worked_until = self.shares.now
        worker.held.update(dict.fromkeys(ids, chunk))
        self.where.update(dict.fromkeys(ids, worker))
        worker.commit(chunk, len(ids))
        self.move(source, Move.DISPATCH, len(ids))
        queued_seconds = self.history.now - chunk.submitted_at
        self.functions.queued_buckets[bisect_left(BUCKET_BOUNDS_SECONDS, queued_seconds)] += len(ids)
        self.functions.queued_seconds += len(ids) * queued_seconds
        if len(ids) == len(chunk.ids):
            chunk.dispatched = queued_seconds
        else:
            chunk.dispatched = marked(chunk.dispatched, len(chunk.ids), indexes, queued_seconds)
        row = chunk.counts
        if row is None:
            self.note_held(chunk, indexes, 1)
        else:  # as `note_held`, which would be one more call for each lone task
            row.dispatched += len(ids)
            row.given_at += len(ids) * self.history.now
        if not worker.is_of_operator:
            worker.note_given(chunk, indexes)
        dependents = self.dependencies.dependents
        if dependents and not dependents.keys().isdisjoint(ids):
            self.note_tails(worker, filter(dependents.__contains__, ids))

    def note_tails(self, worker: Worker, ids: Iterable[TaskId]) -> None:
        """It holds these, and others wait for them."""
        if worker.takes_followers:
            worker.tails.update(dict.fromkeys(ids))
            self.followable[worker] = None

    def take_back(self, worker: Worker, task_id: TaskId) -> Chunk:
        """The worker has the task no longer, whatever becomes of it."""
        chunk = worker.held.pop(task_id)
        worker.recalling.discard(task_id)
        worker.tails.pop(task_id, None)
        worker.lenders.pop(task_id, None)
        worker.borrowers.pop(task_id, None)
        worker.commit(chunk, -1)
        row = chunk.counts
        if row is None:
            self.note_held(chunk, [chunk.index_of[task_id]], -1)
        else:
            row.dispatched -= 1
            row.given_at -= self.history.now
        return chunk

    def forget(self, task_id: TaskId, chunk: Chunk) -> None:
        """The task has ended: nothing about it stays but kept results."""
        del self.where[task_id]
        self.attempts.pop(task_id, None)
        self.lost_workers.pop(task_id, None)
        self.retried.pop(task_id, None)
        self.deaths.pop(task_id, None)
        if self.presentation.owners:
            self.presentation.disown(task_id)
        self.unfinish(chunk, 1)
        self.leave_parent(chunk, (task_id,))
        if chunk.has_dependencies:
            unused = self.dependencies.ended(chunk, (chunk.index_of[task_id],))
            if unused:
                self.release(unused)

    def leave_parent(self, chunk: Chunk, ids: Sequence[TaskId]) -> None:
        """If a task has submitted these, it has them no longer."""
        siblings = self.children.get(chunk.header.parent_task) if chunk.header.parent_task else None
        if siblings is not None:
            deque(map(siblings.pop, ids, repeat(None)), 0)
            if not siblings:
                del self.children[chunk.header.parent_task]

    def unfinish(self, chunk: Chunk, tasks: int) -> None:
        chunk.unfinished -= tasks
        client = chunk.client
        client.unfinished_count -= tasks
        client.combinations.task_count -= tasks
        if not chunk.unfinished:
            if chunk in client.chunks:
                del client.chunks[chunk]
                client.combinations.task_bytes -= len(chunk.batch.payload)
                combination = chunk.combination
                combination.batch_count -= 1
                if not combination.batch_count and combination.of_user.has_many:
                    combination.of_user.remove(combination)
            if chunk.header.graph_id:
                self.history.graph_ended(chunk, is_whole=chunk not in self.admitting)

    # ------------------------------------------------------------ outgoing

    def tell(self, peer_id: PeerId, message: Message) -> None:
        """Queue a message; everything queued for a peer leaves in this order when the core settles."""
        self._flush_rows(peer_id)
        self._out.setdefault(peer_id, []).append(message)

    def answer(self, client: Client, message: Message, ids: int = 1) -> None:
        """As `tell`: what a client causes without any work of a worker is charged to it. (LIM-16)"""
        self.tell(client.peer_id, message)
        self.backlog.pressure.answered(client.peer_id, ANSWER_BYTES + ANSWER_ROW_BYTES * ids)

    def deliver(self, client: Client, row: Row) -> None:
        if not client.is_gone:
            self._out_rows.setdefault(client.peer_id, []).append(row)

    def act(self, action: Action) -> None:
        self._actions.append(action)

    def act_last(self, action: Action) -> None:
        """After all messages of this settling have left."""
        self._last_actions.append(action)

    def release(self, objects: Iterable[tuple[Chunk, ObjectId]]) -> None:
        """Objects of present clients; those of a client that went are gone with it (OWN-4)."""
        by_owner: dict[PeerId, list[ObjectId]] = {}
        for chunk, object_id in objects:
            if not chunk.client.is_gone:
                by_owner.setdefault(chunk.client.peer_id, []).append(object_id)
        for owner, ids in by_owner.items():
            for begin in range(0, len(ids), IDS_IN_A_MESSAGE):
                part = join_ids(ids[begin : begin + IDS_IN_A_MESSAGE])
                self.act(SendToStorage(Release(request_id=0, owner=owner, ids=part)))

    def release_unused(self, chunk: Chunk, row: Row) -> None:
        """A result that no client will be told of: a large value would stay in storage (OWN-6)."""
        if (object_id := stored_by(row)) is not None:
            self.release([(chunk, object_id)])

    def told_header(self, chunk: Chunk, worker: Worker) -> TaskHeader:
        """Returns the header of these tasks for this worker, with the grant that is lent to its user. (OWN-24)"""
        if chunk.header.generation != self.generation:  # it has risen since the chunk was submitted
            chunk.header = with_generation(chunk.header, self.generation)
        header = chunk.told_header() if chunk.header.priority else chunk.header
        if not worker.lent_to:
            return header
        client, now = chunk.client, self.history.now
        lent = client.lent.get(worker.lent_to)
        if lent is None:
            lent = client.lent[worker.lent_to] = LentHeaders()
        if lent.has_to_be_made(now):
            lent.renew(self.lend(client.peer_id, client.family, worker.lent_to), now)
        return lent.header(header)

    def raise_generation(self, generation: int) -> None:
        self.generation = generation
        for client in self.clients.values():
            client.generation = generation

    def _unread(self, peer_id: PeerId) -> int:
        """Bytes that are kept for this client, by its session and outside of it."""
        client = self.clients.get(peer_id)
        waiting = 0 if client is None or client.window is None else client.window.waiting_bytes
        return self._unacknowledged(peer_id) + waiting

    def forget_peer(self, peer_id: PeerId) -> None:
        self._out.pop(peer_id, None)
        self._out_rows.pop(peer_id, None)

    def deliver_waiting(self) -> None:
        """Clients that were slow to read have read, perhaps."""
        for client, window in list(self.delivery.slow.items()):
            for message in self.delivery.next_of(client, window):
                self.act(Send(client.peer_id, message))

    def drain(self) -> list[Action]:
        if self._out_rows:
            for peer_id in list(self._out_rows):
                self._flush_rows(peer_id)
        actions, self._actions = self._actions, []
        # Workers first: they can begin while the clients' results are still being written.
        out, self._out = self._out, {}
        for peer_id in sorted(out, key=self.clients.__contains__) if len(out) > 1 else out:
            client, messages = self.clients.get(peer_id), out[peer_id]
            if client is not None:
                messages = self.delivery.outgoing(client, messages)
            for message in messages:
                actions.append(Send(peer_id, message))
        if self.delivery.let_out:
            self.delivery.let_out.clear()
        if self._last_actions:
            actions += self._last_actions
            self._last_actions = []
        return actions

    def _flush_rows(self, peer_id: PeerId) -> None:
        rows = self._out_rows.pop(peer_id, None)
        if rows:
            self._out.setdefault(peer_id, []).append(pack(rows))
            if any(row.status for row in rows):
                size = ANSWER_BYTES + sum(ANSWER_ROW_BYTES + len(row.value) for row in rows)
                self.backlog.pressure.answered(peer_id, size)
