"""Processors that are replaced between tasks, and tasks that are ended because of their memory. (WRK-44 to WRK-47)"""

from __future__ import annotations

import pytest
from tests.support.holder_story import ids, results, sent
from tests.support.worker_story import Story, handed

from scaler_protocol import codec
from scaler_protocol.codes import MEMORY_LIMIT, PROCESSOR_DIED, STATUS_CANCELED, STATUS_PROCESSOR_DIED, STATUS_TIMED_OUT
from scaler_protocol.messages import Cancel, Results, TaskError
from scaler_worker.core import recycling
from scaler_worker.core.actions import Action, GiveBackKept, KillProcessor, Reclaim, StartProcessor, StopProcessor
from scaler_worker.core.events import GaveBack, MemoryRead, ProcessorExited, ProcessorReady, TaskBlocked, TasksEnded

GIB = 1 << 30
SOFT = int(recycling.SOFT_SHARE * GIB)


def limited(**settings: int) -> Story:
    story = Story(memory_bytes=GIB, **settings).start()
    story.step(MemoryRead(1, 60 << 20))
    return story


def with_the_second_of_two() -> Story:
    """The first task of a slice has ended; what the processor has now was not read since."""
    story = limited()
    story.learn()
    story.step(MemoryRead(1, 60 << 20))
    story.dispatch(1, 2)
    first = story.number()
    story.step(TasksEnded(1, [(first, 0, 0, 0.001, b"v", b"")]), after=2.0)
    return story


def error_of(actions: list[Action]) -> TaskError:
    return codec.decode_task_error(bytes(sent(actions, Results)[0].payload))


# ---------------------------------------------------------------- after so many tasks


def test_a_processor_is_replaced_after_so_many_tasks() -> None:
    story = Story(tasks_per_processor=2).start()
    story.dispatch(1)
    assert story.end(1, 1) and not story.processor(1).is_worn
    assert StartProcessor(2) in story.dispatch(2), "its successor is forked while it runs its last task"
    story.step(ProcessorReady(2, 1002))
    actions = story.end(1, 2)
    assert StopProcessor(1) in actions and StartProcessor(3) not in actions
    assert handed(story.dispatch(3)) == {2: [3]}
    story.step(ProcessorExited(1, 0))
    assert story.core.tables.recycled_count == 1


def test_a_slice_has_no_more_tasks_than_its_processor_may_run() -> None:
    story = Story(tasks_per_processor=4).start()
    story.learn()
    assert handed(story.dispatch(1, 2, 3, 4, 5, 6)) == {1: [1, 2, 3]}
    assert handed(story.step(ProcessorReady(2, 1002))) == {}
    assert handed(story.end(1, 1, 2, 3)) == {2: [4, 5, 6]}


def test_what_was_taken_back_does_not_count() -> None:
    story = Story(tasks_per_processor=4).start()
    story.learn()
    story.dispatch(1, 2, 3)
    story.receive(Cancel(ids(2)))
    story.step(GaveBack(1, 1, story.number()))
    actions = story.end(1, 1)
    assert StopProcessor(1) not in actions and story.processor(1).ended_count == 2
    assert story.held(1) == [3]


def test_a_task_that_waits_keeps_its_processor() -> None:
    story = Story(tasks_per_processor=1).start()
    story.dispatch(1)
    story.step(ProcessorReady(2, 1002))
    assert story.step(TaskBlocked(1, story.number())) != []
    assert handed(story.dispatch(2, depth=1)) == {2: [2]}
    actions = story.end(2, 2)
    assert [action for action in actions if isinstance(action, StopProcessor)] == [StopProcessor(2)]


def test_a_processor_that_does_not_leave_is_killed() -> None:
    story = Story(tasks_per_processor=1).start()
    story.dispatch(1)
    assert StopProcessor(1) in story.end(1, 1)
    assert story.core.next_deadline() == story.now + recycling.LEAVE_SECONDS
    assert KillProcessor(1) in story.step(after=recycling.LEAVE_SECONDS)


# ---------------------------------------------------------------- memory between tasks


