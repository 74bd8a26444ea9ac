"""A map on a cluster that knows little of its tasks takes about as long as its work shared out evenly."""

from __future__ import annotations

import pytest

from tests.simulation import program
from tests.simulation.workers import WorkerNode
from tests.simulation.world import World

WORKERS = 4


class MapWorld(World):
    """Some tiny tasks, one after another, as a program does before it begins; then a map of longer ones."""

    result_windows = (0,)

    def __init__(self, seed: int, *, lone: int, count: int, milliseconds: int) -> None:
        super().__init__(seed)
        for worker in self.workers:
            worker.crash()
        self.workers = [WorkerNode(self, f"worker{number}", places=1, queue_sizes=(1000,)) for number in range(WORKERS)]
        self._client = self.clients[0]
        self._left = lone
        self._count, self._milliseconds = count, milliseconds
        self.begun_at = self.ended_at = 0.0

    def _plan_trouble(self) -> None:
        pass

    def _plan_work(self) -> None:
        self._client._on_done = self._go_on
        self.clock.at(1.0, self._go_on)

    def _go_on(self) -> None:
        if self._left:
            self._left -= 1
            self._client.submit_lines([f"quick {self.new_name()} 0".encode()])
        elif not self.begun_at:
            self.begun_at = self.clock.now
            lines = [program.lasting(self.new_name(), self._milliseconds) for _ in range(self._count)]
            self._client.submit_lines(lines)
        else:
            self.ended_at = self.clock.now


@pytest.mark.parametrize("lone", (0, 1, 100))
@pytest.mark.parametrize(("count", "milliseconds"), [(100, 20), (20, 1000), (12, 2000), (400, 50), (1000, 3)])
def test_a_map_on_a_fresh_cluster(lone: int, count: int, milliseconds: int) -> None:
    world = MapWorld(lone + count, lone=lone, count=count, milliseconds=milliseconds)
    world.run()
    seconds = world.ended_at - world.begun_at
    ideal = -(-count // WORKERS) * milliseconds / 1000
    assert seconds < 1.2 * ideal + 0.2, f"{seconds:.2f} s for an ideal of {ideal:.2f} s"
