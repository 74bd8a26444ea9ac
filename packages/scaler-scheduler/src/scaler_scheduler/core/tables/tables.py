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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import count, repeat

from scaler_protocol.columns import BUCKET_BOUNDS_SECONDS, join_ids, join_u16, most_results
from scaler_protocol.ids import LAST_ATTEMPT, GraphId, ObjectId, PeerId, TaskId, family_in
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Limits, Message, Release, Software, TaskHeader
from scaler_protocol.records import dataclass
from scaler_scheduler.core.actions import Action, Send, SendToStorage
from scaler_scheduler.core.entities.chunk import Chunk, Indexes
from scaler_scheduler.core.entities.combinations import Combinations, UserCombinations
from scaler_scheduler.core.entities.moments import marked
from scaler_scheduler.core.entities.results import Row, pack, stored_by
from scaler_scheduler.core.entities.shares import Share, Shares
from scaler_scheduler.core.entities.states import Move, State, target
from scaler_scheduler.core.entities.workers import LoadIndexes, Worker
from scaler_scheduler.core.notes.cluster_events import ClusterEvents
from scaler_scheduler.core.notes.deaths import Deaths
from scaler_scheduler.core.notes.display import DisplayIds
from scaler_scheduler.core.notes.function_counts import FunctionTable
from scaler_scheduler.core.notes.history import History
from scaler_scheduler.core.notes.names import FunctionNames, KnownObjects
from scaler_scheduler.core.scaling.policies import Scaling
from scaler_scheduler.core.tables.backlog import Backlog
from scaler_scheduler.core.tables.delivery import Delivery, Window
from scaler_scheduler.core.tables.dependencies import Dependencies
from scaler_scheduler.core.tables.families import Families
from scaler_scheduler.core.tables.gone_owners import GoneOwners
from scaler_scheduler.core.tables.presentation import Presentation
from scaler_scheduler.core.tables.ready import ReadyQueue

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


@lru_cache(maxsize=256)
def _with_generation(header: TaskHeader, generation: int) -> TaskHeader:
    """Returns one object for equal headers: one comes with thousands of batches."""
    return replace(header, generation=generation)


@dataclass(frozen=True, slots=True)
class Policy:
    """What an operator chose."""

    lost_workers_limit: int = 3
    lost_processors_limit: int = 3  #: for tasks whose header says nothing (SCH-75)
    load_balance_seconds: float = 1.0  #: between two looks; zero or less: never
    load_balance_trigger_times: int = 2  #: how many looks in a row must find something to move
    user_tasks: int = 10_000_000  #: that each user may have unfinished (LIM-35)
    user_task_bytes: int = 4 << 30  #: of their arguments
    waiting_limit: int = -1  #: how many tasks may wait for a worker; below zero: any number
    is_protected: bool = False
    shows_texts: bool = False  #: monitors see tracebacks and stacks of tasks (MON-33, MON-42)
    allows_control: bool = False  #: operators at monitors cancel tasks and let workers leave (MON-49)
    #: between two namings of the clients that live (OWN-20): no shorter than the lease of clients
    owner_grace_seconds: float = 60.0
    scaling: Scaling = field(default_factory=Scaling)
    user_weights: Mapping[str, float] = field(default_factory=dict)  #: of users whose share is not 1 (SCH-92)


class Client:
    __slots__ = (
        "_last_header", "_own", "chunks", "combinations", "generation", "given_bytes", "grant", "graphs", "holds",
        "identity", "inline_limit", "is_gone", "is_held", "is_told_of_kept", "number", "object_bytes",
        "object_count", "payload_limit", "peer_id", "rows_limit", "share", "software", "unfinished_count",
        "user_object_bytes", "window",
    )  # fmt: skip

    def __init__(
        self,
        peer_id: PeerId,
        number: int,
        software: Software,
        limits: Limits,
        share: Share,
        combinations: UserCombinations,
        identity: Identity | None = None,
        grant: bytes = b"",
    ) -> None:
        self.peer_id = peer_id
        #: what its program has had of the workers (SCH-91)
        self.share = share
        #: whose session it is, which rights depend on: in a task the user of the worker. None: the cluster has no keys
        self.identity = identity
        #: with which it and the workers of its tasks name it to the storage; empty where there are no keys (OWN-16)
        self.grant = grant
        #: rises with each session that a client opens: only a later one takes over the tasks of another (SCH-8)
        self.number = number
        self.software = software
        #: results in one message to it, bytes of one payload frame, and bytes of one error (LIM-3, PAY-2)
        self.rows_limit = most_results(limits)
        self.payload_limit = limits.payload_frame_bytes
        self.inline_limit = limits.inline_bytes
        #: chunks with unfinished tasks, oldest first
        self.chunks: dict[Chunk, None] = {}
        #: graphs that this client has not sealed -> their ended tasks whose results are kept (SCH-18)
        self.graphs: dict[GraphId, dict[TaskId, None]] = {}
        self.unfinished_count = 0
        self.is_gone = False
        #: none of its queued tasks is given to a worker: many of them are just being ended (CAN-11), or it does not
        #: read its results (SCH-46); `holds` counts these reasons
        self.is_held = False
        self.holds = 0
        #: what it lets be on its way; None: any amount, for it has not the feature (SCH-45)
        self.window: Window | None = None
        #: it is told of results that are kept for its tasks, and may give some (SCH-51, SCH-53)
        self.is_told_of_kept = False
        #: of all results that it has given in this session (SCH-54)
        self.given_bytes = 0
        #: what it owns in the storage, as that has said last (MON-27)
        self.object_count = 0
        self.object_bytes = 0
        self.user_object_bytes = 0  #: what its user has there of its quota (MON-69)
        self._last_header = self._own = TaskHeader(client=peer_id)
        self.combinations = combinations  #: those of its user
        #: of the scheduler, as headers of this client's tasks carry it (SCH-61)
        self.generation = 0

    def own(self, header: TaskHeader) -> TaskHeader:
        """The header as it is dispatched (SCH-3, OWN-16, SCH-61). Programs use one header again and again."""
        if header is not self._last_header or self._own.generation != self.generation:
            own = replace(header, client=self.peer_id, owner_grant=self.grant, generation=self.generation)
            self._last_header, self._own = header, own
        return self._own

    def begin(self, chunk: Chunk) -> None:
        """It has unfinished tasks from now on."""
        if chunk not in self.chunks:
            self.chunks[chunk] = None
            if not chunk.combination.is_listed:
                chunk.combination = self.combinations.enter(chunk.combination)
            chunk.combination.batch_count += 1
            self.combinations.task_bytes += len(chunk.batch.payload)

    @property
    def user(self) -> str:
        """Returns the user of its program, for whom its tasks count, as monitors are shown it. (MON-25)"""
        return self.share.user

    @property
    def proven_family(self) -> bytes:
        """Empty where there are no keys."""
        return family_in(self.grant, self.peer_id)

    @property
    def family(self) -> bytes:
        """For whom its objects may be read: itself, or the program in whose task it is. (STO-33)"""
        return self.proven_family or self.peer_id


Place = Chunk | Worker


class Tables:
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
        self.load_indexes = LoadIndexes(self.workers)
        self.ready = ReadyQueue(
            lambda key: self.load_indexes.of(key, self.ready.classes.values()), self.load_indexes.changed
        )
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
        self.families = Families(self)
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

    def renew_header(self, chunk: Chunk) -> None:
        """The generation has risen since the chunk was submitted. (SCH-61)"""
        chunk.header = _with_generation(chunk.header, self.generation)

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