def test_a_processor_that_keeps_much_is_replaced_before_its_next_task() -> None:
    story = limited()
    story.dispatch(1)
    story.step(MemoryRead(1, SOFT), after=0.2)
    assert StopProcessor(1) not in story.end(1, 1), "what it needed may be free again"
    assert [processor.number for processor in story.core.to_read(story.now)] == [1]
    actions = story.step(MemoryRead(1, SOFT))
    assert StopProcessor(1) in actions and story.core.tables.recycled_count == 1


def test_a_processor_that_has_freed_what_it_needed_stays() -> None:
    story = limited()
    story.dispatch(1)
    story.step(MemoryRead(1, SOFT), after=0.2)
    story.end(1, 1)
    assert StopProcessor(1) not in story.step(MemoryRead(1, SOFT - 1))
    assert handed(story.dispatch(2)) == {1: [2]}


def test_a_task_is_not_handed_out_before_the_memory_is_known() -> None:
    """Else it would be blamed for what the task before it has left."""
    story = limited()
    story.dispatch(1)
    story.end(1, 1)
    story.step(MemoryRead(1, 60 << 20))
    story.now += 0.5
    assert handed(story.dispatch(2)) == {}
    assert [processor.number for processor in story.core.to_read(story.now)] == [1]
    assert handed(story.step(MemoryRead(1, 60 << 20))) == {1: [2]}


def test_a_reading_near_the_soft_limit_says_nothing_of_the_next_moment() -> None:
    story = limited()
    story.dispatch(1)
    story.step(MemoryRead(1, SOFT - 1), after=0.2)
    story.now += 0.001
    story.end(1, 1)
    assert handed(story.dispatch(2)) == {}
    assert story.core.next_deadline() == pytest.approx(story.now - 0.001 + recycling.SHORTEST_SECONDS)
    story.now += recycling.SHORTEST_SECONDS
    assert StopProcessor(1) in story.step(MemoryRead(1, SOFT))


def test_what_waits_behind_a_large_task_begins_elsewhere() -> None:
    story = limited()
    story.learn()
    story.step(MemoryRead(1, 60 << 20))
    story.dispatch(1, 2, 3)
    assert Reclaim(1, 1) in story.step(MemoryRead(1, SOFT), after=0.01)


def test_a_new_processor_is_not_replaced_whatever_it_has() -> None:
    """The next one would have as much: it is what the preload needs."""
    story = Story(memory_bytes=GIB).start()
    assert story.step(MemoryRead(1, GIB)) == []
    assert handed(story.dispatch(1)) == {1: [1]}


# ---------------------------------------------------------------- memory of a task


def test_a_task_over_its_limit_is_killed_and_ends_with_limit_and_peak() -> None:
    story = limited()
    story.dispatch(1)
    assert KillProcessor(1) in story.step(MemoryRead(1, GIB + 5), after=0.1)
    actions = story.step(ProcessorExited(1, -9, 7 * GIB))
    error = error_of(actions)
    assert results(actions) == {1: STATUS_TIMED_OUT}
    assert (error.code, error.memory_limit_bytes, error.peak_memory_bytes) == (MEMORY_LIMIT, GIB, GIB + 5)
    assert "1.0 GiB" in error.message and "--memory-per-processor" in error.message and error.workers == ("w",)
    assert story.core.tables.limited_count == 1


def test_a_task_that_ends_at_the_last_moment_has_ended() -> None:
    story = limited()
    story.learn()
    story.step(MemoryRead(1, 60 << 20))
    story.dispatch(1, 2)
    story.step(MemoryRead(1, GIB), after=0.01)
    assert results(story.end(1, 1)) == {1: 0}
    assert results(story.step(ProcessorExited(1, -9))) == {}
    assert story.queued() == [2], "the one behind it is innocent"


def test_a_task_that_began_among_what_others_left_runs_again() -> None:
    """The scheduler counts a dead processor, and tries the task in another one. (SCH-75)"""
    story = with_the_second_of_two()
    assert KillProcessor(1) in story.step(MemoryRead(1, GIB), after=0.01)
    actions = story.step(ProcessorExited(1, -9))
    assert results(actions) == {2: STATUS_PROCESSOR_DIED} and error_of(actions).code == PROCESSOR_DIED


