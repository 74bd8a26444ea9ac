"""A scheduler that follows on another one waits for the workers of that one before it gives tasks away. (SCH-65)

A peer that had another scheduler before names it in its Hello. The first such peer begins the recovery. Until the
recovery is over, queued tasks of clients that may come from there are held, unless a worker has presented them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import ClusterStatus, Hello, Holding
from scaler_protocol.session import Opened
from scaler_scheduler.core.actions import SendToStorage
from scaler_scheduler.core.entities.clients import Client
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.cluster_events import SCHEDULER_RECOVERED, SCHEDULER_RESTARTED
from scaler_scheduler.core.succession import presenting
from scaler_scheduler.core.tables.tables import Tables

FEATURE_PRESENT_HELD = "present-held"

SHORTEST_SECONDS = 1.0
TURN_SECONDS = 1.0
"""What a dialer needs to turn to another address: it waits for an answer of the scheduler that is gone, and pauses."""
HEARTBEATS = 2
"""A dialer learns of a new scheduler when it next sends something: after a heartbeat at most. Then it dials."""

LONGEST_WAITS = 3
"""So many times that long does it last at most, whatever workers do that have come and do not present anything."""

YOUNG_SECONDS = 10.0
"""While no worker has come, and no peer that says where it comes from. A client in a task may be the first to come."""

PREDECESSORS = 16
"""So many different ones begin a recovery. A peer can name any: those beyond cost their tasks a second run at most."""

GENERATION_MAX = (1 << 64) - 1
GENERATION_STEP = 1 << 32
"""The most that one Hello raises the generation by, so that no peer can use up all numbers. (HSK-44)"""


class Recovery:
    def __init__(self, tables: Tables, server_id: PeerId) -> None:
        self._tables = tables
        self._server_id = server_id
        #: set while workers are awaited: the end of it at the latest
        self.until: float | None = None
        #: how long one is awaited, and when the recovery is over whatever happens
        self._wait_seconds = 0.0
        self._latest = math.inf
        #: it has just begun, so it is not known whether there was a predecessor: until then, once a turn has come
        self._is_young = True
        self._young_until: float | None = None
        #: when there is something to settle, at the latest
        self.look_at = math.inf
        #: a turn from then on has something to settle; it may be sooner, because no turn is taken for the youth's end
        self.due_at = -math.inf
        #: what a predecessor has left is not all settled yet
        self.is_at_work = True
        #: when presented tasks that no client has submitted are dropped
        self._orphans_until: float | None = None
        self._predecessors: set[bytes] = set()
        self._turn_seconds = 0.0
        #: how many workers the predecessor had, as it told those that have come; zero: that is not known
        self._expected_count = 0
        self._is_count_known = True
        #: workers that have come from there
        self._came_count = 0

    def meet(self, hello: Hello, *, is_operator: bool) -> int:
        """Returns the generation that the Welcome tells: above all that operators' peers have seen. Any user's peer can
        name any number, and the scheduler of the higher number outlives the other one (SCH-82). (HSK-35, HSK-44)"""
        own = self._tables.generation
        if is_operator and hello.generation >= own and FEATURE_PRESENT_HELD in hello.features:
            is_own = hello.last_server_id == self._server_id
            self._tables.raise_generation(min(hello.generation + (not is_own), own + GENERATION_STEP, GENERATION_MAX))
        return self._tables.generation

    def begin(self, now: float) -> None:
        """This scheduler was a standby until now. Dialers turn to it when it is their turn to be dialed."""
        self._turn_seconds = TURN_SECONDS
        self._is_young, self._young_until = True, now + YOUNG_SECONDS
        self.is_at_work = True

    # ------------------------------------------------------------ who comes

    def client_came(self, client: Client, event: Opened, now: float) -> None:
        """Clients without the feature do not say where they come from."""
        if FEATURE_PRESENT_HELD in event.welcome.features:
            if not self._is_successor(event):
                return
            self._begin(event, now)
        if self.until is not None:
            self._tables.presentation.recovering_clients[client] = None
            self._tables.ready.hold(client)

    def worker_came(self, worker: Worker, event: Opened, now: float) -> None:
        worker.is_presenter = FEATURE_PRESENT_HELD in event.welcome.features
        self._tables.presentation.has_changed_presenters |= worker.is_presenter
        self._tables.presentation.has_news |= worker.is_presenter
        if worker.is_presenter and self._is_successor(event):
            self._begin(event, now)
            self._came_count += 1
            self._orphans_until = now + event.welcome.timers.lease_seconds
            self.is_at_work = True
            presenting.expect(self._tables, worker)

    def worker_presented(self, worker: Worker, message: Holding) -> None:
        """The last Holding says how many workers there were; one that may be of any user is not believed. (HSK-37)"""
        if worker in self._tables.presentation.expected and message.is_last:
            count = message.worker_count if worker.is_of_operator else 0
            self._expected_count = max(self._expected_count, count)
            self._is_count_known = self._is_count_known and count > 0

    def _is_successor(self, event: Opened) -> bool:
        return bool(event.hello.last_server_id) and event.hello.last_server_id != event.welcome.server_id

    def _begin(self, event: Opened, now: float) -> None:
        if event.hello.last_server_id in self._predecessors or len(self._predecessors) >= PREDECESSORS:
            return
        if self._predecessors:
            self._is_count_known = False  # how many they had together
        self._predecessors.add(event.hello.last_server_id)
        self._tables.presentation.is_recovering = self.is_at_work = True
        seconds = max(SHORTEST_SECONDS, HEARTBEATS * event.welcome.timers.heartbeat_seconds)
        self._wait_seconds = seconds + self._turn_seconds
        if self.until is None and not self._turn_seconds:  # a standby has taken over instead
            text = "peers of the scheduler before have come: tasks wait until its workers have presented what they hold"
            self._tables.events.note(SCHEDULER_RESTARTED, "", text)
        self.until = self._tables.presentation.recovering_until = now + self._wait_seconds
        self._latest = now + LONGEST_WAITS * self._wait_seconds

    # ------------------------------------------------------------ for people

    def told(self, status: ClusterStatus, now: float) -> ClusterStatus:
        """(MON-29)"""
        if self.until is None:
            return status
        return replace(
            status,
            is_recovering=True,
            recovery_seconds=max(0.0, self.until - now),
            expected_count=self._known_count,
            presented_count=self._presented_count,
        )

    @property
    def _known_count(self) -> int:
        """How many workers the predecessor had; zero: that is not known."""
        return self._expected_count if self._is_count_known else 0

    @property
    def _presented_count(self) -> int:
        return max(0, self._came_count - len(self._tables.presentation.expected))

    def _note_end(self) -> None:
        count = self._presented_count
        told = "1 worker of the scheduler before has presented what it holds"
        if count != 1:
            told = f"{count} workers of the scheduler before have presented what they hold"
        of = f", of {self._known_count}" if self._known_count else ""
        self._tables.events.note(SCHEDULER_RECOVERED, "", told + of)

    # ------------------------------------------------------------ the end of it

    def may_be_presented(self, hello: Hello) -> bool:
        """A worker of a predecessor may still present the task that this client is in. (SCH-74)"""
        if not hello.parent_task or FEATURE_PRESENT_HELD not in hello.features:
            return False
        if self._is_young and not self._tables.workers:
            return True
        return self._orphans_until is not None or self.until is not None

    def settle(self, now: float) -> None:
        if self._young_until is None:
            self._young_until = now + YOUNG_SECONDS
        self._is_young = now < self._young_until
        if self.until is not None:
            self._wait_for_those_that_came(self.until, now)
        if self.until is not None and (now >= self.until or self._is_everybody_here()):
            self.until = None
            self._tables.presentation.is_recovering = False
            self._note_end()
            clients, self._tables.presentation.recovering_clients = self._tables.presentation.recovering_clients, {}
            for client in clients:
                self._tables.ready.release(client)
        if self._orphans_until is not None and now >= self._orphans_until:
            self._orphans_until = None
            self._drop_orphans()
        presentation = self._tables.presentation
        if self.until is None and presentation.departed:
            for owner, grant in presentation.take_departed():
                self._tables.act(SendToStorage(self._tables.gone_owners.add(owner, grant)))
        self.look_at = min([at for at in (self.until, self._orphans_until) if at is not None], default=math.inf)
        self.due_at = min(self.look_at, self._young_until if self._is_young else math.inf)
        self.is_at_work = self.look_at < math.inf or bool(presentation.departed)

    def _wait_for_those_that_came(self, until: float, now: float) -> None:
        """A worker that has come, and has not presented everything, is awaited for longer: its session may just have
        been lost, and then it dials again after a pause."""
        presentation = self._tables.presentation
        if presentation.has_broken_off or (now >= until and presentation.expected):
            presentation.has_broken_off = False
            self.until = min(max(until, now + self._wait_seconds), self._latest)
            presentation.recovering_until = self.until

    def _drop_orphans(self) -> None:
        presentation = self._tables.presentation
        if presentation.tasks:
            worker = next(iter(presentation.of_worker))
            self._tables.backlog.start(worker, presenting.drop_orphans(self._tables))

    def _is_everybody_here(self) -> bool:
        if self._tables.presentation.expected or self._tables.backlog:
            return False
        return self._is_count_known and 0 < self._expected_count <= self._came_count


def client_left(tables: Tables, client: Client) -> None:
    if tables.presentation.recovering_clients.pop(client, False) is None:
        tables.ready.release(client)
