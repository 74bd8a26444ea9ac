"""Nothing but the scheduler dies, again and again, and every peer has all features. Then nothing is lost, nothing is
delivered twice, and no task begins twice, nor a node of a graph. (WRK-33 to WRK-40, SCH-61 to SCH-72)"""

from __future__ import annotations

from collections.abc import Container, Sequence

from tests.simulation import program
from tests.simulation.clients import Call, ClientNode
from tests.simulation.world import TROUBLE_SECONDS, World

RETRIED = ("crash", "crashonce", "fail")
"""Tasks of these kinds may run again because they have retries."""
LONGEST_ABSENCE_SECONDS = 5.0


class PresentingWorld(World):
    is_of_one_version = True
    #: between two deaths, at least and at most
    pause_seconds = (0.5, 8.0)

    def __init__(self, seed: int) -> None:
        #: of each node of a graph whose value its client does not want: the nodes that take this value
        self.takers: dict[bytes, list[bytes]] = {}
        #: calls that have begun more than once, though their values were there
        self.again: dict[bytes, None] = {}
        super().__init__(seed)

    def _plan_work(self) -> None:
        for client in self.clients:
            for _ in range(self.rng.randint(1, 4)):
                self.clock.at(self.rng.uniform(0, TROUBLE_SECONDS / 2), lambda client=client: self._submit(client))

    def _submit(self, client: ClientNode) -> None:
        what = self.rng.random()
        if what < 0.4:
            client.submit_lines([self._line() for _ in range(self.rng.choice((1, 5, 30)))])
        elif what < 0.6:
            client.submit_graph_of(self.rng.choice((5, 20, 40)), self.rng.choice(("chain", "tree", "any")), self._line)
        elif what < 0.8:
            shape = self.rng.choice(((2,), (3, 2), (1, 1, 1)))
            client.submit_lines([program.tree(self.new_name(), shape, "slow") for _ in range(self.rng.randint(1, 3))])
        else:
            client.submit([self.rng.choice(program.KINDS) for _ in range(self.rng.choice((1, 3, 20)))])

    def _line(self) -> bytes:
        name = self.new_name()
        if self.rng.random() < 0.3:
            return program.heavy(name, program.LARGE + self.rng.randint(1, 500))
        return program.lasting(name, self.rng.randint(1, 3_000))

    def _plan_trouble(self) -> None:
        """Slow enough for a scheduler to be known, fast enough for no peer to be given up."""
        self.network.weather.delay_seconds = self.rng.choice((0.0005, 0.005, 0.02))
        at = 0.0
        while at < TROUBLE_SECONDS - 6:
            at += self.rng.uniform(*self.pause_seconds)
            self.clock.at(at, self._crash_scheduler)

    def _crash_scheduler(self) -> None:
        may_fail = self.may_fail
        super()._crash_scheduler()
        self.may_fail = may_fail  # a scheduler that comes back ends no task

    def note_graph(self, calls: Sequence[Call], wanted: Container[Call]) -> None:
        takers: dict[bytes, list[bytes]] = {call.line: [] for call in calls if call not in wanted}
        for call in calls:
            for taken in call.depends_on:
                takers.get(taken.line, []).append(call.line)
        self.takers.update(takers)

    def note_begin(self, call: bytes) -> None:
        """A node that has succeeded may begin again, if its client does not want its value, and all nodes that take the
        value have succeeded: the value is in the storage no more, and no worker keeps it. (chapter 18)"""
        if self.runs[call] and not self.is_dropped(call):
            self.again[call] = None
        super().note_begin(call)

    def is_dropped(self, call: bytes) -> bool:
        return call in self.takers and self.succeeded.issuperset(self.takers[call])

    @property
    def death_count(self) -> int:
        """Of schedulers."""
        return sum(trouble.startswith("scheduler crashes") for trouble in self._troubles)

    def _check_nothing_is_left(self) -> None:
        super()._check_nothing_is_left()
        again = [call for call in self.again if program.kind_of(call) not in RETRIED]
        self.law(not again, f"these began more than once: {again}")
