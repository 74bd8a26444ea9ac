"""While one worker works, every task ends: whatever lives beside it and does not do its part."""

from __future__ import annotations

import pytest

from scaler_scheduler.core.placing import recalling
from scaler_worker.core import beginning, handing, stopping
from tests.simulation.grey import HANGS, KINDS, GreyWorld
from tests.simulation.laws import Break, each_broken_core, expect_caught, played
from tests.simulation.world import LawBroken

SEEDS = (1, 2, 3, 11, 12, 14)
"""Each of the kinds of grey workers is among them. Further ones: `python -m tests.simulation --world grey`."""


@pytest.mark.parametrize("seed", SEEDS)
def test_every_task_ends_while_one_worker_works(seed: int) -> None:
    assert len(list(played(GreyWorld, [seed]))) == 1


def test_each_kind_of_grey_worker_is_among_the_seeds() -> None:
    assert {worker.kind for seed in SEEDS for worker in GreyWorld(seed).workers} == set(KINDS)


def _tasks_stay_where_nothing_ends(patch: pytest.MonkeyPatch) -> None:
    """Only idle workers are given what others have not begun."""
    patch.setattr(recalling.Standstill, "look", lambda self, now: None)


def _a_task_goes_on_only_in_a_free_place(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(handing, "resume_due_at", lambda tables: None)


def _a_task_that_is_not_begun_stays(patch: pytest.MonkeyPatch) -> None:
    """A processor that hangs between two tasks keeps the next one."""
    patch.setattr(beginning, "BEGIN_SECONDS", 1e9)


def _a_task_that_does_not_yield_is_not_stopped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stopping, "kill", lambda tables, processor, now: None)


class EndlessWorld(GreyWorld):
    """All but one of the workers have tasks without an end in all their places."""

    kinds = (HANGS,)


CATCHING: dict[Break, tuple[type[GreyWorld], int]] = {
    _tasks_stay_where_nothing_ends: (EndlessWorld, 5),
    _a_task_goes_on_only_in_a_free_place: (GreyWorld, 2),
    _a_task_that_is_not_begun_stays: (GreyWorld, 14),
    _a_task_that_does_not_yield_is_not_stopped: (GreyWorld, 2),
}
"""The first seed that shows each broken core."""


@each_broken_core(*CATCHING)
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    world, first = CATCHING[break_it]
    break_it(monkeypatch)
    expect_caught(world, first + 20, LawBroken, first=first)
