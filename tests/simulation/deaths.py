"""Schedulers die, and more happens: a second death before the first one is over, workers that drain, and worse."""

from __future__ import annotations

from scaler_protocol.codes import ROLE_WORKER
from scaler_protocol.ids import PeerId
from scaler_protocol.session import Opened
from tests.simulation.clients import ClientNode
from tests.simulation.presenting import PresentingWorld
from tests.simulation.servers import SchedulerNode
from tests.simulation.workers import WorkerNode
from tests.simulation.world import TROUBLE_SECONDS, World

GRACE_SECONDS = 120.0
"""More than any task takes, with all of its children."""


SLOW_SECONDS = 6.0
"""Less than the lease, and longer than a scheduler recovers."""


class TwiceDeadWorld(PresentingWorld):
    """Most successors die while they recover: of its peers some have met only the one before, some both, some neither.
    Some clients stand still meanwhile, and come when all workers have. All laws of a single death hold."""

    def _plan_trouble(self) -> None:
        super()._plan_trouble()
        for client in self.clients:
            if self.rng.random() < 0.4:
                at = self.rng.uniform(1, TROUBLE_SECONDS - SLOW_SECONDS)
                self.clock.at(at, lambda client=client: self._slow_down(client))

    def _slow_down(self, client: ClientNode) -> None:
        seconds = self.rng.uniform(1, SLOW_SECONDS)
        self._trouble(f"{client.name} is stopped for {seconds:.1f} s")
        client.stop_for(seconds)

    def _crash_scheduler(self) -> None:
        if self.scheduler.is_up and self.rng.random() < 0.7:
            self.clock.after(self.rng.uniform(0.2, 4.0), super()._crash_scheduler)
        super()._crash_scheduler()


class OftenDeadWorld(TwiceDeadWorld):
    """Most schedulers die before all of their peers have found them, and a peer may meet none of five."""

    pause_seconds = (0.2, 1.5)
    absence_seconds = (0.05, 1.0)


class DrainingWorld(TwiceDeadWorld):
    """Each worker of the first hour drains, and another one comes. Its tasks end there, whichever scheduler runs."""

    def _plan_trouble(self) -> None:
        super()._plan_trouble()
        for worker in list(self.workers):
            self.clock.at(self.rng.uniform(1, TROUBLE_SECONDS - 6), lambda worker=worker: self._replace(worker))

    def _replace(self, worker: WorkerNode) -> None:
        self._trouble(f"{worker.name} is drained, and another comes")
        self.workers.remove(worker)
        self.workers.append(WorkerNode(self, f"{worker.name}b", places=worker.places))
        worker.drain(GRACE_SECONDS)


class LateWorld(PresentingWorld):
    """Workers stand still between their Hello and their Holding, so that recoveries last as long as they may, and the
    sessions under former names of clients end within them. Some clients stand still before they submit again, until the
    recovery is over. No scheduler dies meanwhile. All laws hold."""

    reconnect_grace_seconds = 0.1
    absence_seconds = (0.05, 2.0)
    pause_seconds = (6.0, 9.0)

    def __init__(self, seed: int) -> None:
        self._met: set[PeerId] = set()
        super().__init__(seed)

    def was_opened(self, by: SchedulerNode, event: Opened) -> None:
        """A client that resumes under its former name does not stand still: the new name is still to come."""
        hello, is_new_name = event.hello, event.hello.peer_id not in self._met
        self._met.add(hello.peer_id)
        if not hello.last_server_id:
            return
        for worker in self.workers:
            if hello.role == ROLE_WORKER and hello.worker.name == worker.name:
                worker.stop_for(self.rng.uniform(0.5, 1.9))
        for client in self.clients:
            if is_new_name and hello.peer_id == client.peer_id and self.rng.random() < 0.5:
                client.stop_for(self.rng.uniform(0.5, 3.5))

    def is_dropped(self, call: bytes) -> bool:
        """Also what a client has not taken over before the session under its former name ends. (chapter 18)"""
        return call in self.takers and call in self.succeeded


class HarshWorld(TwiceDeadWorld):
    """Whatever can go wrong does, mostly while a scheduler recovers: workers and clients crash, stand still, drain, and
    are cut off from the scheduler or the storage, and the storage dies too. Then tasks may begin again, and those whose
    client or parent was lost may be canceled. Still each future ends, with the right value if it ends well, and nothing
    is left."""

    def _plan_trouble(self) -> None:
        super()._plan_trouble()
        if self.rng.random() < 0.3:
            self.network.weather.loss = 0.01
        if self.rng.random() < 0.3:
            self.network.weather.duplication = 0.05
        kinds = (
            self._crash_worker, self._crash_worker, self._part, self._part, self._cut_off_worker, self._drain_worker,
            self._crash_client, self._stop_client, self._crash_storage,
        )  # fmt: skip
        for _ in range(self.rng.choice((1, 2, 4))):
            self.clock.at(self.rng.uniform(0.5, TROUBLE_SECONDS), self.rng.choice(kinds))

    def _crash_scheduler(self) -> None:
        if self.scheduler.is_up and self.rng.random() < 0.5:
            worse = self.rng.choice((self._crash_worker, self._part, self._stop_client))
            self.clock.after(self.rng.uniform(0.0, 6.0), worse)
        super()._crash_scheduler()

    def _check_nothing_is_left(self) -> None:
        World._check_nothing_is_left(self)
