"""When all has ended the storage is empty, also of what was left by clients that no scheduler knows any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scaler_scheduler.core import live_owners
from tests.simulation.vanishing import VanishingWorld

SEEDS = 24
BLOCK = 12


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_seeds(first: int) -> None:
    for seed in range(first, first + BLOCK):
        world = VanishingWorld(seed)
        try:
            world.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}\n" + "\n".join(list(world.transcript)[-60:])) from error


def _clients_are_not_named(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(live_owners.Namer, "storage_opened", lambda self, now, *, takes_namings: None)


def _no_client_is_said_to_live(patch: pytest.MonkeyPatch) -> None:
    parts = live_owners._parts
    patch.setattr(live_owners, "_parts", lambda owners, request_ids: parts((), request_ids))


@pytest.mark.parametrize(
    "break_it",
    [_clients_are_not_named, _no_client_is_said_to_live],
    ids=lambda break_it: break_it.__name__.strip("_"),
)
def test_a_broken_core_is_caught(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(SEEDS):
            VanishingWorld(seed).run()
