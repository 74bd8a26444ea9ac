"""No message of the scheduler stops the adapter for long: the worst of each kind, with as many tasks as it may hold.

Steps are instructions of the interpreter, counted: some fifty to a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.holder_story import CLIENT, FUNCTION, SCHEDULER, ids
from tests.support.steps import steps_of
from tests.support.symphony_story import Story

from scaler_protocol import codes
from scaler_protocol.columns import join_u32
from scaler_protocol.messages import Cancel, Dispatch, Message, Recall, Shutdown, TaskHeader
from scaler_protocol.session import Lost, Received

PLACES = 100
COUNT = PLACES + 1_000
"""A thousand is the default of `--worker-task-queue-size`, beyond which no credit is given."""
MOST_STEPS = 400_000
"""Of one turn: eight milliseconds, as for the scheduler."""
TASKS = ids(*range(1, COUNT + 1))


def start() -> Story:
    story = Story(PLACES).start()
    story._check = lambda: None  # it looks at every task
    return story


def filled() -> Story:
    story = start()
    story.receive(dispatch())
    return story


def dispatch() -> Dispatch:
    return Dispatch(TaskHeader(client=CLIENT), FUNCTION, TASKS, b"x" * COUNT, join_u32([1] * COUNT))


def turn_of(story: Story, event: object) -> int:
    return steps_of(story.step, event)


@pytest.mark.parametrize(
    ("prepare", "message"),
    (
        (start, dispatch()),
        (start, Cancel(TASKS)),
        (filled, Cancel(TASKS)),
        (filled, Recall(TASKS)),
        (filled, Shutdown()),
    ),
    ids=("dispatch", "cancel-unknown", "cancel", "recall", "shutdown"),
)
def test_no_turn_is_long(prepare: Callable[[], Story], message: Message) -> None:
    steps = turn_of(prepare(), Received(SCHEDULER, 9, message))
    assert 1_000 < steps <= MOST_STEPS, f"{steps} steps in one turn"


def test_the_loss_of_the_scheduler_is_no_long_turn() -> None:
    assert turn_of(filled(), Lost(SCHEDULER, codes.LEASE_EXPIRED, "silent", False)) <= MOST_STEPS
