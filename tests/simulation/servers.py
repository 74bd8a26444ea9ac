"""The scheduler and the storage of a simulated cluster, with the laws that can be seen from there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scaler_protocol.codes import BAD_IDENTITY, ROLE_SCHEDULER, ROLE_WORKER
from scaler_protocol.columns import split_ids, split_u16
from scaler_protocol.ids import PeerId, TaskId
from scaler_protocol.messages import (
    NO_TASK,
    Cancel,
    Dispatch,
    Hello,
    KeptResults,
    Limits,
    ObjectReply,
    Reject,
    ReleaseOwner,
    Results,
)
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected, SessionServer, WelcomeFields
from scaler_protocol.session.vanishing import VanishedHosts
from scaler_scheduler import core as scheduling
from scaler_scheduler.core import invariants as scheduler_invariants
from scaler_scheduler.core.entities.workers import Worker
from scaler_storage import core as storing
from scaler_storage.core import invariants as storage_invariants
from tests.simulation.nodes import TIMERS, Port, ServerNode, earliest

if TYPE_CHECKING:
    from tests.simulation.world import World


VANISHED_SECONDS = 5.0
TIGHT = Limits(batch_tasks=3, envelope_bytes=64 * 1024)


class StorageNode(ServerNode):
    def __init__(self, world: World) -> None:
        super().__init__(world, "storage")
        self.start()

    def start(self) -> None:
        self.is_up = True
        # What a peer may leave unread before its Gets wait: the real ones, or less than most answers.
        unread = self.world.limits_rng.choice((storing.CoreLimits().unread_bytes, 300))
        self.core = storing.StorageCore(
            storing.CoreLimits(unread_bytes=unread, least_unread_bytes=min(unread, 1_000)),
            unread=lambda peer_id: self.server.backlog_bytes(peer_id),
            all_unread=lambda: self.server.total_backlog_bytes,
        )
        #: owners of which a scheduler has said that they are gone
        self.told_gone: set[PeerId] = set()
        self.server = SessionServer(
            server_id=self.new_id(),
            role_name="object storage server",
            allowed_roles=storing.ALLOWED_ROLES,
            allowed_messages=storing.ALLOWED_MESSAGES,
            features=(storing.FEATURE_LIVE_OWNERS,),
            timers=TIMERS,
            is_busy_with=self.core.is_busy_with,
            gate=self.core.work.pressure,
        )
        self.wake()

    def round(self, now: float) -> None:
        for event in self.poll_server(now):
            if isinstance(event, (Complained, Rejected)):
                self.world.fail(f"storage: {event}")
            if isinstance(event, Received) and isinstance(event.message, ReleaseOwner):
                self.told_gone.add(event.message.owner)
            self._perform(self.core.handle(event, now))
        self._perform(self.core.handle(storing.Tick(), now))
        self.settle_server(now)

    def _perform(self, actions: list[storing.Action]) -> None:
        """Nothing is shared here, so there is no directory."""
        for action in actions:
            if isinstance(action, storing.Send) and not self.is_silent_to(action.peer_id):
                self.server.send(action.peer_id, action.message)

    def is_silent_to(self, peer_id: PeerId) -> bool:
        """Whether it lives, keeps the session, and gives this peer no answer: for worlds in which that is so."""
        return False

    def next_deadline(self) -> float | None:
        return earliest(self.server.next_deadline(), self.core.next_deadline())

    def check(self) -> None:
        storage_invariants.check(self.core)
        self.world.check_owners()


class SchedulerNode(ServerNode):
    def __init__(self, world: World, storage: StorageNode, name: str = "scheduler") -> None:
        super().__init__(world, name)
        self._storage_node = storage
        self.start()

    def start(self) -> None:
        self.is_up = True
        self.server_id = server_id = self.new_id()
        self.core = scheduling.SchedulerCore(
            self.world.policy(),
            lambda client_id: self.server.backlog_bytes(client_id),
            server_id=server_id,
            progress=lambda client_id: self.server.progress(client_id),
        )
        backlog = self.core.tables.backlog
        backlog.turn_steps, backlog.slice_tasks = self.world.rng.choice(((backlog.turn_steps, 256), (20, 3), (1, 1)))
        backlog.units_at_once = min(backlog.units_at_once, 16 * backlog.slice_tasks - 15)
        # What a peer may have waiting: the first are the real ones; with the others many a message is one too many.
        pressures = ((backlog.pressure.peer_bytes, backlog.pressure.total_bytes), (2_000, 6_000), (1, 1))
        pressure = backlog.pressure
        pressure.peer_bytes, pressure.total_bytes = self.world.limits_rng.choice(pressures)
        if pressure.peer_bytes <= 2_000:  # then clients are held back for answers that they have not read, too
            pressure.answers.most_bytes, pressure.answers.all_most_bytes = pressure.peer_bytes, pressure.total_bytes
        self.server = SessionServer(
            server_id=server_id,
            role_name="scheduler",
            welcome=self._welcome,
            allowed_roles=tuple(scheduling.ALLOWED_MESSAGES),
            allowed_messages=scheduling.ALLOWED_MESSAGES,
            features=(
                scheduling.FEATURE_CHAINS,
                scheduling.FEATURE_RESULT_WINDOW,
                # of this life: the one before may have had it
                *self.world.some((scheduling.FEATURE_KEPT_RESULTS,), 0.9, self.world.limits_rng),
                *self.world.some((scheduling.FEATURE_PRESENT_HELD,), 0.9, self.world.present_rng),
            ),
            timers=TIMERS,
            # Of this life: the one before may have granted more than this.
            limits=self.world.limits_rng.choice((Limits(), Limits(), Limits(), TIGHT)),
            is_busy_with=self.core.is_busy_with,
            gate=self.core.gate,
            turned_away=self._turned_away,
            reconnect_grace_seconds=self.world.reconnect_grace_seconds,
            vanished=VanishedHosts(VANISHED_SECONDS, frozenset({ROLE_WORKER}), self.core.suspect),
        )
        hello = Hello(1, 1, ROLE_SCHEDULER, server_id, timers=TIMERS, features=(scheduling.FEATURE_LIVE_OWNERS,))
        self._storage = Port(self, self._storage_node, hello, "object storage server", is_renamed=True)
        #: the latest attempt of each task that was dispatched in this life
        #: by client: one that begins anew is another, and the scheduler may know nothing of its tasks any more
        self._attempts: dict[tuple[PeerId, TaskId], int] = {}
        #: tasks that a Cancel has named, with the first attempt that must not leave any more; clients that have gone
        self._canceled: dict[tuple[PeerId, TaskId], int] = {}
        self._gone: set[PeerId] = set()
        #: tasks that it was seen to be canceling since their last Dispatch; and of dispatched tasks the parents
        self._canceling: set[TaskId] = set()
        self._parents: dict[TaskId, TaskId] = {}
        #: of each client the Results that it had not acknowledged when that was looked at: number, payload bytes
        self._unread: dict[PeerId, deque[tuple[int, int]]] = {}
        self.wake()

    def _turned_away(self, hello: Hello) -> Reject | None:
        """Empty where there is no other scheduler."""
        return None

    def _welcome(self, hello: Hello, identity: object = None) -> WelcomeFields:
        return WelcomeFields(generation=self.core.meet(hello))

    def crash(self) -> None:
        super().crash()
        self._storage.close()
        self.world.scheduler_died(self)

    def round(self, now: float) -> None:
        for event in self.poll_server(now):
            if isinstance(event, Complained):
                self.world.fail(f"a peer of the scheduler complains: {event.text} ({event.clause})")
            elif not isinstance(event, Rejected):
                self._note(event)
                self.core.handle(event, now)
                self._canceling.update(self.core.tables.canceling)
        for stored in self._storage.poll(now):
            if isinstance(stored, (Lost, Rejected)):
                self._storage.redial(stored)
            elif isinstance(stored, Opened):
                takes_live_owners = scheduling.FEATURE_LIVE_OWNERS in stored.welcome.features
                self.core.handle(scheduling.StorageOpened(takes_live_owners), now)
            elif isinstance(stored, Received) and isinstance(stored.message, ObjectReply):
                self.core.handle(scheduling.StorageReplied(stored.message.request_id, stored.message.code), now)
        self._settle(now)
        self._check_nothing_waits_in_vain()
        self.settle_server(now)
        self._storage.settle(now)

    def _check_nothing_waits_in_vain(self) -> None:
        """No task is queued that a worker has a place for (SCH-25): liveness of nesting depends on it (chapter 10)."""
        tables = self.core.tables
        for ready in tables.ready.waiting():
            able = [worker.name for worker in ready.index.members if ready.index.room(worker) > 0]
            self.world.law(not able, f"{ready.count} tasks of class {ready.key} wait, and {able} could run one")

    def _settle(self, now: float) -> None:
        slow_before = {client.peer_id for client in self.core.tables.delivery.slow}
        held_before = {peer_id: len(worker.held) for peer_id, worker in self.core.tables.workers.items()}
        actions = self.core.handle(scheduling.Settled(), now)
        self._canceling.update(self.core.tables.canceling)
        for action in actions:
            if isinstance(action, scheduling.Send):
                self._check_law(action, held_before)
                self.world.was_sent(self, action.peer_id, action.message)
                self._check_window(action, slow_before)
                seq = self.server.send(action.peer_id, action.message)
                if isinstance(action.message, Dispatch):
                    self.core.handle(scheduling.Numbered(action.peer_id, seq, action.message.ids), now)
                elif isinstance(action.message, (Results, KeptResults)):
                    slow_before.discard(action.peer_id)  # it has read
                    self._unread.setdefault(action.peer_id, deque()).append((seq, len(action.message.payload)))
            elif isinstance(action, scheduling.Disconnect):
                self.world.law(action.code == BAD_IDENTITY, f"a peer is turned out: {action.text}")
                self.server.disconnect(action.peer_id, action.code, action.text)
                self.wake()  # its Lost waits for the next round
            elif isinstance(action, scheduling.SendToStorage):
                self._storage.send(action.message)

    def _note(self, event: Opened | Received | Lost) -> None:
        """Before the core has it."""
        if isinstance(event, Received) and isinstance(event.message, Cancel):
            tables = self.core.tables
            for task_id in map(TaskId, split_ids(event.message.ids)):
                place = tables.where.get(task_id)
                if place is not None and tables.chunk_of(task_id).client.peer_id == event.peer_id:
                    first = tables.attempt(task_id) + isinstance(place, Worker)
                    self._canceled.setdefault((event.peer_id, task_id), first)
        if isinstance(event, Received):
            self.world.was_received(self, event.peer_id, event.message)
        elif isinstance(event, Lost):
            self._gone.add(event.peer_id)
            self.world.was_lost(self, event)
        elif isinstance(event, Opened):
            self._gone.discard(event.peer_id)
            self.world.was_opened(self, event)

    def _check_law(self, action: scheduling.Send, held_before: dict[bytes, int]) -> None:
        message = action.message
        if isinstance(message, Dispatch):
            worker = self.core.tables.workers[action.peer_id]
            self.world.was_given(action.peer_id)
            self._check_credit(worker, message, held_before[action.peer_id])
            self._check_family(message)
            for task_id, attempt in _attempts(message):
                key = message.header.client, task_id
                is_too_late = attempt >= self._canceled.get(key, attempt + 1)
                self.world.law(not is_too_late, f"{task_id.hex()} was dispatched after its Cancel (CAN-11)")
                self.world.law(key[0] not in self._gone, f"{task_id.hex()} of a client that has gone was dispatched")
                self.world.law(attempt >= self._attempts.get(key, 0), f"attempt {attempt} of {task_id.hex()} again")
                self._attempts[key] = attempt
        elif isinstance(message, Results):
            for task_id, attempt in _attempts(message):
                latest = self._attempts.get((action.peer_id, task_id), attempt)
                self.world.law(attempt >= latest, f"attempt {attempt} of {task_id.hex()} delivered, not {latest}")

    def _check_family(self, message: Dispatch) -> None:
        """No descendant of a task begins whose Cancel the scheduler has accepted. (CAN-13)"""
        ancestor = message.header.parent_task
        while ancestor:
            self.world.law(ancestor not in self._canceling, f"a task under {ancestor.hex()} begins, which is canceled")
            ancestor = self._parents.get(ancestor, NO_TASK) if ancestor in self.core.tables.where else NO_TASK
        for task_id, _ in _attempts(message):
            self._canceling.discard(task_id)  # it was submitted again under its id (SCH-8)
            self._parents[task_id] = message.header.parent_task

    def _check_window(self, action: scheduling.Send, slow_before: set[PeerId]) -> None:
        """Results leave while there is room in the window, and no task is run whose result would only wait. (SCH-45)"""
        message, tables = action.message, self.core.tables
        if isinstance(message, Dispatch) and message.header.client in slow_before:
            self.world.fail("a task was dispatched whose client does not read (SCH-46)")
        client, session = tables.clients.get(action.peer_id), self.server._by_peer.get(action.peer_id)
        if isinstance(message, Results) and session is not None and client is not None and client.window is not None:
            unread = self._unread.get(client.peer_id, deque())
            while unread and unread[0][0] <= session.channel.acknowledged_seq:
                unread.popleft()
            size = sum(size for _, size in unread)
            self.world.law(
                not size or size < client.window.limit, f"{size} bytes were sent to a client that reads none"
            )

    def _check_credit(self, worker: Worker, message: Dispatch, held_before: int) -> None:
        reserve = worker.nested_reserve if message.header.depth else 0
        limit = max(worker.limit + worker.nested_reserve, held_before)
        self.world.law(len(worker.held) <= limit, f"{worker.name} holds {len(worker.held)}, credit {worker.limit}")
        self.world.law(worker.limit + reserve > 0, f"{worker.name} was given a task without any credit")

    def next_deadline(self) -> float | None:
        return earliest(self.server.next_deadline(), self._storage.dialer.next_deadline(), self.core.next_deadline())

    def check(self) -> None:
        scheduler_invariants.check(self.core)
        deadline, tables = self.core.next_deadline(), self.core.tables
        is_due = deadline is not None and deadline <= self.world.clock.now
        has_work = bool(tables.backlog.jobs) or tables.families.looks_left <= 0
        self.world.law(has_work or not is_due, "the scheduler has settled, and is due again at once: it would spin")


def _attempts(message: Dispatch | Results) -> Iterator[tuple[TaskId, int]]:
    ids = [TaskId(one) for one in split_ids(message.ids)]
    return zip(ids, split_u16(message.attempts) or (1,) * len(ids), strict=True)
