"""Clusters whose tasks wait for tasks: hundreds of parents at once, trees as wide as they are deep, and barriers."""

from __future__ import annotations

from scaler_protocol.messages import Capability
from tests.simulation import program
from tests.simulation.clients import ClientNode
from tests.simulation.world import TROUBLE_SECONDS, World

#: How many children the tasks of each level have: parents of one child, roots of such parents, and bushy trees.
SHAPES = ((1,), (1,), (3,), (40, 1), (100, 1), (300, 1), (5, 5, 5), (1, 1, 1, 1), (30, 2, 2))
LEAVES = ("echo", "echo", "quick", "slow", "large")
MOST_TASKS = 250
SLOW_COST = 10
"""As many others of that budget: it is to be done in time."""


class WideWorld(World):
    """Besides what may happen anywhere, its clients submit trees. Without a misfortune nothing may be refused."""

    has_trouble = True

    def __init__(self, seed: int) -> None:
        self._most_gpus = 0
        self.max_processors = (16, 16, 32, 128)[seed % 4]
        super().__init__(seed)
        self._left = MOST_TASKS

    def gpus_of(self, worker: int) -> int:
        gpus = self.rng.randint(0 if worker else 1, 3)
        self._most_gpus = max(self._most_gpus, gpus)
        return gpus

    def _plan_work(self) -> None:
        for client in self.clients:
            for _ in range(self.rng.randint(1, 3)):
                self.clock.at(self.rng.uniform(0, TROUBLE_SECONDS / 4), lambda client=client: self._wide_work(client))

    def _plan_trouble(self) -> None:
        if self.has_trouble:
            super()._plan_trouble()

    def _wide_work(self, client: ClientNode) -> None:
        if not client.is_up:
            return
        rng = self.rng
        if rng.random() < 0.6:  # tiny tasks of its own: they raise the credit, and stand before the children
            client.submit(["quick"] * rng.choice((1, 20, 200)))
        if rng.random() < 0.15:
            self._meet_somewhere(client, rng.randint(2, 3))
        shape, leaf, one_by_one = rng.choice(SHAPES), rng.choice(LEAVES), rng.random() < 0.3
        if leaf == "slow" and _size(shape) > SLOW_COST:
            shape = (1, 1)
        cost = _size(shape) * (SLOW_COST if leaf == "slow" else 1)
        count = max(1, min(rng.choice((1, 10, 100, 300, 1000)), self._left // cost))
        self._left -= count * cost
        lines = [program.tree(self.new_name(), shape, leaf, one_by_one=one_by_one) for _ in range(count)]
        if rng.random() < 0.3:  # long and tiny ones among the parents
            others = rng.choices(("quick", "slow"), k=min(count // 4, 20))
            lines += [f"{kind} {self.new_name()} 0".encode() for kind in others]
            rng.shuffle(lines)
        # Every task of such a tree needs what its parent holds while it waits (SCH-47).
        gpus = rng.choice((0, 0, 1, self._most_gpus))
        client.submit_lines(lines, capabilities=(Capability("gpu", gpus),) if gpus else ())

    def _meet_somewhere(self, client: ClientNode, size: int) -> None:
        group = self.new_name()
        client.submit_lines([program.meeting(self.new_name(), group, size) for _ in range(size)])


def _size(shape: tuple[int, ...]) -> int:
    """How many tasks a tree of this shape has."""
    total = width = 1
    for children in shape:
        width *= children
        total += width
    return total
