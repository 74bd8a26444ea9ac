"""Programs that are as wide as they are deep: every task ends, nothing is refused, and processors are bounded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scaler_worker.core import nesting
from tests.simulation import program
from tests.simulation.wide import WideWorld
from tests.simulation.workers import WorkerNode

SEEDS = 12


class CalmWorld(WideWorld):
    has_trouble = False


class OneProgram(CalmWorld):
    """One client with one program, after a few tiny tasks; workers of one place."""

    def __init__(
        self, seed: int, lines: Callable[[OneProgram], list[bytes]], *, workers: int = 1, delay: float = 0.0
    ) -> None:
        self._lines = lines
        super().__init__(seed)
        self.network.weather.delay_seconds = delay
        for worker in self.workers:
            worker.crash()
        self.workers = [WorkerNode(self, f"one{number}", places=1, queue_sizes=(1000,)) for number in range(workers)]

    def _plan_work(self) -> None:
        client = self.clients[0]
        self.clock.at(1.0, lambda: client.submit(["quick"] * 5))
        self.clock.at(2.0, lambda: client.submit_lines(self._lines(self)))


def run_with_few_processors(world: OneProgram) -> None:
    world.run()
    for worker in world.workers:
        world.law(worker.core.tables.last_processor <= 24, "processors are for children, not for parents that wait")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_without_a_misfortune_nothing_is_refused(seed: int) -> None:
    CalmWorld(seed).run()


@pytest.mark.parametrize("seed", range(100, 100 + SEEDS))
def test_with_misfortunes_everything_ends(seed: int) -> None:
    WideWorld(seed).run()


def parents(count: int, *shape: int) -> Callable[[OneProgram], list[bytes]]:
    return lambda world: [program.tree(world.new_name(), shape, "echo") for _ in range(count)]


def test_a_thousand_waiting_parents() -> None:
    run_with_few_processors(OneProgram(3, parents(1000, 1)))


def test_children_that_are_long_on_their_way() -> None:
    """A busy machine, or a slow network: a child takes a while, and parents begin meanwhile."""
    run_with_few_processors(OneProgram(3, parents(150, 1), delay=0.05))


@pytest.mark.parametrize("workers", (1, 2))
def test_a_root_of_three_hundred_waiting_parents(workers: int) -> None:
    run_with_few_processors(OneProgram(3, parents(1, 300, 1), workers=workers))


def test_a_tree_of_ten_by_ten_by_ten() -> None:
    run_with_few_processors(OneProgram(2, parents(1, 10, 10, 10), workers=2))


def test_forty_tasks_that_wait_for_one_another() -> None:
    def lines(world: OneProgram) -> list[bytes]:
        return [program.meeting(world.new_name(), "all", 40) for _ in range(40)]

    OneProgram(3, lines).run()


# ---------------------------------------------------------------- the laws can fail

Break = Callable[[pytest.MonkeyPatch], None]


def _no_room_is_made(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nesting, "keep_room", lambda *arguments: None)
    patch.setattr(nesting, "room_due_at", lambda *arguments: None)


def _parents_take_every_processor(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nesting, "_has_spare", lambda *arguments: True)
    patch.setattr(nesting, "_wait_seconds", lambda *arguments: 0.0)


def _only_children_begin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(nesting, "_begins_at", lambda tables, blocked, depth: None if blocked else 0.0)


BREAKS = [_no_room_is_made, _parents_take_every_processor, _only_children_begin]


@pytest.mark.parametrize("break_it", BREAKS, ids=lambda break_it: break_it.__name__.strip("_"))
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    with pytest.raises(AssertionError):
        run_with_few_processors(OneProgram(3, parents(300, 1)))
        test_children_that_are_long_on_their_way()
        test_forty_tasks_that_wait_for_one_another()
