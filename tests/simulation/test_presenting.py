"""The scheduler dies, and nothing begins twice; and the law is able to fail: each broken core is caught."""

from __future__ import annotations

import pytest

from scaler_protocol.holding.kept_ends import KeptEnds
from scaler_scheduler.core import presenting as adopting
from scaler_scheduler.core.confirming import Confirmer
from scaler_scheduler.core.recovering import Recovery
from scaler_worker.core import presenting
from scaler_worker.core.tables import Tables
from tests.simulation.laws import Break, each_broken_core, expect_caught, played
from tests.simulation.presenting import PresentingWorld

SEEDS = 60
BLOCK = 12


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_seeds(first: int) -> None:
    assert len(list(played(PresentingWorld, range(first, first + BLOCK)))) == BLOCK


def _presented_tasks_are_not_adopted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(adopting, "match", lambda *arguments: None)


def _clients_are_not_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "client_came", lambda *arguments: None)


def _ended_tasks_are_not_presented(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(presenting, "_ends", lambda tables: [])


def _results_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptEnds, "add", lambda self, message: None)


def _there_is_one_worker(patch: pytest.MonkeyPatch) -> None:
    """As it is told; there are up to four."""
    tell = Confirmer._tell_count
    patch.setattr(Confirmer, "_tell_count", lambda self, count: tell(self, min(count, 1)))


def _workers_drop_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(presenting, "lost", lambda tables, event, now: _drop(tables, now))


def _drop(tables: Tables, now: float) -> None:
    presenting._forget_session(tables)
    presenting.drop_all(tables, now)


@each_broken_core(
    _presented_tasks_are_not_adopted,
    _clients_are_not_held,
    _ended_tasks_are_not_presented,
    _results_are_not_kept,
    _there_is_one_worker,
    _workers_drop_everything,
)
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    expect_caught(PresentingWorld, SEEDS)
