"""The laws of a session, over a link that does its worst (SES-2, SES-10, SES-18, SES-33, LIV-4, LIV-11)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.session_link import World

#: How often each operation is drawn: progress must be common, or nothing is ever in flight when a fault strikes.
WEIGHTS = {
    "wait": 3,
    "poll_dialer": 6,
    "poll_server": 6,
    "say_up": 4,
    "say_down": 3,
    "work": 4,
    "drop": 2,
    "repeat": 1,
    "cut": 1,
    "hide": 1,
    "restart": 0.5,
    "stall": 0.5,
    "hold_back": 2,
}

_OPERATIONS = [name for name, weight in WEIGHTS.items() for _ in range(int(2 * weight))]
_step = st.tuples(st.sampled_from(_OPERATIONS), st.integers(0, 7), st.integers(0, 7))


@settings(max_examples=60, deadline=None)
@given(dialer_count=st.integers(1, 3), steps=st.lists(_step, min_size=30, max_size=120))
def test_every_session_delivers_exactly_once_and_in_order(dialer_count: int, steps: list[tuple[str, int, int]]) -> None:
    """Short stories that hypothesis can make shorter."""
    world = World(dialer_count)
    for name, a, b in steps:
        world.do(name, a, b)
    world.calm_down()


@pytest.mark.parametrize("seed", range(100))
def test_long_stories_from_a_seed(seed: int) -> None:
    """Faults in combinations that need a long run-up."""
    chance = random.Random(seed)
    world = World(chance.choice([1, 2, 2, 3]))
    for _ in range(chance.randrange(50, 250)):
        name = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        world.do(name, chance.randrange(8), chance.randrange(8))
    world.calm_down()


def test_a_calm_link_opens_one_session_and_keeps_it() -> None:
    world = World(3)
    for _ in range(50):
        for node in world.nodes:
            node.say()
        world.do("work", 0, 0)
        world.now += 1.0
    world.calm_down()
    for node in world.nodes:
        assert node.core.generation == 1, "nothing failed, so nobody dialed twice"
        assert node.side.story.count("Opened") == 1


def test_a_server_that_was_stopped_loses_nobody_who_kept_dialing() -> None:
    """Its own clock jumps beyond every lease; what the dialers said meanwhile counts before their silence does."""
    world = World(2)
    world.do("work", 0, 0)
    world.do("work", 0, 0)
    for node in world.nodes:
        node.say()
    world.now += 30.0
    world.server.poll(world.now, most=0)  # it wakes, and its network is a moment behind
    world.server.core.expire(world.now)
    world.server.poll(world.now, most=1000)
    assert [side.story.count("Lost") for side in world.server.sides.values()] == [0, 0]
