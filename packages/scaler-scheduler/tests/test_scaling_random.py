"""Scaling, with a manager that does what it is told, under load as it comes: laws that hold at every moment."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings
from tests.support.scheduler_story import Story

from scaler_protocol.codes import UNIT_RUNNING, UNIT_STARTING
from scaler_scheduler.core.policy import Scaling

PATIENCE = Scaling().patience_seconds
MOST = 8

steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, 30)),
        st.tuples(st.just("run"), st.integers(1, 3)),  # units that were starting
        st.tuples(st.just("end"), st.integers(1, 4)),  # tasks
        st.tuples(st.just("wait"), st.integers(1, 12)),
        st.tuples(st.just("limit"), st.integers(0, MOST)),  # the most that the manager can have from now on
    ),
    max_size=40,
)


class Managed:
    """The manager's side of the story, and what the workers hold."""

    def __init__(self) -> None:
        self.story = Story()
        self.story.client("c")
        self.story.manager("m")
        self.units: dict[str, int] = {}
        self.held: dict[str, list[str]] = {}  #: by worker
        self.open_count = 0  #: tasks that have not ended
        self.most = MOST
        self.target = 0
        self.raised_at = -PATIENCE
        self._tasks = self._unit_count = 0
        self.tell()

    def tell(self) -> None:
        self.story.has("m", most=self.most, **self.units)
        self.settle()

    def settle(self) -> None:
        has_changed = False
        for line in self.story.settle():
            receiver, _, told = line.partition(" <- ")
            words = told.split()
            if words[0] == "Target":
                has_changed = self._follow(int(words[1]), words[3:]) or has_changed
            elif words[0] == "Dispatch":
                self.held[receiver] += words[1:]
            elif words[0] == "Recall":
                self.story.give_back(receiver, [])  # with a credit of one, it has begun
        if has_changed:
            self.tell()

    def _follow(self, target: int, stop: list[str]) -> bool:
        if target > self.target:
            assert target <= min(self.open_count, self.most), "no more workers than there are tasks"
            self.raised_at = self.story.now
        elif self.most > target < self.target:
            assert self.story.now - self.raised_at >= PATIENCE, "less, so soon after it was more"
        self.target = target
        ended = [unit for unit in stop if unit in self.units]
        for unit in ended:
            assert not self.held.pop(f"w-{unit}", []), "a unit that has to end holds a task"
            if self.units.pop(unit) == UNIT_RUNNING:
                self.story.lost(f"w-{unit}", is_orderly=True)
        starting = [unit for unit, state in self.units.items() if state == UNIT_STARTING]
        surplus = starting[: max(0, len(self.units) - target)]
        for unit in surplus:
            del self.units[unit]
        missing = max(0, target - len(self.units))
        for _ in range(missing):
            self._unit_count += 1
            self.units[f"u{self._unit_count}"] = UNIT_STARTING
        return bool(ended or surplus or missing)

    # ------------------------------------------------------------ what happens

    def submit(self, count: int) -> None:
        names = [f"t{self._tasks + number}" for number in range(count)]
        self._tasks += count
        self.open_count += count
        self.story.submit("c", names)
        self.settle()

    def run(self, count: int) -> None:
        starting = [unit for unit, state in self.units.items() if state == UNIT_STARTING][:count]
        for unit in starting:
            self.units[unit] = UNIT_RUNNING
            self.held[f"w-{unit}"] = []
            self.story.worker(f"w-{unit}", credit=1, unit=("m", unit))
        self.tell()

    def end(self, count: int) -> None:
        for worker in [worker for worker, held in self.held.items() if held][:count]:
            self.open_count -= 1
            self.story.results(worker, [self.held[worker].pop(0)], credit=1)
        self.settle()

    def limit(self, most: int) -> None:
        self.most = most
        self.tell()

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.story.now += 1.0
            self.settle()


@settings(max_examples=60, deadline=None)
@given(steps)
def test_workers_follow_the_load(told: list[tuple[str, int]]) -> None:
    managed = Managed()
    for name, count in told:
        getattr(managed, name)(count)
    managed.limit(MOST)
    for _ in range(10 * (managed.open_count + 1)):  # everything comes to its end, from nothing but what is asked for
        managed.run(MOST)
        managed.end(MOST)
        managed.wait(1)
        if not managed.open_count:
            break
    assert not managed.open_count, "tasks were left without a worker"
    managed.run(MOST)
    managed.wait(int(3 * PATIENCE))
    assert managed.target == 0 and not managed.units, "nothing to do, and workers stay"
