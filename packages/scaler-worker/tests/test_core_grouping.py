"""Tasks of different code sets never meet in one process. (WRK-50)"""

from __future__ import annotations

from tests.support.worker_story import Story, handed

from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import NO_OBJECT
from scaler_worker.core import Settings
from scaler_worker.core.actions import StartProcessor, StopProcessor
from scaler_worker.core.events import ProcessorExited, ProcessorReady, RoundEnded

from .test_core_random import AgentMachine

ONE, TWO, THREE = (ObjectId(name.ljust(16)) for name in (b"one", b"two", b"three"))


class GroupedMachine(AgentMachine):
    """Any order of anything, with tasks of three groups."""

    SETTINGS = Settings("w", lambda error: b"error", 50, 6, 2, task_timeout_seconds=30.0, suspends_hard=True)
    CODE_SETS = (NO_OBJECT, ONE, TWO)


GroupedMachine.TestCase.settings = AgentMachine.TestCase.settings
TestGrouped = GroupedMachine.TestCase


def test_a_fresh_processor_takes_any_group_and_stays_in_it() -> None:
    story = Story().start()
    assert handed(story.dispatch(1, code_set=ONE)) == {1: [1]}
    story.end(1, 1)
    assert handed(story.dispatch(2, code_set=ONE)) == {1: [2]}
    story.end(1, 2)
    actions = story.dispatch(3)
    assert not handed(actions) and StartProcessor(2) in actions
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [3]}


def test_a_processor_that_has_run_tasks_without_a_code_set_is_not_fresh() -> None:
    story = Story().start()
    story.dispatch(1)
    story.end(1, 1)
    assert StartProcessor(2) in story.dispatch(2, code_set=ONE)
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [2]}


def test_two_groups_in_turns_fork_no_further_process() -> None:
    story = Story().start()
    story.dispatch(1, code_set=ONE)
    story.end(1, 1)
    story.dispatch(2, code_set=TWO)
    story.step(ProcessorReady(2, 2))
    story.end(2, 2)
    for number in range(10, 30, 2):
        assert handed(story.dispatch(number, code_set=ONE)) == {1: [number]}
        assert not any(isinstance(action, StartProcessor) for action in story.end(1, number))
        assert handed(story.dispatch(number + 1, code_set=TWO)) == {2: [number + 1]}
        assert not any(isinstance(action, StartProcessor) for action in story.end(2, number + 1))


def test_a_slice_has_tasks_of_one_group() -> None:
    story = Story().start()
    story.learn()
    story.dispatch(1, 2, code_set=ONE)
    story.dispatch(3, code_set=TWO)
    story.dispatch(4, 5, code_set=ONE)
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [1, 2]}, "in the order in which they came"


def test_many_groups_keep_no_more_idle_processors_than_spare_ones() -> None:
    story = Story().start()
    for number in range(1, 12):
        actions = story.dispatch(number, code_set=ObjectId(b"%016d" % number))
        for stopped in [one.processor for one in actions if isinstance(one, StopProcessor)]:
            story.step(ProcessorExited(stopped, 0))
        if number > 1:
            (started,) = [one.processor for one in actions if isinstance(one, StartProcessor)]
            assert handed(story.step(ProcessorReady(started, started))) == {started: [number]}
        story.end(number, number)
        assert len(story.core.tables.processors) <= 4


def test_an_idle_processor_makes_room_where_no_other_may_be_started() -> None:
    story = Story(max_processors=1).start()
    story.dispatch(1, code_set=ONE)
    story.end(1, 1)
    assert StopProcessor(1) in story.dispatch(2, code_set=TWO)
    assert StartProcessor(2) in story.step(ProcessorExited(1, 0))
    assert handed(story.step(ProcessorReady(2, 2))) == {2: [2]}


def test_a_child_begins_in_another_processor_of_its_group() -> None:
    story = Story().start()
    story.dispatch(1, code_set=ONE)
    story.block(1, spare=2)
    assert handed(story.dispatch(2, code_set=ONE, depth=1)) == {2: [2]}
    story.end(2, 2)
    assert not handed(story.dispatch(3, code_set=TWO, depth=1))
    assert handed(story.step(RoundEnded())) == {}
