"""Looks at the load once a second while there are managers, and tells each how many workers are wanted."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

from scaler_protocol.codes import BAD_IDENTITY, OVERLOADED
from scaler_protocol.ids import PeerId
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Hello, ManagerStatus, ManagerTarget
from scaler_protocol.session.bounds import Quota
from scaler_scheduler.core.actions import Disconnect
from scaler_scheduler.core.entities.requirements import Requirement, offers
from scaler_scheduler.core.entities.states import FINISHED
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.notes.cluster_events import (
    MANAGER_JOINED,
    MANAGER_LEFT,
    MANAGER_TROUBLE,
    WORKER_DRAINING,
)
from scaler_scheduler.core.placing.recalling import recall
from scaler_scheduler.core.policy import CAPABILITY, WATERFALL
from scaler_scheduler.core.scaling.manager import WORKERS_MOST, Manager
from scaler_scheduler.core.scaling.pace import Pace
from scaler_scheduler.core.scaling.policies import Demand, wanted
from scaler_scheduler.core.tables.tables import Tables

LOOK_SECONDS = 1.0

MANAGERS = Quota(first=4, further=256)
UNITS = Quota(first=256, further=16_384)
"""Each look goes through all of them."""


NAMED_UNITS = 4_096
"""So many units that were named in `stop` are remembered, the latest ones."""


class Scaler:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._scaling = tables.policy.scaling
        self._pace = Pace()
        #: all and only the managers with a session, in the order in which they came
        self.managers: dict[PeerId, Manager] = {}
        #: workers by manager and unit; all and only those that name both
        self._members: dict[tuple[PeerId, str], dict[PeerId, Worker]] = {}
        #: by manager and unit, those that were named in `stop`: of which user the manager was, and whether it was an
        #: operator's. Their workers may come late, and a manager may come again that was not told. (MGR-16)
        self._named: dict[tuple[PeerId, str], tuple[str, bool]] = {}
        self.look_at = math.inf  #: while there are no managers

    # ------------------------------------------------------------ who comes and goes

    def manager_joined(self, peer_id: PeerId, hello: Hello, identity: Identity | None = None) -> None:
        """One without an id, or with that of another of its user, is not let in. (MGR-1, MGR-2)"""
        offer, made = hello.manager, Manager(peer_id, hello.manager, identity)
        why = ""
        if not offer.manager_id or offer.workers_per_unit < 1:
            why = "a worker manager needs a managerId of 16 bytes, and workersPerUnit of at least one (MGR-1)"
        elif any((one.manager_id, one.user) == (made.manager_id, made.user) for one in self.managers.values()):
            why = f"a worker manager with the id of {offer.name or 'this one'} is connected: give each its own (MGR-2)"
        if why:
            self._tables.act(Disconnect(peer_id, BAD_IDENTITY, why))
        elif not MANAGERS.has_room(Counter(one.user for one in self.managers.values()), made.user):
            text = f"{len(self.managers)} worker managers are connected, as many as may be: stop one of them (LIM-11)"
            self._tables.events.note_limit("managers", text)
            self._tables.act(Disconnect(peer_id, OVERLOADED, text))
        else:
            self.managers[peer_id] = made
            self._tables.events.note(MANAGER_JOINED, made.name)

    def manager_left(self, peer_id: PeerId) -> bool:
        """Whether it was a manager. Its workers stay, but for those that it is ending already. (MGR-15)"""
        manager = self.managers.pop(peer_id, None)
        if manager is None:
            return False
        self._tables.forget_peer(peer_id)
        self._tables.events.note(MANAGER_LEFT, manager.name)
        for unit_id in manager.retiring:
            self._revive(self._workers_of(manager, unit_id))
        return True

    def reported(self, peer_id: PeerId, status: ManagerStatus, now: float) -> None:
        manager = self.managers.get(peer_id)
        if manager is None:
            return  # it was refused a moment ago
        units = Counter[str]()
        for other in self.managers.values():
            if other is not manager:
                units[other.user] += other.unit_count
        if not UNITS.has_room(units, manager.user, len(status.units)):
            text = f"managers list more than {UNITS.further} units together: let each have more workers (LIM-11)"
            self._tables.events.note_limit("units", text)
            self._tables.act(Disconnect(peer_id, OVERLOADED, text))
            return
        before = manager.status.trouble if manager.status is not None else ""
        manager.report(status, self._named_before(manager))
        if status.trouble and status.trouble != before:
            self._tables.events.note(MANAGER_TROUBLE, manager.name, status.trouble)
        if manager.unit_by_name:
            for worker in self._tables.workers.values():
                if not worker.unit_id:
                    self.worker_joined(worker)
        self.look_at = now

    def worker_joined(self, worker: Worker) -> None:
        if not worker.unit_id:
            self._find_unit(worker)
        for manager in self.managers.values():
            if worker.manager_id and manager.has(worker):
                manager.met(worker)
        if worker.manager_id and worker.unit_id:
            self._members.setdefault((worker.manager_id, worker.unit_id), {})[worker.peer_id] = worker
            for manager in self.managers.values():
                if manager.has(worker) and manager.may_not_work(worker.unit_id):
                    worker.is_retired = True
            user, is_operator = self._named.get((worker.manager_id, worker.unit_id), (None, False))
            if is_operator or user == worker.user:
                worker.is_retired = True

    def _find_unit(self, worker: Worker) -> None:
        """One that names no unit may be one that a manager knows by name. (MGR-17)"""
        for manager in self.managers.values():
            unit_id = manager.unit_by_name.get(worker.name)
            if unit_id is not None and manager.may_have(worker):
                worker.manager_id, worker.unit_id = manager.manager_id, unit_id

    def worker_left(self, worker: Worker) -> None:
        key = worker.manager_id, worker.unit_id
        members = self._members.get(key)
        if members is not None:
            members.pop(worker.peer_id, None)
            if not members:
                del self._members[key]

    # ------------------------------------------------------------ looking

    def settle(self, now: float) -> None:
        if not self.managers:
            self.look_at, self._pace = math.inf, Pace()
        elif self.look_at == math.inf or now >= self.look_at:
            self.look_at = now + LOOK_SECONDS
            self._look(now)

    def _look(self, now: float) -> None:
        tables, scaling = self._tables, self._scaling
        busy = sum(1 for worker in tables.workers.values() if worker.held)
        self._pace.look(sum(tables.counts[state] for state in FINISHED), busy, now)
        present = [manager for manager in self.managers.values() if manager.status is not None]
        managed = {(manager.manager_id, manager.user) for manager in present}
        managed_for_all = {manager.manager_id for manager in present if manager.is_operator}
        own = [
            worker.offer
            for worker in tables.workers.values()
            if worker.manager_id not in managed_for_all and (worker.manager_id, worker.user) not in managed
        ]
        is_stranger_busy = any(worker.held for worker in tables.workers.values() if not worker.unit_id)
        counts = wanted(scaling, self._demands(), own, [manager.source() for manager in present])
        for manager in present:
            manager.follow(counts[manager.peer_id], scaling.patience_seconds, now)
            retired, revived = manager.settle_units(partial(self._workers_of, manager), is_stranger_busy, now)
            self._retire(retired)
            self._revive(revived)
            target = manager.next_target()
            if target is not None:
                self._remember(manager, target)
                tables.tell(manager.peer_id, target)

    def _remember(self, manager: Manager, target: ManagerTarget) -> None:
        for unit_id in target.stop:
            self._named[manager.manager_id, unit_id] = manager.user, manager.is_operator
        while len(self._named) > NAMED_UNITS:
            del self._named[next(iter(self._named))]

    def _named_before(self, manager: Manager) -> set[str]:
        """To a manager with this id of this user, also in a session that is over."""
        if manager.status is not None:
            return set()
        own = manager.manager_id, manager.user
        return {unit_id for (manager_id, unit_id), (user, _) in self._named.items() if (manager_id, user) == own}

    def starting_count(self, requirement: Requirement) -> int:
        """Returns how many workers are on their way that will fit, or as many as are counted. (FRM-21)"""
        fitting = (one for one in self.managers.values() if offers(one.offer, requirement))
        return min(sum(manager.starting_count() for manager in fitting), WORKERS_MOST)

    def _workers_of(self, manager: Manager, unit_id: str) -> list[Worker]:
        members = self._members.get((manager.manager_id, unit_id), {})
        return [worker for worker in members.values() if manager.may_have(worker)]

    def _demands(self) -> list[Demand]:
        """Workers of use for each requirement. What a worker holds is counted with the first of it: it is of one kind
        nearly always, and looking at every task of every worker each second is not worth the rest."""
        tables, scaling = self._tables, self._scaling
        tasks: Counter[Requirement] = Counter()
        for ready in tables.ready.waiting():
            tasks[ready.key.requirement] += ready.count
        for worker in tables.workers.values():
            first = next(iter(worker.held.values()), None)
            if first is not None:
                tasks[first.combination.key.requirement] += len(worker.held)
        if scaling.policy not in (CAPABILITY, WATERFALL):
            tasks = Counter({(): sum(tasks.values())})
        each = self._pace.tasks_per_worker(scaling.horizon_seconds, scaling.tasks_per_worker)
        return [Demand(requirement, -int(-count // each)) for requirement, count in tasks.items() if count]

    def _retire(self, workers: list[Worker]) -> None:
        """They get no tasks any more, and what they have not begun comes back. (MGR-16, SCH-20)"""
        for worker in workers:
            if not worker.is_retired:
                self._tables.events.note(WORKER_DRAINING, worker.name, "it is not needed any more")
            worker.is_retired = True
            ids = [task_id for task_id in worker.held if task_id not in self._tables.canceling]
            if ids and not worker.recalling:
                recall(self._tables, worker, ids)

    def _revive(self, workers: list[Worker]) -> None:
        for worker in workers:
            worker.is_retired = False
            worker.load_changed()
