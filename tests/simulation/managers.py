"""A worker manager of a simulated cluster: the real core over units that are simulated workers."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import TYPE_CHECKING

from scaler_protocol.codes import ROLE_MANAGER
from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Hello, ManagerOffer, ManagerTarget
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected
from scaler_worker.manager import core
from scaler_worker.manager.units import State
from tests.simulation.nodes import TIMERS, Node, Port, earliest
from tests.simulation.workers import WorkerNode

if TYPE_CHECKING:
    from tests.simulation.managed import ManagedWorld

REDIAL_SECONDS = 2.0
LONGEST_START_SECONDS = 2.0


class UnitWorker(WorkerNode):
    """It ends with its unit, and is not started again."""

    def __init__(self, unit: Unit, name: str) -> None:
        self._unit = unit
        self.unit = (unit.manager.manager_id, unit.unit_id)
        super().__init__(unit.world, name, places=unit.manager.places)

    def come_back(self) -> None:
        """Its manager replaces it."""

    def crash(self) -> None:
        super().crash()
        self._unit.worker_ended(self)


class Unit:
    """A process group: it lives on when its manager dies."""

    def __init__(self, manager: ManagerNode, unit_id: str) -> None:
        self.world = manager.world
        self.manager = manager
        self.unit_id = unit_id
        self.workers: list[WorkerNode] = []
        self.is_stopping = False
        self.has_ended = False

    def run(self) -> None:
        if self.has_ended:
            return
        names = [f"{self.manager.name}-{self.unit_id}-{number}" for number in range(self.manager.workers_per_unit)]
        self.workers = [UnitWorker(self, name) for name in names]
        self.world.workers.extend(self.workers)
        self.manager.happen(core.UnitRuns(self.unit_id, "here"))
        if self.is_stopping:
            self.stop()

    def stop(self) -> None:
        self.is_stopping = True
        for worker in self.workers:
            worker.drain(self.world.grace_seconds)

    def kill(self) -> None:
        for worker in list(self.workers):
            worker.crash()

    def fail(self, text: str) -> None:
        self.has_ended = True
        self.manager.unit_ended(self, text)

    def worker_ended(self, worker: WorkerNode) -> None:
        self.workers.remove(worker)
        self.world.workers.remove(worker)
        if not self.workers:
            self.fail("" if self.is_stopping else "killed")


class ManagerNode(Node):
    world: ManagedWorld

    def __init__(self, world: ManagedWorld, name: str, rng: Random) -> None:
        super().__init__(world, name)
        self._rng = rng
        self.manager_id = PeerId(name.encode().ljust(16, b"."))
        self.places = rng.randint(1, 2)
        self.workers_per_unit = rng.choice((1, 1, 3))
        self._max_workers = max(self.workers_per_unit, rng.randint(2, 6))
        self._numbers = count(1)
        #: all units that have not ended, also those of former lives
        self._units: dict[str, Unit] = {}
        #: cannot start any until then
        self._barren_until = 0.0
        self.start()

    def start(self) -> None:
        if self.world.has_ended:
            return
        self.is_up = True
        self.core = core.ManagerCore(
            max_workers=self._max_workers,
            workers_per_unit=self.workers_per_unit,
            new_unit_id=lambda: f"{self.name}-u{next(self._numbers)}",
        )
        offer = ManagerOffer(self.manager_id, self.name, (), self.workers_per_unit)
        hello = Hello(1, 1, ROLE_MANAGER, PeerId(self.world.rng.randbytes(16)), timers=TIMERS, manager=offer)
        self._scheduler = Port(self, self.world.schedulers, hello, "scheduler")
        self._events: list[core.Event] = []
        #: what may be ended: named by a target of this session (MGR-6)
        self._named: set[str] = set()
        self._has_target = False
        self._most_wanted = 0
        for unit_id, unit in list(self._units.items()):
            if unit.workers:
                self._events.append(core.UnitFound(unit_id, "here"))
            else:  # it was just being started
                unit.has_ended = True
                del self._units[unit_id]
        self.wake()

    # ------------------------------------------------------------ for its units

    def happen(self, event: core.Event) -> None:
        if self.is_up:
            self._events.append(event)
            self.wake()

    def unit_ended(self, unit: Unit, text: str) -> None:
        if self._units.pop(unit.unit_id, None) is not None:
            self.happen(core.UnitEnded(unit.unit_id, text))

    # ------------------------------------------------------------ the shell

    def round(self, now: float) -> None:
        for event in self._scheduler.poll(now):
            if isinstance(event, Complained):
                self.world.fail(f"the scheduler complains to {self.name}: {event.text} ({event.clause})")
            if isinstance(event, (Lost, Rejected)):
                life = self.life
                self.world.clock.after(REDIAL_SECONDS, lambda life=life: self._redial(life))
            if isinstance(event, (Opened, Received, Lost)):
                self._follow(event)
                self._perform(self.core.handle(event, now), now)
        incoming, self._events = self._events, []
        for local in (*incoming, core.Ticked()):
            self._perform(self.core.handle(local, now), now)
        self._scheduler.settle(now)

    def _redial(self, life: int) -> None:
        if self.is_up and self.life == life:
            self._scheduler.dialer.redial()
            self.wake()

    def _follow(self, event: Opened | Received | Lost) -> None:
        if isinstance(event, Received) and isinstance(event.message, ManagerTarget):
            self._has_target = True
            self._named.update(event.message.stop)
            self._most_wanted = -(-event.message.worker_count // self.workers_per_unit)
        elif not isinstance(event, Received):
            self._has_target = False
            self._named.clear()

    def _perform(self, todo: list[core.Action], now: float) -> None:
        for action in todo:
            if isinstance(action, core.Tell):
                self._scheduler.send(action.status)
            elif isinstance(action, core.StartUnit):
                self._start_unit(action.unit_id, now)
            else:
                self._stop_unit(action.unit_id)

    def _start_unit(self, unit_id: str, now: float) -> None:
        self.world.law(self._has_target, f"{self.name} starts a unit without a target (MGR-14)")
        live = [unit for unit in self._units.values() if not unit.is_stopping]
        self.world.law(len(live) < self._most_wanted, f"{self.name} starts a unit too many (MGR-4)")
        unit = self._units[unit_id] = Unit(self, unit_id)
        if self.world.is_harsh and self._rng.random() < 0.1:
            self._barren_until = now + self._rng.uniform(0, 5)
        if now < self._barren_until:
            self.world.clock.after(0.01, lambda: unit.fail("no quota"))
        else:
            self.world.clock.after(self._rng.uniform(0.01, LONGEST_START_SECONDS), unit.run)

    def _stop_unit(self, unit_id: str) -> None:
        unit = self._units.get(unit_id)
        if unit is None:
            return  # it has just ended, and the core is about to be told
        is_unknown = core.UnitRuns(unit_id, "here") in self._events  # so it may be given up, as one that still starts
        if unit.workers and not is_unknown:
            self.world.law(unit_id in self._named, f"{self.name} ends {unit_id}, which no target has named (MGR-6)")
        if unit.workers:
            unit.stop()
        else:
            unit.is_stopping = True
            self.world.clock.after(self._rng.uniform(0.0, 0.1), lambda: None if unit.workers else unit.fail(""))

    def next_deadline(self) -> float | None:
        return earliest(self._scheduler.dialer.next_deadline(), self.core.next_deadline())

    def check(self) -> None:
        self.world.law(self._has_target or self.core._target is None, "a target outlives its session (MGR-14)")
        states = {unit_id: unit.state for unit_id, unit in self.core.units.items()}
        self.world.law(len(states) == len(self._units), f"{self.name} lists {states}, and there are {self._units}")
        stopping = {unit_id for unit_id, state in states.items() if state is State.STOPPING}
        told = {unit.unit_id for unit in self._units.values() if unit.is_stopping}  # some of them by a former life
        self.world.law(stopping <= told, f"{self.name} forgets to end {stopping - told}")

    def crash(self) -> None:
        super().crash()
        self._scheduler.close()

    def kill_units(self) -> None:
        for unit in list(self._units.values()):
            unit.kill()
            unit.has_ended = True
        self._units.clear()

    # ------------------------------------------------------------ the end

    @property
    def unit_count(self) -> int:
        return len(self._units)

    @property
    def units_text(self) -> str:
        states = {unit_id: unit.state.name for unit_id, unit in self.core.units.items()} if self.is_up else "is down"
        return f"{states}, {sorted(self._units)}"

    def leave(self) -> None:
        if self.is_up:
            self._scheduler.dialer.bye(0, "")
            self._scheduler.settle(self.world.clock.now)
            self.crash()
