"""Managers while one scheduler takes over from another; and the laws are able to fail."""

from __future__ import annotations

import pytest

from scaler_scheduler.core.scaling.manager import Manager
from scaler_scheduler.core.succession.recovering import Recovery
from scaler_worker.manager.core import Action, Event, ManagerCore
from tests.simulation.laws import Break, each_broken_core, expect_caught, played
from tests.simulation.managed_pair import ManagedPairWorld

SEEDS = 12
BLOCK = 6


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_seeds(first: int) -> None:
    worlds = list(played(ManagedPairWorld, range(first, first + BLOCK)))
    assert sum(world.change_count for world in worlds) > BLOCK
    assert sum(world.stopped_count for world in worlds) > 0, "no unit was ended"


def _units_end_under_their_tasks(patch: pytest.MonkeyPatch) -> None:
    def stop_at_once(self: Manager, running: list[str], *arguments: object) -> None:
        self.stopped.update(self.retiring)
        self.retiring.clear()

    patch.setattr(Manager, "_stop_empty_units", stop_at_once)


def _a_scheduler_that_takes_over_does_not_wait_for_workers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "client_came", lambda *arguments: None)


def _a_target_outlives_the_scheduler_that_gave_it(patch: pytest.MonkeyPatch) -> None:
    def opened(self: ManagerCore, event: Event, now: float) -> list[Action]:
        self._has_session, self._told = True, None
        return []

    patch.setattr(ManagerCore, "_on_opened", opened)
    patch.setattr(ManagerCore, "_on_lost", lambda self, event, now: [])


#: Few seeds show that it is broken.
TELLING = {_a_scheduler_that_takes_over_does_not_wait_for_workers: 12}


@each_broken_core(
    _units_end_under_their_tasks,
    _a_scheduler_that_takes_over_does_not_wait_for_workers,
    _a_target_outlives_the_scheduler_that_gave_it,
)
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    expect_caught(ManagedPairWorld, 4 * SEEDS, AssertionError, first=TELLING.get(break_it, 0))
