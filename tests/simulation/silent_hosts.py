"""Hosts of workers vanish, and others are only slow or out of reach for a while (LIV-15, LIV-16, LIV-19)."""

from __future__ import annotations

from collections.abc import Sequence

from scaler_protocol.ids import PeerId
from scaler_protocol.session import Lost
from tests.simulation.nodes import TIMERS
from tests.simulation.servers import VANISHED_SECONDS, SchedulerNode
from tests.simulation.workers import WorkerNode
from tests.simulation.world import TROUBLE_SECONDS, World

TICK_SECONDS = 0.5
"""For the answer to the last question, and for the look that finds it missing."""
SHORT_CUT_SECONDS = 3.0
SUSPICION_SECONDS = 3.2
"""Half of the time that a host may be silent, a look and a turn."""


class SilentWorld(World):
    """Nothing is wrong but silence: of hosts that vanish, of processes that are stopped for less than the lease, and of
    ways that are cut for three fifths of the time that a host may be silent."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for number in range(len(self.workers), 4):
            self.workers.append(WorkerNode(self, f"worker{number}", places=2))
        #: peers whose hosts have vanished, and when
        self._vanished: dict[bytes, float] = {}
        self.found_after: list[float] = []

    def was_lost(self, by: SchedulerNode, event: Lost) -> None:
        """A worker that is only slow is never lost. One whose host has vanished is."""
        vanished_at = self._vanished.pop(event.peer_id, None)
        is_worker = event.peer_id in by.core.tables.workers
        if vanished_at is not None:
            self.found_after.append(self.clock.now - vanished_at)
        elif is_worker and not event.is_orderly:
            self.fail(f"a worker that is only slow was lost: {event.text}")

    def was_given(self, worker_id: bytes) -> None:
        """Nothing goes to a host that has been silent for so long that it is suspected, unless no other worker takes
        tasks. (SCH-84)"""
        vanished_at = self._vanished.get(PeerId(worker_id))
        if vanished_at is None or self.clock.now < vanished_at + SUSPICION_SECONDS:
            return
        others = [one for one in self.scheduler.core.tables.workers.values() if one.peer_id != worker_id]
        is_alone = not any(one.limit > 0 and not one.is_cut_off for one in others)
        self.law(is_alone, "a host that is suspected to have vanished was given a task")

    def _plan_trouble(self) -> None:
        self.network.weather.delay_seconds = self.rng.choice((0.0005, 0.01, 0.1))
        kinds = (self._vanish, self._vanish, self._stop_worker, self._cut_worker)
        for worker in self.workers[1:]:  # one misfortune each, and one is well
            self.clock.at(self.rng.uniform(1, TROUBLE_SECONDS), lambda worker=worker: self.rng.choice(kinds)(worker))

    def _vanish(self, worker: WorkerNode) -> None:
        self._trouble(f"the host of {worker.name} vanishes")
        self.may_fail = True
        sessions = [peer_id for peer_id, one in self.scheduler.core.tables.workers.items() if one.name == worker.name]
        self._vanished.update(dict.fromkeys(sessions, self.clock.now))
        self.network.vanish(worker.name, worker.crash)
        answer_seconds = 8 * self.network.weather.delay_seconds
        self.clock.after(
            VANISHED_SECONDS + TICK_SECONDS + answer_seconds, lambda: self._check_work_is_elsewhere(sessions)
        )

    def _check_work_is_elsewhere(self, sessions: Sequence[bytes]) -> None:
        self.law(self._vanished.keys().isdisjoint(sessions), "a vanished host still has its tasks")

    def _stop_worker(self, worker: WorkerNode) -> None:
        seconds = self.rng.uniform(1, TIMERS.lease_seconds - 2)
        self._trouble(f"{worker.name} is stopped for {seconds:.1f} s")
        worker.stop_for(seconds)

    def _cut_worker(self, worker: WorkerNode) -> None:
        self._trouble(f"{worker.name} does not reach the scheduler for {SHORT_CUT_SECONDS:g} s")
        self.may_fail = True
        self.network.part(worker.name, "scheduler", SHORT_CUT_SECONDS)

    def _check_nothing_is_left(self) -> None:
        super()._check_nothing_is_left()
        self.law(not self._vanished, "a vanished host was never found")


class CutOffWorld(SilentWorld):
    """The network of the scheduler's host fails for longer than a host may be silent, and for less than the lease."""

    def was_lost(self, by: SchedulerNode, event: Lost) -> None:
        """A worker that does not come back in time may be. None is because its host gives no sign."""
        self.law("no sign" not in event.text, f"a host that is well was lost: {event.text}")

    def _plan_trouble(self) -> None:
        self.network.weather.delay_seconds = self.rng.choice((0.0005, 0.01, 0.1))
        self.clock.at(self.rng.uniform(1, TROUBLE_SECONDS - TIMERS.lease_seconds), self._cut_scheduler)

    def _cut_scheduler(self) -> None:
        seconds = self.rng.uniform(VANISHED_SECONDS + 1.5, TIMERS.lease_seconds - 2)
        self._trouble(f"nothing reaches the scheduler for {seconds:.1f} s")
        self.may_fail = True
        for node in (*self.workers, *self.clients):
            self.network.part(node.name, "scheduler", seconds)
