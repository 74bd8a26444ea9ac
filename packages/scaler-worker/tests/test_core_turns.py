"""No message of the scheduler stops the agent for long: the worst of each kind, with as many tasks as it may hold."""

from __future__ import annotations

import pytest
from tests.support.holder_turns import MESSAGES, MOST_STEPS, steps_of_loss, steps_of_message
from tests.support.worker_story import Story

PLACES = 1


@pytest.mark.parametrize("name", MESSAGES)
def test_no_turn_is_long(name: str) -> None:
    steps = steps_of_message(name, Story().start(), PLACES)
    assert 1_000 < steps <= MOST_STEPS, f"{steps} steps in one turn"


@pytest.mark.parametrize("name", ["cancel-unknown", "cancel", "recall"])
def test_a_long_queue_makes_no_turn_long(name: str) -> None:
    """A queue may be longer than the default. Our scheduler names 1,024 of its tasks at a time. (LIM-23)"""
    assert steps_of_message(name, Story().start(), places=9_000, named=1_024) <= MOST_STEPS


def test_the_loss_of_the_scheduler_is_no_long_turn() -> None:
    assert steps_of_loss(Story().start(), PLACES) <= MOST_STEPS
