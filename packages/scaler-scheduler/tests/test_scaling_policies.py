"""The scaling policies, as properties: whatever there is and whatever is to do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from scaler_protocol.ids import PeerId
from scaler_protocol.messages import Capability
from scaler_scheduler.core.entities.requirements import offers
from scaler_scheduler.core.policy import CAPABILITY, NONE, VANILLA, WATERFALL, Scaling, Tier
from scaler_scheduler.core.scaling.pace import Pace
from scaler_scheduler.core.scaling.policies import Demand, Source, wanted

NAMES = ("gpu", "linux", "big")
GPU = (Capability("gpu", 1),)

capabilities = st.dictionaries(st.sampled_from(NAMES), st.integers(-1, 4), max_size=3)
requirements = st.dictionaries(st.sampled_from(NAMES), st.integers(-1, 4), max_size=2).map(
    lambda chosen: tuple(Capability(name, amount) for name, amount in sorted(chosen.items()))
)
demands = st.lists(st.builds(Demand, requirements, st.integers(0, 30)), max_size=4)


@st.composite
def source_lists(draw: Any) -> list[Source]:
    return [
        Source(
            PeerId(bytes([number]) * 16),
            f"m{number}",
            draw(capabilities),
            draw(st.integers(0, 20)),
            draw(st.integers(1, 4)),
            draw(st.integers(0, 5)),
            draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 4)))
    ]


def scalings() -> Any:
    tiers = st.lists(st.builds(Tier, st.integers(0, 5), st.sampled_from(["m0", "m1", "m9"]), st.integers(-1, 10)))
    unique = tiers.map(lambda many: tuple({tier.manager_name: tier for tier in many}.values()))
    return st.builds(Scaling, st.sampled_from([NONE, VANILLA, CAPABILITY, WATERFALL]), unique)


@given(scalings(), demands, st.lists(capabilities, max_size=5), source_lists())
def test_every_manager_has_a_number_it_can_reach(
    scaling: Scaling, asked: list[Demand], own: list[dict[str, int]], sources: list[Source]
) -> None:
    counts = wanted(scaling, asked, own, sources)
    assert list(counts) == [source.peer_id for source in sources]
    for source in sources:
        if scaling.policy != NONE:
            assert 0 <= counts[source.peer_id] <= max(source.max_workers, source.present)
            assert counts[source.peer_id] % source.workers_per_unit == 0, "units come whole"
            assert not (source.is_troubled and counts[source.peer_id] > source.present), "who cannot start is not asked"


@given(demands, st.lists(capabilities, max_size=5), source_lists())
def test_no_more_workers_than_are_of_use(asked: list[Demand], own: list[dict[str, int]], sources: list[Source]) -> None:
    """But for the rest of a unit at each manager."""
    counts = wanted(Scaling(CAPABILITY), asked, own, sources)
    spare = sum(source.workers_per_unit - 1 for source in sources)
    assert sum(counts.values()) <= sum(demand.worker_count for demand in asked) + spare


@given(demands, source_lists())
def test_nobody_is_asked_for_what_he_cannot_bring(asked: list[Demand], sources: list[Source]) -> None:
    counts = wanted(Scaling(CAPABILITY), asked, [], sources)
    for source in sources:
        if not any(offers(source.offer, demand.requirement) for demand in asked if demand.worker_count):
            assert counts[source.peer_id] == 0


@given(st.integers(0, 40), source_lists(), st.permutations(range(4)))
def test_a_waterfall_fills_the_first_before_the_second(count: int, sources: list[Source], order: list[int]) -> None:
    tiers = tuple(Tier(priority, f"m{number}") for number, priority in enumerate(order))
    counts = wanted(Scaling(WATERFALL, tiers), [Demand((), count)], [], sources)
    turn = sorted(range(len(sources)), key=lambda number: order[number])
    for earlier, later in pairwise(turn):
        if counts[sources[later].peer_id]:
            assert counts[sources[earlier].peer_id] == sources[earlier].room


@given(st.integers(0, 30), st.integers(0, 30), source_lists())
def test_more_work_never_means_fewer_workers(count: int, more: int, sources: list[Source]) -> None:
    few = wanted(Scaling(VANILLA), [Demand((), count)], [], sources)
    many = wanted(Scaling(VANILLA), [Demand((), count + more)], [], sources)
    assert all(many[peer_id] >= number for peer_id, number in few.items())


def test_own_workers_count_first() -> None:
    source = Source(PeerId(b"m" * 16), "m", {"gpu": 2}, 10, 1, 0)
    asked = [Demand((), 3), Demand(GPU, 2)]
    assert wanted(Scaling(CAPABILITY), asked, [{}, {}, {"gpu": 1}], [source]) == {source.peer_id: 2}


@pytest.mark.parametrize("limit, expected", [(-1, 10), (4, 4)])
def test_a_tier_may_have_a_limit_of_its_own(limit: int, expected: int) -> None:
    source = Source(PeerId(b"m" * 16), "grid", {}, 10, 1, 0)
    assert wanted(Scaling(WATERFALL, (Tier(1, "grid", limit),)), [Demand((), 99)], [], [source]) == {
        source.peer_id: expected
    }


def test_the_pace_of_long_tasks_is_one_for_each_worker() -> None:
    pace = Pace()
    for second in range(4):
        pace.look(0, 2, float(second))
    assert pace.tasks_per_worker(5.0, unmeasured=10.0) == 1.0


def test_the_pace_of_short_tasks_is_what_was_seen() -> None:
    pace = Pace()
    assert pace.tasks_per_worker(5.0, unmeasured=10.0) == 10.0
    for second in range(5):
        pace.look(second * 200, 2, float(second))
    assert pace.tasks_per_worker(5.0, unmeasured=10.0) == 500.0
