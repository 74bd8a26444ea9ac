"""Where the time of tasks goes, at the agent: asked for by the scheduler, told by processors, sent with the status."""

from __future__ import annotations

import pytest
from tests.support.holder_story import OPENED, SCHEDULER
from tests.support.worker_story import Story

from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import SampleStacks
from scaler_protocol.session import Lost
from scaler_protocol.stack_trees import StackTrees, function_ids
from scaler_worker.core import actions
from scaler_worker.core.actions import KillProcessor
from scaler_worker.core.events import StacksSampled
from scaler_worker.core.stack_samples import BYTES_MAX, LATE_SECONDS, SECONDS_MAX

FUNCTION = ObjectId(b"f" * 16)


def trees(microseconds: int = 5, calls: int = 1) -> bytes:
    made = StackTrees()
    for number in range(calls):
        made.add(FUNCTION, [(f"call_{number}", "program.py", number)], microseconds)
    return made.take(1 << 20)


@pytest.fixture
def story() -> Story:
    story = Story().start()
    story.dispatch(1)
    return story


def told(story: Story) -> bytes:
    return story.core.tables.stack_samples.take()


def test_what_all_processors_tell_goes_out_together(story: Story) -> None:
    assert actions.SampleStacks(8.0) in story.receive(SampleStacks(8.0, 4_096))
    for _ in range(2):
        story.step(StacksSampled(1, trees()))
    assert told(story) == trees(10)
    assert told(story) == b"", "each time is told once"


def test_processors_that_were_not_asked_are_not_heard(story: Story) -> None:
    story.step(StacksSampled(1, trees()))
    assert told(story) == b""


def test_what_comes_late_counts_and_what_comes_later_does_not(story: Story) -> None:
    story.receive(SampleStacks(8.0, 4_096))
    story.now += 8.0 + LATE_SECONDS / 2
    story.step(StacksSampled(1, trees()))
    assert told(story) == trees()
    story.now += LATE_SECONDS
    story.step(StacksSampled(1, trees()))
    assert told(story) == b""


def test_a_worker_that_is_asked_no_more_tells_nothing(story: Story) -> None:
    story.receive(SampleStacks(8.0, 4_096))
    story.step(StacksSampled(1, trees()))
    assert actions.SampleStacks(0.0) in story.receive(SampleStacks())
    story.step(StacksSampled(1, trees()))
    assert told(story) == b""


def test_the_end_of_the_session_ends_it(story: Story) -> None:
    story.receive(SampleStacks(8.0, 4_096))
    story.step(StacksSampled(1, trees()))
    assert actions.SampleStacks(0.0) in story.step(Lost(SCHEDULER, 0, "gone", is_orderly=False))
    story.step(OPENED)
    story.step(StacksSampled(1, trees()))
    assert told(story) == b""


@pytest.mark.parametrize("limit", (500, 5_000, 2**32 - 1))
def test_no_more_bytes_than_the_scheduler_wants(story: Story, limit: int) -> None:
    story.receive(SampleStacks(8.0, limit))
    for _ in range(3):
        story.step(StacksSampled(1, trees(calls=3_000)))
    data = told(story)
    assert function_ids(data) == [FUNCTION]
    assert len(data) <= min(limit, BYTES_MAX)


@pytest.mark.parametrize(
    ("wanted", "granted"), ((1e30, SECONDS_MAX), (float("inf"), 0.0), (float("nan"), 0.0), (-1.0, 0.0))
)
def test_a_scheduler_that_wants_strange_times(story: Story, wanted: float, granted: float) -> None:
    assert actions.SampleStacks(granted) in story.receive(SampleStacks(wanted, 4_096))


def test_a_processor_that_tells_nonsense_is_killed(story: Story) -> None:
    story.receive(SampleStacks(8.0, 4_096))
    assert KillProcessor(1) in story.step(StacksSampled(1, trees()[:-1]))
