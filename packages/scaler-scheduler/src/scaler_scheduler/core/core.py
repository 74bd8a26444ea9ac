"""The scheduler's decisions, without sockets or clocks.

`handle(event, now)` is the only way in; actions are the only way out. Messages of one wake-up are handed in one after
another and then `Settled`: tasks are placed and everything for a peer leaves together, so the busier the scheduler is,
the larger the batches (BAT-4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from scaler_protocol.codes import (
    OK,
    ROLE_CLIENT,
    ROLE_MANAGER,
    ROLE_MONITOR,
    ROLE_SCHEDULER,
    ROLE_WORKER,
    SESSION_REPLACED,
)
from scaler_protocol.ids import PeerId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import (
    NO_PEER,
    Cancel,
    CancelReply,
    ClusterStatus,
    Control,
    Credit,
    DumpRequest,
    Explain,
    Explanation,
    GraphRequest,
    GraphShapes,
    Hello,
    Holding,
    KeptResults,
    ManagerStatus,
    Message,
    NameFunctions,
    Results,
    Returned,
    Shutdown,
    SnapshotRequest,
    StackReply,
    StackRequest,
    Submit,
    TaskLog,
    TaskSamples,
    Watch,
    WorkerStatus,
)
from scaler_protocol.records import dataclass
from scaler_protocol.session import Complained, Lost, Opened, Received
from scaler_protocol.session.gate import Gate
from scaler_scheduler.core.accepting import admission, submission
from scaler_scheduler.core.actions import Action, Asked, MonitorLeft, PublishLog, SendToStorage
from scaler_scheduler.core.ending import cancellation, completion, cut_off, refusals
from scaler_scheduler.core.entities.clients import Client, Window
from scaler_scheduler.core.entities.headers import Lend
from scaler_scheduler.core.entities.states import UNFINISHED
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes import cluster_events
from scaler_scheduler.core.peers import live_owners, membership, pools
from scaler_scheduler.core.placing import balancing, placement
from scaler_scheduler.core.policy import Policy
from scaler_scheduler.core.scaling.controller import Scaler
from scaler_scheduler.core.succession import confirming, keeping, presenting, recovering
from scaler_scheduler.core.tables import rights
from scaler_scheduler.core.tables.backlog import Job, weight_of
from scaler_scheduler.core.tables.delivery import window_of
from scaler_scheduler.core.tables.tables import Tables
from scaler_scheduler.core.watching import control, dumping, monitor, shapes
from scaler_scheduler.core.watching.explaining import Explainer, Lines, explanation
from scaler_scheduler.core.watching.graph_parts import GraphParts
from scaler_scheduler.core.watching.owned import OwnedObjects
from scaler_scheduler.core.watching.sampling import Sampler
from scaler_scheduler.core.watching.stack_sampling import FEATURE_STACK_SAMPLES, StackSampler
from scaler_scheduler.core.watching.stacks import FEATURE_STACKS, Stacks

#: What each role may send; the session layer answers anything else with NOT_ALLOWED (HSK-13).
ALLOWED_MESSAGES: dict[int, frozenset[type]] = {
    ROLE_CLIENT: frozenset({Submit, KeptResults, Cancel, Explain, StackRequest, Shutdown, NameFunctions}),
    ROLE_WORKER: frozenset({Results, Credit, Returned, WorkerStatus, CancelReply, TaskLog, Holding, StackReply}),
    ROLE_MONITOR: frozenset({Watch, SnapshotRequest, Explain, StackRequest, GraphRequest, DumpRequest, Control}),
    ROLE_MANAGER: frozenset({ManagerStatus}),
    ROLE_SCHEDULER: frozenset(),  # one that waits to follow on this one, or has (SCH-80)
}

#: What waits while work for its client is left; the rest asks, and is answered at once.
_IN_ORDER = frozenset({Submit, KeptResults, Cancel})
#: Of a worker that has left; the rest says what it would do next.
_ENDS_TASKS = frozenset({Results, CancelReply, Returned})

TASK_BYTES = 200
"""About what the tables take for each unfinished task, without its arguments."""

FEATURE_CHAINS = "chains"
FEATURE_SAMPLES = "samples"
FEATURE_RESULT_WINDOW = "result-window"
FEATURE_KEPT_RESULTS = "kept-results"
FEATURE_LIVE_OWNERS = "live-owners"


@dataclass(frozen=True, slots=True)
class Settled:
    """All that had arrived was handed in: place tasks, and let out what came of it."""


class Numbered(NamedTuple):
    """The session has numbered the Dispatch of these tasks to this worker. (A tuple: one for each Dispatch.)"""

    worker_id: PeerId
    seq: int
    ids: bytes


class StorageOpened(NamedTuple):
    """A new session with the object storage."""

    takes_live_owners: bool = False
    """It has the feature `live-owners`."""


class StorageReplied(NamedTuple):
    """The object storage has answered a request of ours, in whatever way."""

    request_id: int
    code: int = OK


Event = Opened | Received | Complained | Lost | Numbered | StorageOpened | StorageReplied | Settled


class SchedulerCore:
    def __init__(
        self,
        policy: Policy,
        unacknowledged: Callable[[PeerId], int] = lambda client_id: 0,
        display_key: bytes = b"",
        server_id: PeerId = NO_PEER,
        progress: Callable[[PeerId], tuple[int, int]] = lambda client_id: (0, 0),
        family_of: Callable[[PeerId, bytes], bytes | None] = lambda owner, grant: b"",
        lend: Lend = lambda owner, family, user: b"",
    ) -> None:
        """`unacknowledged`: how many bytes the session keeps for a client, because it has not acknowledged them.
        `display_key`: random, and of this life alone. `progress`: the last message that a client was sent, and the last
        that it has acknowledged. `family_of`: of an owner and its grant, None if that is not its grant."""
        self.tables = Tables(policy, unacknowledged, display_key)
        self.events, self._shares = self.tables.events, self.tables.shares
        self.tables.presentation.family_of = family_of
        self.tables.lend = lend
        self._balancer = balancing.Balancer(self.tables)
        self._scaler = Scaler(self.tables)
        self._explainer = Explainer(self.tables, self._scaler)
        self.stacks = Stacks(self.tables)
        self.stack_sampler = StackSampler(self.tables)
        self._controls = control.Controls(self.tables)
        self._sampler = Sampler(self.tables, self.stack_sampler)
        self._keeper = keeping.Keeper(self.tables)
        self.owned_objects = OwnedObjects(self.tables)
        self._namer = live_owners.Namer(self.tables)
        self._recovery = recovering.Recovery(self.tables, server_id)
        self._confirmer = confirming.Confirmer(self.tables, self._keeper.tell, progress)
        self._is_log_watched = False
        self.graph_parts = GraphParts(self.tables)
        self._handlers: dict[type, Callable[[Event, float], None]] = {
            Opened: self._opened,  # type: ignore[dict-item]
            Received: self._received,  # type: ignore[dict-item]
            Complained: self._complained,  # type: ignore[dict-item]
            Lost: self._lost,  # type: ignore[dict-item]
            Numbered: self._numbered,  # type: ignore[dict-item]
            StorageOpened: self._storage_opened,  # type: ignore[dict-item]
            StorageReplied: self._storage_replied,  # type: ignore[dict-item]
            Settled: self._settled,  # type: ignore[dict-item]
        }
        self._from_client: dict[type, Callable[[Client, int, Message], Job | None]] = {
            Submit: lambda client, seq, message: submission.submit(self.tables, client, seq, message),  # type: ignore[arg-type]
            KeptResults: lambda client, seq, message: keeping.restore(self.tables, client, seq, message),  # type: ignore[arg-type]
            Cancel: lambda client, seq, message: cancellation.cancel(self.tables, client, message),  # type: ignore[arg-type]
            Explain: lambda client, seq, message: self._explainer.ask(client, message),  # type: ignore[arg-type]
            StackRequest: lambda client, seq, message: self.stacks.of_client(client, message),  # type: ignore[arg-type]
            Shutdown: lambda client, seq, message: control.shutdown(self.tables, client, message),  # type: ignore[arg-type]
            NameFunctions: lambda client, seq, named: self.tables.function_names.learn(named, client.user),  # type: ignore[arg-type]
        }
        self._from_worker: dict[type, Callable[[Worker, Message], Job | None]] = {
            Results: lambda worker, message: completion.results(self.tables, worker, message),  # type: ignore[arg-type]
            Credit: self._credit,  # type: ignore[dict-item]
            Returned: lambda worker, message: membership.returned(self.tables, worker, message),  # type: ignore[arg-type]
            CancelReply: lambda worker, message: cancellation.answered(self.tables, worker, message),  # type: ignore[arg-type]
            TaskLog: self._task_log,  # type: ignore[dict-item]
            StackReply: lambda worker, message: self.stacks.answered(worker, message),  # type: ignore[arg-type]
            WorkerStatus: self._worker_status,  # type: ignore[dict-item]
            Holding: self._holding,  # type: ignore[dict-item]
        }

    def handle(self, event: Event, now: float) -> list[Action]:
        self._shares.now = self.tables.history.now = now
        self._handlers[type(event)](event, now)
        return self.tables.drain() if type(event) is Settled else []

    def next_deadline(self) -> float | None:
        """Returns when `Settled` is due even though nothing arrives: at once when work is left over from this turn,
        else at the next look of one of the parts."""
        tables = self.tables
        if tables.backlog.jobs or tables.families.looks_left <= 0 or tables.placing_left <= 0:
            return 0.0
        earliest = min(self._balancer.look_at, self._namer.look_at, self._confirmer.look_at, self._recovery.look_at)
        earliest = min(earliest, self.events.look_at)
        # Until the end of a recovery, which is a deadline too, managers are not looked at.
        if self._scaler.look_at < earliest and not tables.presentation.is_recovering:
            earliest = self._scaler.look_at
        if tables.cut_off or tables.dependencies.kept or self.stacks.questions:
            for at in (cut_off.next_deadline(tables), self._keeper.next_deadline(), self.stacks.next_deadline()):
                earliest = earliest if at is None else min(earliest, at)
        return None if earliest == math.inf else earliest

    def is_busy_with(self, peer_id: PeerId) -> bool:
        """Not all that this peer's messages cause has left: it gets no Pong yet. (LIV-4)"""
        tables = self.tables
        if not tables.backlog:
            return False
        owner = tables.clients.get(peer_id) or tables.workers.get(peer_id)
        return owner is not None and owner in tables.backlog

    @property
    def gate(self) -> Gate:
        """Which peers send more than is worked off. (SES-33)"""
        return self.tables.backlog.pressure

    def meet(self, hello: Hello, *, is_operator: bool = True) -> int:
        """For the Welcome that answers this Hello: our generation. Without keys all peers are operators'. (HSK-35)"""
        return self._recovery.meet(hello, is_operator=is_operator)

    @property
    def generation(self) -> int:
        return self.tables.generation

    def serve(self, generation: int, now: float) -> None:
        """From now on: until then another scheduler has. (SCH-81)"""
        self.tables.raise_generation(min(generation, recovering.GENERATION_MAX))
        self.tables.history.now = now
        self.tables.events.note(cluster_events.SCHEDULER_TOOK_OVER, "", f"generation {self.tables.generation}")
        self._recovery.begin(now)

    def suspect(self, worker_id: PeerId, is_suspected: bool) -> None:
        """The host of this worker may have vanished, or has given a sign. Settle afterwards. (SCH-84)"""
        worker = self.tables.workers.get(worker_id)
        if worker is not None:
            cut_off.suspect(self.tables, worker, is_suspected)

    def family_of(self, hello: Hello, identity: Identity) -> bytes:
        """Of a client that is about to join: that of the client in whose task it is; empty for its own. (OWN-16)"""
        return rights.family_in_task(self.tables, hello.parent_task, identity) or b""

    def is_in_task_of(self, hello: Hello, identity: Identity) -> bool | None:
        """Whether this client is inside the task that it names: a worker of the same user has that task at present.
        Task ids are no secrets. (SCH-55) None: its worker may still present the task. (SCH-74)"""
        if rights.family_in_task(self.tables, hello.parent_task, identity) is not None:
            return True
        return None if self._recovery.may_be_presented(hello) else False

    def note(self, kind: str, subject: str, text: str, now: float) -> None:
        """An event that happens outside of the core. (MON-36)"""
        self.tables.history.now = now
        if kind == cluster_events.LIMIT_REACHED:
            self.events.note_limit(subject, text)
        else:
            self.events.note(kind, subject, text)

    def name_of(self, peer_id: PeerId) -> str:
        """For people: of a worker or manager its name, of others the beginning of their display id."""
        worker, manager = self.tables.workers.get(peer_id), self._scaler.managers.get(peer_id)
        name = worker.name if worker is not None else manager.name if manager is not None else ""
        return name or self.display_id(peer_id).hex()[:8]

    def snapshot(self, now: float, told_event: int = 0) -> ClusterStatus:
        status = monitor.snapshot(self.tables, self._scaler.managers.values(), now, told_event)
        return self._recovery.told(status, now)

    def display_id(self, peer_id: PeerId) -> PeerId:
        """What monitors, and people, are shown in its place. (MON-23)"""
        return self.tables.display.of(peer_id)

    def explanation(self, question: Explain, now: float) -> Explanation:
        """Where a task is, of whichever client, for a monitor. (MON-15)"""
        return explanation(self.tables, self._scaler, None, question, now, Lines(self.tables))

    def watch(self, *, tasks: bool, logs: bool, graphs: bool = False) -> None:
        """Whether any session watches tasks, what they print, or graphs; said again now and then. Settle afterwards."""
        self.tables.history.tick()
        self._sampler.want(tasks)
        self._is_log_watched = logs
        self.graph_parts.watch(is_watched=graphs)

    def task_samples(self, now: float) -> TaskSamples:
        """Those that have come since the last time."""
        return self._sampler.publication(now)

    def history(self, now: float) -> TaskSamples:
        """What is kept of tasks that have ended. (MON-34)"""
        return self._sampler.history(now)

    def graph_shapes(self) -> GraphShapes:
        return shapes.shapes(self.tables)

    @property
    def memory_bytes(self) -> int:
        return TASK_BYTES * sum(self.tables.counts[state] for state in UNFINISHED)

    def dump(self, now: float) -> Iterator[dict[str, Any]]:
        """All there is to remember, without arguments and results."""
        return dumping.lines(self.tables, self._scaler.managers.values(), now)

    # ------------------------------------------------------------ sessions

    def _opened(self, event: Opened, now: float) -> None:
        if event.hello.role == ROLE_CLIENT:
            client = membership.client_joined(self.tables, event)
            if FEATURE_RESULT_WINDOW in event.welcome.features:
                client.window = Window(window_of(event.hello.result_window_bytes))
            client.is_told_of_kept = FEATURE_KEPT_RESULTS in event.welcome.features
            self._recovery.client_came(client, event, now)
        elif event.hello.role == ROLE_WORKER:
            hello = pools.of_user(event.hello, event.identity)
            worker = membership.worker_joined(self.tables, event.peer_id, hello, event.welcome, now)
            membership.note_identity(worker, event.identity)
            worker.takes_followers = FEATURE_CHAINS in event.welcome.features
            worker.may_sample = FEATURE_SAMPLES in event.welcome.features
            worker.may_stack = FEATURE_STACKS in event.welcome.features
            worker.may_sample_stacks = FEATURE_STACK_SAMPLES in event.welcome.features
            self.tables.has_idled = True
            if not event.is_again:
                self.tables.events.note_joined(worker.name, cluster_events.place_of(event.hello.software))
            self._recovery.worker_came(worker, event, now)
            self._scaler.worker_joined(worker)
        elif event.hello.role == ROLE_MANAGER:
            self._scaler.manager_joined(event.peer_id, pools.of_user(event.hello, event.identity), event.identity)
        elif event.hello.role == ROLE_MONITOR:
            self._controls.joined(event.peer_id, event.identity)

    def _lost(self, event: Lost, now: float) -> None:
        client, worker = self.tables.clients.get(event.peer_id), self.tables.workers.get(event.peer_id)
        if client is not None:
            # One without unfinished tasks is mostly that of a task whose process was ended: nothing comes of its loss.
            if client.unfinished_count and not event.is_orderly and event.code != SESSION_REPLACED:
                name = self.display_id(event.peer_id).hex()[:8]
                text = f"its {client.unfinished_count} unfinished tasks end: {event.text}"  # none runs again (SCH-22)
                self.tables.events.note(cluster_events.CLIENT_LOST, name, text)
            self.stacks.lost(event.peer_id)
            membership.client_left(self.tables, client, is_replaced=event.code == SESSION_REPLACED)
            self._recovery.is_at_work |= bool(self.tables.presentation.departed)
        elif worker is not None:
            text = membership.parting_text(self.tables, worker, event.text)
            if not event.is_again:
                self.tables.events.note_gone(worker.name, text, len(worker.held), is_orderly=event.is_orderly)
            self._scaler.worker_left(worker)
            membership.worker_left(self.tables, worker, event.text, is_orderly=event.is_orderly)
        elif not self._scaler.manager_left(event.peer_id):
            self.stacks.lost(event.peer_id)
            self._controls.left(event.peer_id)
            self.tables.act(MonitorLeft(event.peer_id))

    def _complained(self, event: Complained, now: float) -> None:
        worker = self.tables.workers.get(event.peer_id)
        if worker is not None and event.ref_seq:
            self.tables.backlog.start(worker, refusals.complained(self.tables, worker, event))

    def _numbered(self, event: Numbered, now: float) -> None:
        worker = self.tables.workers.get(event.worker_id)
        if worker is not None:
            refusals.note_dispatch(worker, event.seq, event.ids)

    def _storage_opened(self, event: StorageOpened, now: float) -> None:
        for request in self.tables.gone_owners.unconfirmed():
            self.tables.act(SendToStorage(request))
        for claim in self.tables.presentation.unanswered():
            self.tables.act(SendToStorage(claim))
        self._namer.storage_opened(now, takes_namings=event.takes_live_owners)

    def _storage_replied(self, event: StorageReplied, now: float) -> None:
        self.tables.gone_owners.confirmed(event.request_id)
        self._namer.replied(event.request_id)
        if event.request_id in self.tables.presentation.claims:
            completion.claimed(self.tables, event.request_id, is_there=event.code == OK)

    # ------------------------------------------------------------ messages

    def _received(self, event: Received, now: float) -> None:
        message = event.message
        worker = self.tables.workers.get(event.peer_id)
        if worker is not None:
            worker.heard_at = now
            if worker in self.tables.backlog.jobs:
                self.tables.backlog.start(worker, self._later_from_worker(worker, message), weight_of(message))
                return
            job = self._from_worker[type(message)](worker, message)
            if job is not None:
                self.tables.backlog.start(worker, job, weight_of(message))
            if worker.tails:
                self.tables.followable[worker] = None
            return
        client = self.tables.clients.get(event.peer_id)
        if client is not None:
            if type(message) in _IN_ORDER and client in self.tables.backlog.jobs:
                later = self._later_from_client(client, event.seq, message)
                self.tables.backlog.start(client, later, weight_of(message))
                return
            job = self._from_client[type(message)](client, event.seq, message)
            if job is not None:
                self.tables.backlog.start(client, job, weight_of(message))
        elif isinstance(message, (Watch, SnapshotRequest, Explain, StackRequest, GraphRequest, DumpRequest)):
            self.tables.act(Asked(event.peer_id, event.seq, message))
        elif isinstance(message, Control):
            self._controls.do(event.peer_id, message)
        elif isinstance(message, ManagerStatus):
            self._scaler.reported(event.peer_id, message, now)

    def _later_from_worker(self, worker: Worker, message: Message) -> Job:
        if worker.is_gone and type(message) not in _ENDS_TASKS:
            return
        yield from self._from_worker[type(message)](worker, message) or ()
        if worker.tails:
            self.tables.followable[worker] = None
        yield 1

    def _later_from_client(self, client: Client, seq: int, message: Message) -> Job:
        if not client.is_gone:
            yield from self._from_client[type(message)](client, seq, message) or ()
            yield 1

    def _holding(self, worker: Worker, message: Holding) -> Job | None:
        self._recovery.worker_presented(worker, message)
        return presenting.holding(self.tables, worker, message)

    def _credit(self, worker: Worker, message: Credit) -> None:
        worker.limit, worker.nested_reserve = message.limit, message.nested_reserve
        worker.load_changed()

    def _task_log(self, worker: Worker, message: TaskLog) -> None:
        chunk = worker.held.get(message.task_id)
        if chunk is not None and not chunk.client.is_gone and message.task_id not in self.tables.abandoned:
            self.tables.tell(chunk.client.peer_id, message)
            if self._is_log_watched:
                self.tables.act(PublishLog(message))

    def _worker_status(self, worker: Worker, message: WorkerStatus) -> None:
        if message.functions:
            self.tables.functions.merge(worker, message)
            message = replace(message, functions=b"", function_buckets=b"")
        if message.ended_count or message.samples or message.stack_samples:
            message = self._sampler.take(worker, message)
        membership.note_status(self.tables, worker, message)

    # ------------------------------------------------------------ placing

    def _settled(self, event: Settled, now: float) -> None:
        tables = self.tables
        if tables.delivery.slow:
            tables.deliver_waiting()
        tables.backlog.go_on()
        if self._recovery.is_at_work or now >= self._recovery.due_at:
            self._recovery.settle(now)
        is_wanted = self._scaler.look_at < math.inf or self._scaler.managers
        if is_wanted and not tables.presentation.is_recovering:  # else the workers that are missing may be on their way
            self._scaler.settle(now)
        if tables.cut_off:
            cut_off.settle(tables, now)
        if tables.dependencies.kept or self._keeper.look_at is not None:
            self._keeper.settle(now)
        if now >= self._confirmer.due_at or tables.presentation.has_news:
            self._confirmer.settle(now)
        placement.place(tables)
        if tables.arrived and tables.placing_left > 0 and not tables.presentation.is_recovering:
            admission.refuse_excess(tables)
        self._balancer.settle(now)
        if self._explainer.questions:
            self._explainer.settle(now)
        if self.stacks.questions:
            self.stacks.settle(now)
        if now >= self._namer.look_at:
            self._namer.settle(now)
        if now >= self.events.look_at:
            self.events.settle(now)
