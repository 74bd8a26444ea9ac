"""A rolling upgrade: every worker of the first hour is drained, one after the other, while new ones come."""

from __future__ import annotations

from tests.simulation import program
from tests.simulation.workers import WorkerNode
from tests.simulation.world import TROUBLE_SECONDS, World

GRACE_SECONDS = 120.0
"""More than any task takes, with all of its children."""
RETRIED = ("fail", "crash", "crashonce")
"""Tasks of these kinds may run again because they have retries."""


class RollingWorld(World):
    """Messages take their time, and nothing else is wrong; so nothing may be lost, and nothing may run twice."""

    def _plan_trouble(self) -> None:
        self.network.weather.delay_seconds = self.rng.choice((0.0005, 0.01, 0.1))
        old = list(self.workers)
        step = TROUBLE_SECONDS / (len(old) + 1)
        for number, worker in enumerate(old, 1):
            self.clock.at(number * step, lambda worker=worker: self._replace(worker))

    def _replace(self, worker: WorkerNode) -> None:
        self._trouble(f"{worker.name} is drained, and another comes")
        self.workers.remove(worker)
        self.workers.append(WorkerNode(self, f"{worker.name}b", places=worker.places))
        worker.drain(GRACE_SECONDS)

    def _check_nothing_is_left(self) -> None:
        super()._check_nothing_is_left()
        self.law(len(self._troubles) > 0, "no worker was drained")
        again = [call for call, count in self.runs.items() if count > 1 and program.kind_of(call) not in RETRIED]
        self.law(not again, f"these ran more than once: {again}")
