"""Seeds hold every law, two hundred in `make night`; and the laws can fail: each broken core is caught in a few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from scaler_protocol.messages import ReleaseOwner
from scaler_protocol.session import Lost, Rejected
from scaler_scheduler.core.ending import cut_off
from scaler_scheduler.core.entities.workers import LoadIndex
from scaler_scheduler.core.peers import membership
from scaler_scheduler.core.tables.families import Families
from scaler_scheduler.core.tables.ready import ReadyQueue
from scaler_scheduler.core.tables.tables import Tables
from tests.simulation.__main__ import run_seed
from tests.simulation.nodes import Port
from tests.simulation.rolling import RollingWorld
from tests.simulation.servers import SchedulerNode
from tests.simulation.world import World
from tests.support.chaos import IS_FULL

SEEDS = 200 if IS_FULL else 80
BLOCK = 20


@pytest.mark.timeout(480)  # a large world may take half a minute of computing
@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_seeds(first: int) -> None:
    for seed in range(first, first + BLOCK):
        report, world, error = run_seed(seed)
        assert report is not None, f"seed {seed}\n" + "\n".join(list(world.transcript)[-60:]) + f"\n{error}"


@pytest.mark.parametrize("seed", range(12))
def test_a_rolling_upgrade_reruns_nothing(seed: int) -> None:
    RollingWorld(seed).run()


def test_a_seed_tells_one_story() -> None:
    transcripts = []
    for _ in range(2):
        world = World(5)
        world.run()
        transcripts.append(list(world.transcript))
    assert transcripts[0] == transcripts[1]


def test_a_node_that_is_rejected_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this seed the storage rejects every Hello of a scheduler that has no other peer id, for most of the run."""
    seen: Counter[str] = Counter()
    made = Port.__init__

    def made_with_one_id(self: Port, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **{**options, "is_renamed": False})

    monkeypatch.setattr(Port, "__init__", made_with_one_id)
    redial, turn = Port.redial, SchedulerNode.round

    def counted_redial(self: Port, event: Lost | Rejected) -> None:
        seen[type(event).__name__] += 1
        redial(self, event)

    def counted_round(self: SchedulerNode, now: float) -> None:
        seen["rounds"] += 1
        turn(self, now)

    monkeypatch.setattr(Port, "redial", counted_redial)
    monkeypatch.setattr(SchedulerNode, "round", counted_round)
    monkeypatch.setattr(World, "_check_nothing_is_left", lambda self: None)  # no scheduler reaches the storage
    report = World(2).run()
    assert seen["Rejected"] > 0
    assert seen["rounds"] < 2 * report.messages


# ---------------------------------------------------------------- the laws can fail

Break = Callable[[pytest.MonkeyPatch], None]


def _lost_tasks_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(membership, "_lose", lambda *arguments, **keywords: None)


def _credit_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LoadIndex, "room", lambda self, worker: 5)


def _owners_are_never_released(patch: pytest.MonkeyPatch) -> None:
    act = Tables.act

    def without_release(self: Tables, action: object) -> None:
        if not isinstance(getattr(action, "message", None), ReleaseOwner):
            act(self, action)  # type: ignore[arg-type]

    patch.setattr(Tables, "act", without_release)


def _results_are_delivered_twice(patch: pytest.MonkeyPatch) -> None:
    deliver = Tables.deliver

    def twice(self: Tables, client: object, row: object) -> None:
        deliver(self, client, row)  # type: ignore[arg-type]
        self._flush_rows(client.peer_id)  # type: ignore[attr-defined]
        deliver(self, client, row)  # type: ignore[arg-type]

    patch.setattr(Tables, "deliver", twice)


def _canceled_tasks_are_not_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReadyQueue, "hold", lambda self, client: setattr(client, "is_held", True))


def _children_of_canceled_tasks_begin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Families, "may_not_begin", lambda self, chunk: False)


def _workers_that_were_cut_off_rest_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cut_off, "settle", lambda tables, now: None)
    patch.setattr(cut_off, "next_deadline", lambda tables: None)


BREAKS = [
    _lost_tasks_are_forgotten, _credit_is_ignored, _owners_are_never_released, _results_are_delivered_twice,
    _canceled_tasks_are_not_held, _children_of_canceled_tasks_begin,
    _workers_that_were_cut_off_rest_for_ever,
]  # fmt: skip


#: Those that catch one come first, so that a broken core costs a second and not a minute.
CATCHING = (0, 3, 10, 34)
TRIED = (*CATCHING, *(seed for seed in range(40) if seed not in CATCHING))


@pytest.mark.parametrize("break_it", BREAKS, ids=lambda break_it: break_it.__name__.strip("_"))
def test_a_broken_core_is_caught(break_it: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch)
    assert any(run_seed(seed)[0] is None for seed in TRIED), "no seed noticed"
