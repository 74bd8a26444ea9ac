"""A task that its processor does not begin goes elsewhere, without counting a death or time (WRK-66)."""

from __future__ import annotations

import pytest
from tests.support.holder_story import results, sent
from tests.support.worker_story import Story, handed

from scaler_protocol.codes import STATUS_PROCESSOR_DIED, STATUS_SUCCESS
from scaler_protocol.messages import Results, Returned
from scaler_worker.core.actions import Interrupt, KillProcessor, StartProcessor
from scaler_worker.core.beginning import BEGIN_SECONDS
from scaler_worker.core.events import BegunSeen, DrainRequested, ProcessorExited, ProcessorReady


@pytest.fixture
def story() -> Story:
    """Returns a story in which one task has ended, and has left something behind that holds the processor up. `hold_up`
    hands the next task to that processor."""
    story = Story().start()
    story.dispatch(1)
    story.end(1, 1)
    return story


def hold_up(story: Story, **header: object) -> None:
    story.dispatch(2, **header)
    assert story.step(BegunSeen(1, story.number() - 1, story.now - 1.0)) == []


def test_a_task_that_is_not_begun_goes_to_another_processor(story: Story) -> None:
    hold_up(story)
    assert story.processor(1).has_not_begun
    actions = story.step(BegunSeen(1, story.number() - 1, 0.0), after=BEGIN_SECONDS)
    assert KillProcessor(1) in actions and StartProcessor(2) in actions
    story.step(ProcessorExited(1, -9))
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [2]}
    assert results(story.end(2, 2)) == {2: STATUS_SUCCESS}


def test_one_that_is_begun_late_runs_from_then_on(story: Story) -> None:
    hold_up(story, timeout_seconds=2.0)
    begun_at = story.now + 1.5
    actions = story.step(BegunSeen(1, story.number(), begun_at), after=2.1)
    assert Interrupt(1, story.number()) not in actions, "its time began later"
    assert not story.processor(1).has_not_begun and story.processor(1).first_since == begun_at
    assert Interrupt(1, story.number()) in story.step(after=begun_at + 2.0 - story.now)


def test_its_timeout_does_not_count_while_it_is_not_begun(story: Story) -> None:
    hold_up(story, timeout_seconds=1.0)
    assert Interrupt(1, story.number()) not in story.step(BegunSeen(1, story.number() - 1, 0.0), after=3.0)
    assert story.core.next_deadline() == story.now + 1.0


def test_a_processor_that_exits_between_two_tasks_has_not_lost_the_second(story: Story) -> None:
    hold_up(story)
    actions = story.step(ProcessorExited(1, 3))
    assert not sent(actions, Results) and story.queued() == [2]


def test_one_that_has_begun_it_has(story: Story) -> None:
    hold_up(story)
    story.step(BegunSeen(1, story.number(), story.now))
    assert results(story.step(ProcessorExited(1, 3))) == {2: STATUS_PROCESSOR_DIED}


def test_what_ends_a_processor_before_its_very_first_task_counts() -> None:
    """It may be the handing over itself: then the task would go on for ever from one processor to the next."""
    story = Story().start()
    story.dispatch(1)
    story.step(BegunSeen(1, 0, 0.0))
    assert results(story.step(ProcessorExited(1, 3))) == {1: STATUS_PROCESSOR_DIED}


def test_a_worker_that_drains_gives_back_what_is_not_begun(story: Story) -> None:
    hold_up(story)
    story.step(DrainRequested(60.0))
    actions = story.step(BegunSeen(1, story.number() - 1, 0.0), after=BEGIN_SECONDS)
    assert [len(message.ids) for message in sent(actions, Returned)] == [16]


def test_an_end_that_is_on_its_way_is_no_wait(story: Story) -> None:
    """The page shows the task after it already, of the same slice."""
    hold_up(story)
    story.step(BegunSeen(1, story.number() + 1, story.now), after=2 * BEGIN_SECONDS)
    assert not story.processor(1).has_not_begun
