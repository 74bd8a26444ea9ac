"""Managers in simulated clusters; and the laws are able to fail: each broken core is caught."""

from __future__ import annotations

import pytest

from scaler_protocol.messages import ManagerTarget
from scaler_scheduler.core.core import SchedulerCore
from scaler_scheduler.core.entities.workers import Worker
from scaler_scheduler.core.scaling.controller import Scaler
from scaler_scheduler.core.scaling.manager import Manager
from scaler_worker.manager.core import Action, Event, ManagerCore, StopUnit
from scaler_worker.manager.units import State
from tests.simulation.laws import Break, each_broken_core, expect_caught, played
from tests.simulation.managed import HarshManagedWorld, ManagedWorld

SEEDS = 24
BLOCK = 6
WORLDS = (ManagedWorld, ManagedWorld, HarshManagedWorld, HarshManagedWorld)


@pytest.mark.parametrize(("number", "world"), list(enumerate(WORLDS)))
def test_seeds(number: int, world: type[ManagedWorld]) -> None:
    first = BLOCK * number
    worlds = list(played(world, range(first, first + BLOCK)))
    assert sum(one.death_count for one in worlds) > BLOCK
    assert sum(one.manager_death_count for one in worlds) > 0
    assert sum(one.stopped_count for one in worlds) > BLOCK, "hardly a unit was ended"


# ---------------------------------------------------------------- the laws can fail


def _units_end_under_their_tasks(patch: pytest.MonkeyPatch) -> None:
    def stop_at_once(self: Manager, running: list[str], *arguments: object) -> None:
        self.stopped.update(self.retiring)
        self.retiring.clear()

    patch.setattr(Manager, "_stop_empty_units", stop_at_once)


def _retired_workers_are_given_tasks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scaler, "_retire", lambda self, workers: None)
    patch.setattr(Manager, "may_not_work", lambda self, unit_id: False)
    # Units end while there is work: else most are named long after the last task.
    patch.setattr(Worker, "may_leave", lambda self, now: not self.held)


def _managers_end_what_is_too_much(patch: pytest.MonkeyPatch) -> None:
    handle = ManagerCore.handle

    def eager(self: ManagerCore, event: Event, now: float) -> list[Action]:
        actions = handle(self, event, now)
        running = [unit for unit in self.units.values() if unit.state is State.RUNNING]
        if self._target is not None and len(running) * self._workers_per_unit > self._target.worker_count:
            actions += self._stop(running[-1])
        return actions

    patch.setattr(ManagerCore, "handle", eager)


def _a_target_outlives_its_session(patch: pytest.MonkeyPatch) -> None:
    def opened(self: ManagerCore, event: Event, now: float) -> list[Action]:
        self._has_session, self._told = True, None
        return []

    patch.setattr(ManagerCore, "_on_opened", opened)
    patch.setattr(ManagerCore, "_on_lost", lambda self, event, now: [])


def _units_are_never_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Manager, "_stop_empty_units", lambda self, *arguments: None)


def _units_that_are_to_end_go_on(patch: pytest.MonkeyPatch) -> None:
    handle = ManagerCore.handle

    def deaf(self: ManagerCore, event: Event, now: float) -> list[Action]:
        return [action for action in handle(self, event, now) if not isinstance(action, StopUnit)]

    patch.setattr(ManagerCore, "handle", deaf)


def _what_starts_does_not_count(patch: pytest.MonkeyPatch) -> None:
    follow = ManagerCore._follow_target

    def double(self: ManagerCore, now: float) -> list[Action]:
        actions = follow(self, now)
        return [*actions, self._start()] if actions else actions

    patch.setattr(ManagerCore, "_follow_target", double)


def _more_is_wanted_than_there_may_be(patch: pytest.MonkeyPatch) -> None:
    next_target = Manager.next_target

    def greedy(self: Manager) -> ManagerTarget | None:
        self.goal += 1
        return next_target(self)

    patch.setattr(Manager, "next_target", greedy)


def _a_recovering_scheduler_is_always_due(patch: pytest.MonkeyPatch) -> None:
    """It would spin until its recovery is over."""
    next_deadline = SchedulerCore.next_deadline

    def due(self: SchedulerCore) -> float | None:
        at = next_deadline(self)
        return self._scaler.look_at if at is None else min(at, self._scaler.look_at)

    patch.setattr(SchedulerCore, "next_deadline", due)


@each_broken_core(
    _units_end_under_their_tasks,
    _retired_workers_are_given_tasks,
    _managers_end_what_is_too_much,
    _a_target_outlives_its_session,
    _units_are_never_ended,
    _units_that_are_to_end_go_on,
    _what_starts_does_not_count,
    _more_is_wanted_than_there_may_be,
    _a_recovering_scheduler_is_always_due,
)
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    expect_caught(ManagedWorld, 2 * SEEDS, AssertionError)
