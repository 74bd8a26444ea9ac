"""When all has ended the storage is empty, also of what was left by clients that no scheduler knows any more."""

from __future__ import annotations

import pytest

from scaler_scheduler.core.peers import live_owners
from tests.simulation.laws import Break, each_broken_core, expect_caught, played
from tests.simulation.vanishing import VanishingWorld

SEEDS = 24
BLOCK = 12


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_seeds(first: int) -> None:
    assert len(list(played(VanishingWorld, range(first, first + BLOCK)))) == BLOCK


def _clients_are_not_named(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(live_owners.Namer, "storage_opened", lambda self, now, *, takes_namings: None)


def _no_client_is_said_to_live(patch: pytest.MonkeyPatch) -> None:
    parts = live_owners._parts
    patch.setattr(live_owners, "_parts", lambda owners, request_ids: parts((), request_ids))


@each_broken_core(
    _clients_are_not_named,
    _no_client_is_said_to_live,
)
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    expect_caught(VanishingWorld, SEEDS, AssertionError)
