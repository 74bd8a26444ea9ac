"""Two schedulers; and the laws are able to fail: each broken core is caught."""

from __future__ import annotations

import pytest

from scaler_scheduler.core.succession.recovering import Recovery
from scaler_scheduler.core.succession.succession import State, Succession
from scaler_scheduler.standby import Standby
from tests.simulation.laws import Break, each_broken_core, expect_caught, played
from tests.simulation.standby import StandbyWorld, TakeOverWorld

SEEDS = 16
BLOCK = 8


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_seeds(first: int) -> None:
    worlds = list(played(StandbyWorld, range(first, first + BLOCK)))
    assert any(world.both_count for world in worlds), "in none of them both have served, each with peers"
    assert all(world.change_count for world in worlds)


@pytest.mark.parametrize("lease_seconds", [0.5, 1.0, 2.0, 3.0, 5.0])
def test_a_standby_serves_within_its_lease(lease_seconds: float) -> None:  # SCH-80
    """From when the other one is gone, with each lease that may be chosen. A network may be late by 20 ms here."""
    for world in played(lambda seed: TakeOverWorld(seed, lease_seconds), range(2 * len(TakeOverWorld.WAYS))):
        seconds = world.took_over_at - world.gone_at
        assert 0.5 * lease_seconds < seconds < lease_seconds + 0.1, (world.way, seconds)


def _a_standby_lets_peers_in(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Standby, "turned_away", lambda self, hello: None)


def _two_that_serve_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Succession, "_compare", lambda self, other, own_generation: None)


def _a_standby_does_not_heed_the_other(patch: pytest.MonkeyPatch) -> None:
    def broken(self: Succession, now: float) -> None:
        if self.is_waiting and (self.is_linked or now >= self.serve_at):
            self.state = State.SERVING

    patch.setattr(Succession, "tick", broken)


def _a_scheduler_that_follows_does_not_wait_for_workers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "client_came", lambda *arguments: None)


@each_broken_core(
    _a_standby_lets_peers_in,
    _two_that_serve_go_on,
    _a_standby_does_not_heed_the_other,
    _a_scheduler_that_follows_does_not_wait_for_workers,
)
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    expect_caught(StandbyWorld, SEEDS)