def test_a_task_that_was_seen_with_little_is_to_blame() -> None:
    story = with_the_second_of_two()
    story.step(MemoryRead(1, SOFT - 1), after=0.01)
    story.step(MemoryRead(1, GIB), after=0.01)
    assert results(story.step(ProcessorExited(1, -9))) == {2: STATUS_TIMED_OUT}


def test_the_first_task_of_a_processor_is_to_blame_whatever_was_there() -> None:
    story = Story(memory_bytes=GIB).start()
    story.step(MemoryRead(1, GIB))
    story.dispatch(1)
    assert KillProcessor(1) in story.step(MemoryRead(1, GIB), after=0.01)
    assert results(story.step(ProcessorExited(1, -9))) == {1: STATUS_TIMED_OUT}


def test_a_canceled_task_over_its_limit_is_canceled() -> None:
    story = limited()
    story.dispatch(1)
    story.receive(Cancel(ids(1), grace_seconds=9.0))
    assert KillProcessor(1) in story.step(MemoryRead(1, GIB), after=0.1)
    assert results(story.step(ProcessorExited(1, -9))) == {1: STATUS_CANCELED}


def test_a_waiting_task_over_its_limit_is_ended() -> None:
    story = limited()
    story.dispatch(1)
    story.block(1, spare=2)
    assert KillProcessor(1) in story.step(MemoryRead(1, GIB), after=0.1)
    assert results(story.step(ProcessorExited(1, -9))) == {1: STATUS_TIMED_OUT}


# ---------------------------------------------------------------- how soon it is read


@pytest.mark.parametrize(
    "used, seconds",
    [(0, GIB / recycling.FILL_BYTES_PER_SECOND), (GIB - 1, recycling.SHORTEST_SECONDS)],
)
def test_the_nearer_to_the_limit_the_sooner_it_is_read(used: int, seconds: float) -> None:
    story = limited()
    story.dispatch(1)
    story.step(MemoryRead(1, used))
    assert story.core.next_deadline() == pytest.approx(story.now + seconds)


def test_memory_is_read_at_least_each_second_and_idle_processors_no_more_often() -> None:
    story = Story(memory_bytes=64 * GIB).start()
    assert [processor.number for processor in story.core.to_read(story.now)] == [1], "a new one at once"
    story.step(MemoryRead(1, 0))
    assert story.core.next_deadline() == story.now + recycling.LONGEST_SECONDS
    story.dispatch(1)
    assert story.core.next_deadline() == story.now + recycling.LONGEST_SECONDS


def test_without_a_limit_no_memory_is_read() -> None:
    story = Story(tasks_per_processor=3).start()
    story.dispatch(1)
    assert story.core.next_deadline() is None


# ---------------------------------------------------------------- values that are kept for tasks to come


def test_no_task_is_ended_for_what_we_keep() -> None:
    story = limited()
    kept = GIB // 8
    story.dispatch(1)
    assert GiveBackKept(1) not in story.step(MemoryRead(1, SOFT - 1, kept))
    assert GiveBackKept(1) in story.step(MemoryRead(1, SOFT, kept), after=0.1)
    actions = story.step(MemoryRead(1, GIB + kept - 1, kept), after=0.1)
    assert not {GiveBackKept(1), KillProcessor(1)} & set(actions), "it was told already, and its task may have so much"
    assert KillProcessor(1) in story.step(MemoryRead(1, GIB, 0), after=0.1), "what is left is the task's own"


def test_a_processor_cannot_claim_to_keep_more_than_it_may() -> None:
    story = limited()
    story.dispatch(1)
    assert KillProcessor(1) in story.step(MemoryRead(1, GIB + GIB // 8, GIB), after=0.1)


def test_the_next_task_of_a_slice_keeps_values_again_and_they_are_wanted_back_again() -> None:
    story = limited()
    story.learn()
    story.step(MemoryRead(1, 60 << 20))
    story.dispatch(1, 2)
    first = story.number()
    assert GiveBackKept(1) in story.step(MemoryRead(1, SOFT, 1), after=0.1)
    story.step(TasksEnded(1, [(first, 0, 0, 0.001, b"v", b"")]))
    assert story.held(1) == [2]
    assert GiveBackKept(1) in story.step(MemoryRead(1, SOFT, 1), after=0.1)
