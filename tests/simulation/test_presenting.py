"""The scheduler dies, and nothing begins twice; and the law is able to fail: each broken core is caught."""

from __future__ import annotations

import pytest

from scaler_protocol.holding.kept_ends import KeptEnds
from scaler_protocol.holding.presenting import Presenting
from scaler_protocol.ids import PeerId
from scaler_scheduler.core.succession import presenting as adopting
from scaler_scheduler.core.succession.confirming import Confirmer
from scaler_scheduler.core.succession.keeping import Keeper
from scaler_scheduler.core.succession.recovering import Recovery
from scaler_scheduler.core.tables.presentation import Presentation
from scaler_worker.core import presenting
from scaler_worker.core.tables import Tables
from tests.simulation.deaths import DrainingWorld, HarshWorld, LateWorld, OftenDeadWorld, TwiceDeadWorld
from tests.simulation.laws import Break, each_broken_core, expect_caught, played
from tests.simulation.presenting import PresentingWorld
from tests.support.chaos import IS_FULL

SEEDS = 60
BLOCK = 12 if IS_FULL else 6
#: each with its seeds; some 10,000 deaths: `python -m tests.simulation --world harsh --seeds 2400`, half an hour
WORLDS = (PresentingWorld, PresentingWorld, TwiceDeadWorld, DrainingWorld, HarshWorld, LateWorld)


@pytest.mark.parametrize(("number", "world"), list(enumerate(WORLDS)))
def test_seeds(number: int, world: type[PresentingWorld]) -> None:
    first = BLOCK * number
    worlds = list(played(world, range(first, first + BLOCK)))
    assert sum(one.death_count for one in worlds) > 2 * BLOCK


def test_most_schedulers_die_before_all_peers_have_found_them() -> None:
    assert all(world.death_count > 10 for world in played(OftenDeadWorld, range(7, 10)))


def _presented_tasks_are_not_adopted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(adopting, "match", lambda *arguments: None)


def _clients_are_not_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "client_came", lambda *arguments: None)


def _ended_tasks_are_not_presented(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Presenting, "_ends", lambda self, tasks, results: [])


def _results_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptEnds, "add", lambda self, message, rows: None)


def _results_of_nodes_are_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Keeper, "_tell", lambda self, ids: None)


def _there_is_one_worker(patch: pytest.MonkeyPatch) -> None:
    """As it is told; there are up to four."""
    tell = Confirmer._tell_count
    patch.setattr(Confirmer, "_tell_count", lambda self, count: tell(self, min(count, 1)))


def _workers_drop_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(presenting, "lost", lambda tables, event, now: _drop(tables, now))


def _drop(tables: Tables, now: float) -> None:
    presenting._forget_session(tables)
    presenting.drop_all(tables, now)


def _untold_results_count_as_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Confirmer, "_is_told", lambda *arguments: True)


def _former_names_keep_nothing_for_ended_tasks(patch: pytest.MonkeyPatch) -> None:
    def taken(self: Presentation) -> list[tuple[PeerId, bytes]]:
        running = {one.owner for one in self.tasks.values() if not one.is_ended} | {*self.owners.values()}
        return [(owner, self.departed.pop(owner)) for owner in [*self.departed] if owner not in running]

    patch.setattr(Presentation, "take_departed", taken)


def _drained_workers_leave_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tables, "is_drained", lambda tables: not tables.tasks)


@pytest.mark.parametrize(
    ("break_it", "world", "telling"),
    [
        (_untold_results_count_as_delivered, TwiceDeadWorld, 25),
        (_drained_workers_leave_at_once, DrainingWorld, 0),
        (_former_names_keep_nothing_for_ended_tasks, LateWorld, 12),
    ],
    ids=["untold_results_count_as_delivered", "drained_workers_leave_at_once", "former_names_keep_nothing"],
)
def test_a_broken_core_is_caught_when_more_happens(
    break_it: Break, world: type[PresentingWorld], telling: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    expect_caught(world, SEEDS, first=telling)


@each_broken_core(
    _presented_tasks_are_not_adopted,
    _clients_are_not_held,
    _ended_tasks_are_not_presented,
    _results_are_not_kept,
    _results_of_nodes_are_not_told,
    _there_is_one_worker,
    _workers_drop_everything,
)
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    expect_caught(PresentingWorld, SEEDS)
