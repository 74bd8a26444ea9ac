"""Many tasks that wait at once: what begins in the places they lend, and that their children can always come."""

from __future__ import annotations

import pytest
from tests.support.holder_story import results, sent
from tests.support.worker_story import LONG, Story, handed

from scaler_protocol.codes import STATUS_REFUSED
from scaler_protocol.holding.durations import CALLS_WITHOUT_WAIT
from scaler_protocol.messages import Credit
from scaler_worker.core import nesting
from scaler_worker.core.events import ProcessorReady, ResumeWanted, TaskBlocked


@pytest.fixture
def story() -> Story:
    return Story().start()


def wait(story: Story, processor: int) -> None:
    """The task of this processor blocks; a processor that is started for the place it lends is ready at once."""
    last = story.core.tables.last_processor
    story.step(TaskBlocked(processor, story.number(processor)))
    if story.core.tables.last_processor > last:
        story.step(ProcessorReady(last + 1, last + 1))


def waiting_parents(story: Story, count: int, *, depth: int = 0) -> None:
    """So many tasks of one depth, all blocked."""
    for name in range(100, 100 + count):
        story.dispatch(name, depth=depth)
        story.step(after=1.0)
        (processor,) = [number for number in story.core.tables.processors if story.held(number) == [name]]
        wait(story, processor)


# ---------------------------------------------------------------- room (CRD-9)


def test_a_limit_that_fell_below_what_is_held_leaves_room_for_a_child(story: Story) -> None:
    story.learn()  # tiny: the worker takes a thousand
    story.dispatch(*range(1, 301), function=LONG)
    story.end(1, 1, seconds=0.5)  # and now two
    (credit,) = sent(story.step(TaskBlocked(1, story.number(1))), Credit)
    assert credit.limit + credit.nested_reserve > len(story.core.tables.tasks) == 299


def test_the_limit_follows_what_is_held_down_again(story: Story) -> None:
    story.learn()
    story.dispatch(*range(1, 301), function=LONG)
    story.end(1, 1, seconds=0.5)
    wait(story, 1)
    assert story.core.credit(story.now).limit == 299
    story.step(ResumeWanted(1))
    story.end(1, 2, seconds=0.5)
    assert story.core.credit(story.now).limit <= 2, "nothing waits here any more"


def test_room_that_was_filled_in_vain_is_made_again_at_growing_intervals(story: Story) -> None:
    story.learn()
    story.dispatch(*range(1, 301), function=LONG, depth=1)
    story.end(1, 1, seconds=0.5)
    waits = []
    wait(story, 1)
    for name in range(400, 412, 2):
        story.dispatch(name, name + 1, function=LONG, depth=1)
        due_at = nesting.room_due_at(story.core.tables)
        assert due_at is not None
        waits.append(round(due_at - story.now, 6))
        assert sent(story.step(after=due_at - story.now), Credit)
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2]


def test_no_room_is_made_while_a_deeper_task_is_here(story: Story) -> None:
    story.learn()
    story.dispatch(*range(1, 301), function=LONG)
    story.end(1, 1, seconds=0.5)
    story.dispatch(900, 901, function=LONG, depth=1)
    story.step(TaskBlocked(1, story.number(1)))
    assert nesting.room_due_at(story.core.tables) is None


def test_a_task_that_waits_without_saying_so_gets_room_too(story: Story) -> None:
    story.learn()
    story.dispatch(*range(1, 301), function=LONG)
    story.end(1, 1, seconds=0.5)
    (credit,) = sent(story.step(after=nesting.SILENT_SECONDS), Credit)
    assert credit.limit + credit.nested_reserve > 299


# ---------------------------------------------------------------- what begins (WRK-28, WRK-29)


def test_a_child_begins_at_once_however_many_wait(story: Story) -> None:
    waiting_parents(story, 20)
    assert list(handed(story.dispatch(1, depth=1)).values()) == [[1]]


def test_another_parent_begins_only_when_no_child_has_come_for_a_while(story: Story) -> None:
    waiting_parents(story, 5)
    assert handed(story.dispatch(1)) == {}
    seconds = 3 * nesting.WAIT_SECONDS  # two of the five wait for free
    assert story.core.next_deadline() == pytest.approx(story.now + seconds)
    assert handed(story.step(after=seconds / 2)) == {}
    assert list(handed(story.step(after=seconds / 2)).values()) == [[1]]


def test_tasks_that_never_block_are_not_held_back_one_by_one(story: Story) -> None:
    waiting_parents(story, 10)
    story.dispatch(1, 2, 3, function=LONG)
    ((processor, _),) = handed(story.step(after=1.0)).items()
    assert handed(story.end(processor, 1, seconds=0.2)) == {processor: [2]}
    assert handed(story.end(processor, 2, seconds=0.2)) == {processor: [3]}


def test_a_barrier_of_thirty_siblings_comes_together_in_seconds(story: Story) -> None:
    story.dispatch(*range(1, 31))
    begun = story.now
    while story.core.tables.queue:
        due_at = story.core.next_deadline()
        running = [p.number for p in story.core.tables.processors.values() if p.slice and not p.is_waiting]
        if running:
            wait(story, running[0])
        else:
            assert due_at is not None, "something is queued, and nothing would ever begin it"
            story.step(after=max(due_at - story.now, 0.0))
    assert story.now - begun < 5.0


@pytest.mark.parametrize(("most", "waiting"), [(128, 64), (16, 8), (4, 2), (3, 2), (2, 1)])
def test_tasks_of_one_depth_leave_half_of_the_processors_to_deeper_ones(most: int, waiting: int) -> None:
    story = Story(max_processors=most).start()
    waiting_parents(story, waiting)
    assert handed(story.dispatch(1)) == {} == handed(story.step(after=1000.0))
    assert list(handed(story.dispatch(2, depth=1)).values()) == [[2]]


def test_only_what_is_deeper_than_all_that_waits_is_nested_too_deep() -> None:
    """A sibling waits until a processor is free again: it is no deeper than those that will go on before it."""
    story = Story(max_processors=2).start()
    waiting_parents(story, 1, depth=1)
    story.dispatch(1, depth=2)
    wait(story, 2)
    story.dispatch(2, depth=1)
    assert results(story.step(after=1000.0)) == {}
    assert results(story.dispatch(3, depth=3)) == {}
    assert results(story.step(after=1.0)) == {3: STATUS_REFUSED}


def test_a_function_whose_calls_wait_goes_alone(story: Story) -> None:
    """A slice behind it would be taken back, but a processor is not looked at before half of its slice is done."""
    story.learn()
    story.dispatch(1)
    wait(story, 1)
    story.step(ResumeWanted(1))
    story.end(1, 1)
    assert handed(story.dispatch(2, 3, 4)) == {1: [2]}


def test_a_function_is_believed_again_when_its_calls_wait_no_longer(story: Story) -> None:
    story.learn()
    story.dispatch(1)
    wait(story, 1)
    story.step(ResumeWanted(1))
    story.end(1, 1)
    for name in range(100, 100 + CALLS_WITHOUT_WAIT):
        story.dispatch(name)
        story.end(1, name, seconds=0.00001)
    assert handed(story.dispatch(2, 3, 4)) == {1: [2, 3, 4]}
