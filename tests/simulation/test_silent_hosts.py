"""The tasks of a host that vanishes are elsewhere within 5 s and a tick; one that is only slow keeps its tasks."""

from __future__ import annotations

import pytest

from scaler_protocol.session import vanishing
from scaler_protocol.session.signs import Signs
from tests.simulation.laws import Break, each_broken_core, expect_caught, played
from tests.simulation.silent_hosts import CutOffWorld, SilentWorld

SEEDS = 24
BLOCK = 12


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_seeds(first: int) -> None:
    found = [after for world in played(SilentWorld, range(first, first + BLOCK)) for after in world.found_after]
    assert found, "in none of these worlds has a host with tasks vanished"


def _only_leases_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vanishing, "_FEWEST_QUESTIONS", 1_000_000)


def _silence_of_the_process_is_enough(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vanishing.VanishedHosts, "is_gone", lambda self, session, facts, now: True)


def _half_the_time_is_enough(patch: pytest.MonkeyPatch) -> None:
    """Then a way that is cut for 3 s loses its worker."""
    patch.setattr("tests.simulation.servers.VANISHED_SECONDS", 2.5)


def _hosts_are_not_suspected(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(vanishing, "_FEWEST_QUESTIONS_FOR_SUSPICION", 1_000_000)


@each_broken_core(
    _hosts_are_not_suspected,
    _only_leases_count,
    _silence_of_the_process_is_enough,
    _half_the_time_is_enough,
)
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    expect_caught(SilentWorld, SEEDS, AssertionError)


def test_no_host_is_lost_when_the_scheduler_is_cut_off() -> None:
    for _ in played(CutOffWorld, range(4)):
        pass


def test_a_core_that_compares_no_hosts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Signs, "is_another_heard", lambda self, session, since: True)
    expect_caught(CutOffWorld, 4, AssertionError)
