"""Workers that managers start and end, while schedulers, managers and their links die (spec chapter 19)."""

from __future__ import annotations

from random import Random

from scaler_protocol.codes import UNIT_RUNNING
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Dispatch, ManagerStatus, ManagerTarget, Message
from scaler_protocol.session import Lost
from scaler_scheduler.core import Policy
from scaler_scheduler.core.policy import NONE, Scaling
from tests.simulation.deaths import GRACE_SECONDS, HarshWorld, TwiceDeadWorld
from tests.simulation.managers import ManagerNode
from tests.simulation.nodes import TIMERS
from tests.simulation.servers import SchedulerNode
from tests.simulation.world import TROUBLE_SECONDS

NO_SHOW_SECONDS = 60.0
"""After so long a scheduler gives a unit up of which no worker comes."""


class ManagedWorld(TwiceDeadWorld):
    """One or two managers, and hardly a worker without them. Managers are killed and start again, with their units
    still there or not, and are cut off. A scheduler that dies, and work that becomes less, begin no task twice."""

    #: units that cannot be started, and managers that take their units with them, let tasks begin again
    is_harsh = False
    #: for tasks of a unit that is told to end: more than any task takes, with all of its children
    grace_seconds = GRACE_SECONDS

    def __init__(self, seed: int) -> None:
        rng = self.scaling_rng = Random(seed * 104_729 + 3)
        self.scaling = Scaling(
            tasks_per_worker=rng.choice((1.0, 4.0, 10.0)),
            horizon_seconds=rng.choice((0.5, 5.0)),
            patience_seconds=rng.choice((0.0, 0.5, 3.0)),
        )
        assert self.scaling.policy != NONE
        #: managers have left
        self.has_ended = False
        #: of each session of a manager with a scheduler what it said last, and what it was told last
        self._statuses: dict[tuple[str, PeerId], ManagerStatus] = {}
        self._numbers: dict[tuple[str, PeerId], int] = {}
        #: scheduler, and unit that it has named in `stop` in this life
        self._named: set[tuple[str, str]] = set()
        self.stopped_count = 0
        super().__init__(seed)
        for worker in self.workers[seed % 2 :]:
            worker.crash()
        del self.workers[seed % 2 :]
        self.managers = [ManagerNode(self, f"manager{number}", self.scaling_rng) for number in range(1 + seed % 3 // 2)]

    def policy(self) -> Policy:
        return Policy(owner_grace_seconds=TIMERS.lease_seconds, scaling=self.scaling)

    # ------------------------------------------------------------ laws of the scheduler

    def was_lost(self, by: SchedulerNode, event: Lost) -> None:
        self._statuses.pop((by.name, event.peer_id), None)
        self._numbers.pop((by.name, event.peer_id), None)

    def was_received(self, by: SchedulerNode, peer_id: PeerId, message: Message) -> None:
        if isinstance(message, ManagerStatus):
            self._statuses[by.name, peer_id] = message

    def was_sent(self, by: SchedulerNode, peer_id: PeerId, message: Message) -> None:
        if isinstance(message, ManagerTarget):
            self._check_target(by, peer_id, message)
        elif isinstance(message, Dispatch):
            worker = by.core.tables.workers[peer_id]
            is_named = (by.name, worker.unit_id) in self._named
            self.law(not is_named, f"{worker.name} is to end, and was given a task (MGR-16)")

    def _check_target(self, by: SchedulerNode, peer_id: PeerId, target: ManagerTarget) -> None:
        status = self._statuses.get((by.name, peer_id))
        self.law(status is not None, "a manager has a target that has told nothing (MGR-5)")
        assert status is not None
        self.law(target.number > self._numbers.get((by.name, peer_id), 0), f"target {target.number} again (MGR-11)")
        self._numbers[by.name, peer_id] = target.number
        self.law(target.worker_count <= status.max_workers, f"{target.worker_count} workers are wanted (MGR-12)")
        running = {unit.unit_id for unit in status.units if unit.state == UNIT_RUNNING}
        for unit_id in target.stop:
            if (by.name, unit_id) in self._named:
                continue
            self.law(unit_id in running, f"unit {unit_id} is to end, and does not run")
            members = [one for one in by.core.tables.workers.values() if one.unit_id == unit_id]
            busy = [one.name for one in members if one.held]
            self.law(not busy, f"unit {unit_id} is to end, and {busy} hold tasks (MGR-7)")
            self._named.add((by.name, unit_id))
            self.stopped_count += 1

    def scheduler_died(self, scheduler: SchedulerNode) -> None:
        name = scheduler.name
        self._named = {key for key in self._named if key[0] != name}
        self._statuses = {key: status for key, status in self._statuses.items() if key[0] != name}
        self._numbers = {key: number for key, number in self._numbers.items() if key[0] != name}

    # ------------------------------------------------------------ misfortune

    @property
    def manager_death_count(self) -> int:
        return sum(trouble.startswith("manager") and " crashes" in trouble for trouble in self._troubles)

    def _plan_trouble(self) -> None:
        super()._plan_trouble()
        self._plan_trouble_of_managers()

    def _plan_trouble_of_managers(self) -> None:
        kinds = (self._crash_manager, self._crash_manager, self._cut_manager, self._stop_manager)
        for _ in range(self.scaling_rng.choice((0, 1, 2, 3))):
            self.clock.at(self.scaling_rng.uniform(0.5, TROUBLE_SECONDS), self.scaling_rng.choice(kinds))

    def _crash_manager(self) -> None:
        manager = self.scaling_rng.choice(self.managers)
        if manager.is_up:
            takes_units = self.is_harsh and self.scaling_rng.random() < 0.5
            self._trouble(f"{manager.name} crashes{' with its units' if takes_units else ''}")
            manager.crash()
            if takes_units:
                manager.kill_units()
            self.clock.after(self.scaling_rng.uniform(0.1, 8), manager.start)

    def _cut_manager(self) -> None:
        manager, seconds = self.scaling_rng.choice(self.managers), self.scaling_rng.choice((0.3, 3.0, 15.0))
        scheduler = self._scheduler_to_cut_off()
        self._trouble(f"{manager.name} and {scheduler} do not reach each other for {seconds:g} s")
        self.network.part(manager.name, scheduler, seconds)

    def _scheduler_to_cut_off(self) -> str:
        return "scheduler"

    def _stop_manager(self) -> None:
        manager, seconds = self.scaling_rng.choice(self.managers), self.scaling_rng.uniform(1, 15)
        if manager.is_up:
            self._trouble(f"{manager.name} is stopped for {seconds:.1f} s")
            manager.stop_for(seconds)

    # ------------------------------------------------------------ the end

    def _before_workers_leave(self) -> None:
        """Nothing is to be done: all that runs is ended, without an order."""
        idle_seconds = self.scaling.patience_seconds + NO_SHOW_SECONDS + 2 * TIMERS.lease_seconds
        self._run_until(self._has_no_units, idle_seconds)
        units = {manager.name: manager.units_text for manager in self.managers}
        self.law(self._has_no_units(), f"there is nothing to do, and units stay: {units}")
        self.has_ended = True
        for manager in self.managers:
            manager.leave()

    def _has_no_units(self) -> bool:
        return not any(manager.unit_count for manager in self.managers)

    def _check_nothing_is_left(self) -> None:
        super()._check_nothing_is_left()
        self.law(not any(one.is_up for one in self.workers), "a worker has outlived its unit")


class HarshManagedWorld(ManagedWorld, HarshWorld):
    """And whatever can go wrong does. Units cannot be started for a while, their workers crash, and managers take their
    units with them. Still each future ends, and no unit is left."""

    is_harsh = True
    grace_seconds = 2.0

    def _cut_manager(self) -> None:
        """Some units end while their manager has no session. (MGR-14)"""
        super()._cut_manager()
        self.clock.after(self.scaling_rng.uniform(TIMERS.lease_seconds, 15), self._crash_worker)
