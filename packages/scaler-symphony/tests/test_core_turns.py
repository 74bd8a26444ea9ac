"""No message of the scheduler stops the adapter for long: the worst of each kind, with as many tasks as it may hold."""

from __future__ import annotations

import pytest
from tests.support.holder_story import SCHEDULER
from tests.support.holder_turns import MESSAGES, MOST_STEPS, steps_of_loss, steps_of_message
from tests.support.presenting_story import LOST, opened
from tests.support.steps import steps_of
from tests.support.symphony_story import Story

from scaler_protocol.messages import NO_PEER

PLACES = 100


@pytest.mark.parametrize("name", MESSAGES)
def test_no_turn_is_long(name: str) -> None:
    steps = steps_of_message(name, Story(PLACES).start(), PLACES)
    assert 1_000 < steps <= MOST_STEPS, f"{steps} steps in one turn"


def test_the_loss_of_the_scheduler_is_no_long_turn() -> None:
    assert steps_of_loss(Story(PLACES).start(), PLACES) <= MOST_STEPS


def test_presenting_all_tasks_is_no_long_turn() -> None:
    story = Story(PLACES).start()
    story.step(LOST, opened(SCHEDULER, NO_PEER))
    assert steps_of_loss(story, PLACES) <= MOST_STEPS
    assert 1_000 < steps_of(story.step, opened()) <= MOST_STEPS
