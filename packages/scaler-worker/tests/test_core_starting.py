"""A worker whose processors do not start keeps no task (WRK-65)."""

from __future__ import annotations

import pytest
from tests.support.holder_story import OPENED, ids, sent
from tests.support.worker_story import Story, handed

from scaler_protocol.messages import Credit, Returned
from scaler_worker.core.actions import KillProcessor, Log, StartProcessor, TellStatus
from scaler_worker.core.events import ProcessorExited, ProcessorReady, Started
from scaler_worker.core.starting import BACKOFF_LIMIT_SECONDS, FAILURES, PATIENCE_SECONDS, START_SECONDS

GIVEN_BACK = [Returned(ids(1, 2), is_recall_answer=False)]


@pytest.fixture
def story() -> Story:
    """Returns a story whose worker holds two tasks, while its first processor is being started."""
    story = Story()
    story.step(Started())
    story.step(OPENED)
    story.dispatch(1, 2)
    return story


def fail(story: Story, times: int) -> list[object]:
    """So many starts in a row fail."""
    actions: list[object] = []
    for _ in range(times):
        (number,) = story.core.tables.processors
        actions = [*story.step(ProcessorExited(number, 1))]
        due_at = story.core.next_deadline()
        assert due_at is not None and due_at <= story.now + BACKOFF_LIMIT_SECONDS, "it tries again before long"
        actions += story.step(after=due_at - story.now)
    return actions


def test_after_some_failures_in_a_row_its_tasks_go_back(story: Story) -> None:
    assert not sent(fail(story, FAILURES - 1), Returned), "a failure may be chance"
    actions = fail(story, 1)
    assert sent(actions, Returned) == GIVEN_BACK
    assert sent(actions, Credit) == [Credit(0, 0)], "no task comes, of any depth"
    assert TellStatus() in actions and "exited with code 1" in story.core.tables.trouble


def test_a_start_that_takes_too_long_keeps_no_task(story: Story) -> None:
    assert story.core.next_deadline() == story.now + PATIENCE_SECONDS
    actions = story.step(after=PATIENCE_SECONDS)
    assert sent(actions, Returned) == GIVEN_BACK and sent(actions, Credit) == [Credit(0, 0)]
    assert KillProcessor(1) not in actions, "a preload may take its time"


def test_a_start_that_does_not_end_is_replaced(story: Story) -> None:
    story.step(after=PATIENCE_SECONDS)
    assert KillProcessor(1) in story.step(after=START_SECONDS - PATIENCE_SECONDS)
    story.step(ProcessorExited(1, -9))
    assert StartProcessor(2) in story.step(after=BACKOFF_LIMIT_SECONDS)


@pytest.mark.parametrize("times", [FAILURES, 10])
def test_when_starting_works_again_so_does_the_worker(story: Story, times: int) -> None:
    fail(story, times)
    (number,) = story.core.tables.processors
    actions = story.step(ProcessorReady(number, 7))
    assert sent(actions, Credit) == [Credit(2, 2)] and not story.core.tables.trouble
    assert handed(story.dispatch(3)) == {number: [3]}


def test_what_comes_while_no_processor_can_be_had_goes_back_at_once(story: Story) -> None:
    """It was on its way when the credit was withdrawn."""
    fail(story, FAILURES)
    assert sent(story.dispatch(3), Returned) == [Returned(ids(3), is_recall_answer=False)]


def test_a_worker_that_joins_in_trouble_offers_nothing() -> None:
    story = Story()
    story.step(Started())
    fail(story, FAILURES)
    assert sent(story.step(OPENED), Credit) == [Credit(0, 0)]


def test_a_processor_that_is_idle_again_ends_the_trouble() -> None:
    """A spare one for a child could not be started, and the parent ends all the same."""
    story = Story().start()
    story.dispatch(1)
    story.dispatch(2, depth=1)
    spare = 2
    for _ in range(FAILURES):
        story.step(after=1.0)
        actions = story.step(ProcessorExited(spare, 11))
        spare += 1
    assert sent(actions, Returned) == [Returned(ids(2), is_recall_answer=False)]
    story.step(after=0.1)
    (credit,) = sent(story.end(1, 1), Credit)
    assert credit.limit > 0 and credit.nested_reserve > 0


def test_that_no_fork_is_possible_is_told_in_words(story: Story) -> None:
    (log,) = [action for action in story.step(ProcessorExited(1, -1011)) if isinstance(action, Log)]
    assert log.text == "processor 1 could not be forked (no process is left) before it was ready"
