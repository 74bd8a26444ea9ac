"""Graphs survive the deaths of their scheduler, and what of them has ended is not run again."""

from __future__ import annotations

import pytest

from scaler.client.core import knowledge, remaining
from scaler.client.core.records import Graph
from scaler_scheduler.core.succession import keeping
from tests.simulation.laws import Break, each_broken_core, expect_caught, played
from tests.simulation.restarts import RestartsWorld
from tests.support.chaos import IS_FULL

SEEDS = 60
BLOCK = 12


@pytest.mark.parametrize("first", range(0, SEEDS if IS_FULL else 2 * BLOCK, BLOCK))
def test_seeds(first: int) -> None:
    given = sum(world.given_count for world in played(RestartsWorld, range(first, first + BLOCK)))
    assert given > 0, "in none of these worlds was there anything to give to a successor"


def _given_nodes_are_submitted_too(patch: pytest.MonkeyPatch) -> None:
    rows_left = remaining._rows_left
    patch.setattr(remaining, "_rows_left", lambda batches, needed, known, given: rows_left(batches, needed, {}, given))


def _lost_objects_stay_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(knowledge.Knowledge, "lose", lambda self, graphs, objects: None)


def _objects_are_not_claimed(patch: pytest.MonkeyPatch) -> None:
    def without_claims(graph: Graph) -> list[object]:
        return []

    patch.setattr("scaler.client.core.core.claims_of", without_claims)


def _given_results_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(keeping, "restore", lambda *arguments: None)


#: Few seeds show that these are broken.
TELLING = {_lost_objects_stay_known: 31, _objects_are_not_claimed: 9}


@each_broken_core(
    _given_nodes_are_submitted_too,
    _lost_objects_stay_known,
    _objects_are_not_claimed,
    _given_results_are_not_kept,
)
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    expect_caught(RestartsWorld, SEEDS, first=TELLING.get(break_it, 0))
