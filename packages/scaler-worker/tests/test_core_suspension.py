"""Hard suspension: the process of a blocked task stands still while a deeper one runs in its place."""

from __future__ import annotations

import pytest
from tests.support.worker_story import Story, handed

from scaler_protocol.messages import Cancel
from scaler_worker.core.actions import Interrupt, KillProcessor, Suspend, Unsuspend
from scaler_worker.core.events import ResumeWanted
from scaler_worker.core.suspension import ASLEEP_SECONDS, AWAKE_SECONDS


@pytest.fixture
def story() -> Story:
    """Task 1 waits for task 2, which runs one level deeper in its place."""
    story = Story(suspends_hard=True).start()
    story.dispatch(1)
    story.block(1, spare=2)
    actions = story.dispatch(2, depth=1)
    assert handed(actions) == {2: [2]} and Suspend(1) in actions
    return story


def test_it_is_woken_when_no_deeper_task_runs(story: Story) -> None:
    assert Unsuspend(1) in story.end(2, 2)
    story.step(ResumeWanted(1))
    assert not any(isinstance(action, Suspend) for action in story.end(1, 1))


def test_it_is_woken_every_second_for_a_moment(story: Story) -> None:
    assert story.core.next_deadline() == pytest.approx(story.now + ASLEEP_SECONDS)
    assert story.step(after=ASLEEP_SECONDS) == [Unsuspend(1)]
    assert story.step() == [], "it stays awake for the moment"
    assert story.step(after=AWAKE_SECONDS) == [Suspend(1)]


def test_it_is_woken_to_be_canceled(story: Story) -> None:
    actions = story.receive(Cancel((1).to_bytes(16, "big"), grace_seconds=1.0))
    assert Interrupt(1, story.number(1)) in actions and Unsuspend(1) in actions
    assert KillProcessor(1) in story.step(after=1.0)


def test_a_task_of_the_same_depth_lets_it_be(story: Story) -> None:
    assert Unsuspend(1) in story.end(2, 2)
    assert not any(isinstance(action, Suspend) for action in story.dispatch(3))


def test_nobody_is_suspended_unasked() -> None:
    story = Story().start()
    story.dispatch(1)
    story.step()
    story.block(1, spare=2)
    assert not any(isinstance(action, Suspend) for action in story.dispatch(2, depth=1))
