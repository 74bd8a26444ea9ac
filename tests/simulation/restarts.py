"""Graphs whose scheduler dies again and again: what has ended is not run again. (SCH-51 to SCH-54, CLI-17, CLI-18)"""

from __future__ import annotations

from tests.simulation import program
from tests.simulation.clients import ClientNode
from tests.simulation.world import TROUBLE_SECONDS, World

SHAPES = ("chain", "tree", "any", "any")


class RestartsWorld(World):
    """Nothing but the scheduler dies, so every future ends right, and no node runs again whose result its client knows.

    Each third world is harder: its storage dies as well, now and then, and then some nodes have to run again.
    """

    def __init__(self, seed: int) -> None:
        self.is_hard = seed % 3 == 2
        super().__init__(seed)

    def _plan_work(self) -> None:
        for client in self.clients:
            for _ in range(self.rng.randint(1, 2)):
                self.clock.at(self.rng.uniform(0, TROUBLE_SECONDS / 8), lambda client=client: self._submit(client))

    def _submit(self, client: ClientNode) -> None:
        client.submit_graph_of(self.rng.choice((5, 20, 60)), self.rng.choice(SHAPES), self._line)

    def _line(self) -> bytes:
        name = self.new_name()
        if self.rng.random() < 0.3:
            return program.heavy(name, program.LARGE + self.rng.randint(1, 500))
        return program.lasting(name, self.rng.randint(1, 600))

    def _plan_trouble(self) -> None:
        self.network.weather.delay_seconds = self.rng.choice((0.0005, 0.01, 0.1))
        at = 0.0
        while at < TROUBLE_SECONDS - 6:
            at += self.rng.uniform(0.5, 6)
            self.clock.at(at, self._crash_scheduler)
            if self.is_hard and self.rng.random() < 0.3:
                self.clock.at(at + self.rng.uniform(-1, 1) if at > 1 else at, self._crash_storage)

    def _crash_scheduler(self) -> None:
        may_fail = self.may_fail
        super()._crash_scheduler()
        self.may_fail = may_fail  # peers that resume need not be told of the scheduler's return
