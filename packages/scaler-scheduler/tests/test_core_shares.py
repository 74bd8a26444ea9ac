"""Programs get the same time of workers, by their weights, and none waits for more than a task. (SCH-91, SCH-92)"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.scheduler_story import Story, names
from tests.support.steps import steps_of

from scaler_protocol.keys import Identity
from scaler_protocol.messages import Capability, Dispatch
from scaler_scheduler.core import Policy, Send, Settled, invariants


class World:
    """Workers with one place each, which run what they are given by priority, then in order (WRK-5); time is what the
    tasks take."""

    def __init__(self, workers: int, policy: Policy | None = None, *, credit: int = 1) -> None:
        self.story = Story(policy)
        self.story.is_checked = False
        self.seconds: dict[str, float] = {}
        self.priorities: dict[str, int] = {}
        self.began: dict[str, float] = {}
        self.used: Counter[str] = Counter()
        self.numbers: Counter[str] = Counter()
        self._queues: dict[str, list[str]] = {}
        self._ends: list[tuple[float, str]] = []
        self.capabilities = {"gpu": -1, "ssd": -1}
        for number in range(workers):
            self._queues[f"w{number}"] = []
            self.story.worker(f"w{number}", credit, capabilities=self.capabilities)

    def submit(self, program: str, count: int, seconds: float, **header: object) -> list[str]:
        first = self.numbers[program]
        self.numbers[program] += count
        tasks = [f"{program}-{number}" for number in range(first, first + count)]
        self.seconds.update(dict.fromkeys(tasks, seconds))
        self.story.submit(program, tasks, **header)
        self._begin()
        return tasks

    def run(self, until: float = float("inf"), *, done: Callable[[], bool] = lambda: False) -> None:
        """Until that time, or until nothing runs any more."""
        while self._ends and self._ends[0][0] <= until and not done():
            self.story.now, worker = heapq.heappop(self._ends)
            task = self._queues[worker].pop(0)
            self.used[task.split("-")[0]] += self.seconds[task]  # type: ignore[assignment]
            self.story.results(worker, [task])
            self._next(worker)
            self._begin()
        invariants.check(self.story.core)

    def _begin(self) -> None:
        for action in self.story.actions():
            if isinstance(action, Send) and isinstance(action.message, Dispatch):
                worker = action.peer_id.rstrip(b".").decode()
                was_idle = not self._queues[worker]
                given = names(action.message.ids)
                self.priorities.update(dict.fromkeys(given, action.message.header.priority))
                self._queues[worker] += given
                self._queues[worker][not was_idle :] = sorted(
                    self._queues[worker][not was_idle :], key=lambda one: -self.priorities[one]
                )
                if was_idle:
                    self._next(worker)

    def _next(self, worker: str) -> None:
        if self._queues[worker]:
            task = self._queues[worker][0]
            self.began[task] = self.story.now
            heapq.heappush(self._ends, (self.story.now + self.seconds[task], worker))


def programs(world: World, *names: str, **options: int) -> None:
    for name in names:
        world.story.client(name, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_a_task_waits_for_no_more_than_one_task_of_others(workers: int) -> None:
    world = World(workers)
    programs(world, "many", "one")
    world.submit("many", 100, 10.0)
    for wait in (25.0, 47.0, 68.5):
        world.run(until=wait)
        world.story.now = wait
        (task,) = world.submit("one", 1, 1.0)
        world.run(done=lambda task=task: task in world.began)  # type: ignore[misc]
        assert world.began[task] - wait <= 10.0


@pytest.mark.parametrize(("count", "seconds"), [(40, 0.001), (20, 10.0)])
def test_a_task_does_not_wait_for_what_others_were_taken_to_need(count: int, seconds: float) -> None:
    """What workers hold counts with an average: of nothing at first, and of much longer tasks afterwards."""
    credit = 50
    world = World(1, credit=credit)
    programs(world, "many", "one")
    world.submit("many", count, seconds)
    world.submit("many", 5_000, 0.001)
    wait = count * seconds + 0.1
    world.run(until=wait)
    (task,) = world.submit("one", 1, 0.001)
    world.run(done=lambda: task in world.began)
    assert world.began[task] - wait <= 0.001 * (credit + 2)


def test_long_and_short_tasks_get_the_same_time() -> None:
    world = World(2)
    programs(world, "long", "short")
    world.submit("long", 40, 8.0)
    world.submit("short", 240, 1.0)
    world.run(until=200.0)
    assert world.used["long"] == pytest.approx(200, rel=0.15)
    assert world.used["short"] == pytest.approx(200, rel=0.15)


def test_a_lighter_program_gets_less() -> None:
    world = World(3)
    programs(world, "full")
    programs(world, "light", share_weight=25)
    world.submit("full", 300, 1.0)
    world.submit("light", 300, 1.0)
    world.run(until=100.0)
    assert world.used["light"] == pytest.approx(300 / 5, rel=0.15)


@pytest.mark.parametrize("weight", [0, 101, 255])
def test_a_weight_that_is_none_is_a_full_one(weight: int) -> None:
    world = World(2)
    programs(world, "full")
    programs(world, "odd", share_weight=weight)
    world.submit("full", 100, 1.0)
    world.submit("odd", 100, 1.0)
    world.run(until=30.0)
    assert abs(world.used["full"] - world.used["odd"]) <= 4


def test_an_operator_gives_a_user_more() -> None:
    world = World(3, Policy(user_weights={"ana": 3.0}))
    world.story.client("more", identity=Identity("ana", frozenset(), False, b""))
    world.story.client("less", identity=Identity("bob", frozenset(), False, b""))
    world.submit("more", 300, 1.0)
    world.submit("less", 300, 1.0)
    world.run(until=80.0)
    assert world.used["more"] == pytest.approx(180, rel=0.15)


def user(name: str) -> Identity:
    return Identity(name, frozenset(), is_operator=False, holder=b"")


def crowd(world: World, name: str, count: int) -> list[str]:
    """So many programs of one user, and what they are called."""
    programs_of_user = [f"{name}{number}" for number in range(count)]
    for one in programs_of_user:
        world.story.client(one, identity=user(name))
    return programs_of_user


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 12),
    st.tuples(*[st.tuples(st.sampled_from((0.5, 1.0, 3.0)), st.integers(-(2**31), 2**31 - 1))] * 2),
    st.integers(1, 4),
    st.sampled_from((1, 3)),
    st.booleans(),
)
def test_users_get_the_same_however_many_clients_they_have_and_whatever_they_claim(
    ana: int, bob: int, tasks: tuple[tuple[float, int], ...], workers: int, credit: int, has_needs: bool
) -> None:
    """Two users who always have something queued, with so many programs each, tasks of any length and any priority."""
    world, end = World(workers, credit=credit), 100.0
    of_users = [crowd(world, "ana", ana), crowd(world, "bob", bob)]
    needs = (Capability("gpu"),) if has_needs else ()
    for own, (seconds, priority) in zip(of_users, tasks, strict=True):
        for one in own:
            world.submit(one, int(end * workers / seconds) + 1, seconds, priority=priority, capabilities=needs)
    world.run(until=end)
    longest = max(seconds for seconds, _ in tasks)
    for own in of_users:
        used = sum(world.used[one] for one in own)
        assert used >= end * workers / 2 * 0.85 - longest * (workers * credit + 3)


@pytest.mark.parametrize("credit", [1, 5])
def test_a_flood_of_the_highest_priority_holds_up_no_other_user(credit: int) -> None:
    world = World(2, credit=credit)
    crowd(world, "ana", 1)
    for one in crowd(world, "bob", 7):
        world.submit(one, 200, 1.0, priority=2**31 - 1)
    for wait in (10.3, 20.3, 30.3):
        world.run(until=wait)
        world.story.now = wait
        (task,) = world.submit("ana0", 1, 0.1)
        world.run(done=lambda task=task: task in world.began)  # type: ignore[misc]
        assert world.began[task] - wait <= credit * 1.0


def test_a_users_own_tasks_of_higher_priority_go_first() -> None:
    world = World(2)
    one, two = crowd(world, "ana", 2)
    crowd(world, "bob", 1)
    world.submit("bob0", 200, 1.0)
    world.submit(one, 200, 1.0)
    world.run(until=5.0)
    urgent = world.submit(two, 20, 1.0, priority=1)
    before = world.used[one]
    world.run(done=lambda: all(task in world.began for task in urgent))
    assert world.used[one] - before <= 2


def test_without_keys_priorities_are_of_all_clients() -> None:
    world = World(1)
    programs(world, "a", "b")
    world.submit("a", 50, 1.0)
    world.run(until=5.0)
    urgent = world.submit("b", 10, 1.0, priority=1)
    before = world.used["a"]
    world.run(done=lambda: all(task in world.began for task in urgent))
    assert world.used["a"] - before <= 1


def test_a_client_in_a_task_has_the_share_of_its_program() -> None:
    world = World(4)
    programs(world, "a", "b")
    (parent,) = world.submit("a", 1, 1000.0)
    world.submit("b", 1000, 1.0)
    world.run(until=10.0)
    world.story.client("c", parent=parent)
    world.submit("c", 1000, 1.0)
    world.submit("a", 1000, 1.0)
    world.run(until=100.0)
    assert world.used["a"] + world.used["c"] == pytest.approx(270 / 2, rel=0.2)
    assert world.used["a"] == pytest.approx(world.used["c"], rel=0.2)


def test_tasks_that_need_something_else_have_no_advantage() -> None:
    """They are in lines of their own, and each of these has a turn."""
    world = World(2)
    programs(world, "plain", "gpu", "ssd")
    world.submit("plain", 300, 1.0)
    world.submit("gpu", 300, 1.0, capabilities=(Capability("gpu"),))
    world.submit("ssd", 300, 1.0, capabilities=(Capability("ssd"),))
    world.run(until=60.0)
    assert {name: world.used[name] for name in ("plain", "gpu", "ssd")} == pytest.approx(
        {"plain": 40, "gpu": 40, "ssd": 40}, rel=0.15
    )


def test_time_that_was_not_used_is_not_saved_up() -> None:
    world = World(2)
    programs(world, "steady", "guest")
    world.submit("steady", 500, 1.0)
    world.run(until=100.0)
    world.submit("guest", 200, 1.0)
    world.run(until=130.0)
    assert world.used["guest"] == pytest.approx(30, abs=4)


def test_priority_goes_before_shares() -> None:
    world = World(2)
    programs(world, "urgent", "other")
    world.submit("other", 50, 1.0)
    world.run(until=5.0)
    tasks = world.submit("urgent", 20, 1.0, priority=1)
    world.run(done=lambda: all(task in world.began for task in tasks))
    assert world.used["other"] <= 5 * 2 + 2


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from((0.1, 0.5, 1.0, 3.0)), st.sampled_from((25, 50, 100)), st.floats(0, 20)),
        min_size=2,
        max_size=5,
    ),
    st.integers(1, 4),
    st.sampled_from((1, 2, 3)),
)
def test_no_program_is_far_behind(wants: list[tuple[float, int, float]], workers: int, credit: int) -> None:
    """Of programs that always have something queued each gets its share, but for the tasks that workers hold, and what
    an average says wrongly of the first ones."""
    world = World(workers, credit=credit)
    end = 60.0
    for number, (seconds, weight, begin) in sorted(enumerate(wants), key=lambda one: one[1][2]):
        world.run(until=begin)
        world.story.now = max(world.story.now, begin)
        programs(world, f"p{number}", share_weight=weight)
        world.submit(f"p{number}", int((end + 20) * workers / seconds) + 1, seconds)
    last = max(begin for _, _, begin in wants)
    world.run(until=last)
    before = world.used.copy()
    world.run(until=last + end)
    weights = sum(weight for _, weight, _ in wants)
    longest = max(seconds for seconds, _, _ in wants)
    slack = longest * (workers * credit + len(wants) + 1)
    for number, (_, weight, _) in enumerate(wants):
        used = world.used[f"p{number}"] - before[f"p{number}"]
        assert used >= end * workers * weight / weights * 0.85 - slack


def test_a_thousand_programs_cost_little_more_than_ten() -> None:
    """Steps of a turn that dispatches one task for each of ten workers."""

    def steps(count: int) -> int:
        story = Story()
        story.is_checked = False
        for number in range(10):
            story.worker(f"w{number}", 1)
        for number in range(count):
            story.client(f"c{number}")
            story.submit(f"c{number}", [f"{number}-{task}" for task in range(300 if count == 10 else 3)])
        story.actions()
        held = [(worker.name, list(worker.held)) for worker in story.core.tables.workers.values()]
        total = 0
        for _ in range(5):
            for name, tasks in held:
                story.results(name, [task.rstrip(b".").decode() for task in tasks])
            story.now += 0.001
            total += steps_of(lambda: story.core.handle(Settled(), story.now))
            held = [(worker.name, list(worker.held)) for worker in story.core.tables.workers.values()]
        return total

    assert steps(1000) < 3 * steps(10)
