"""A worker that reports results of tasks which it does not hold costs little, and not for long (SCH-6, LIM-24)."""

from __future__ import annotations

import dataclasses
import random

import pytest
from tests.support.scheduler_story import Story, ids, names, peer

from scaler_protocol.codes import KIND_OBJECT, OVERLOADED, STATUS_FAILED
from scaler_protocol.columns import join_u32
from scaler_protocol.ids import TaskId, task_id_source
from scaler_protocol.messages import Results
from scaler_protocol.session import Lost
from scaler_scheduler.core import Action, Send
from scaler_scheduler.core.actions import Disconnect
from scaler_scheduler.core.ending import completion
from scaler_scheduler.core.ending.completion import PLAIN_ROWS, STEPS_PER_ROW
from scaler_scheduler.core.entities.workers import STALE_RESULTS

HELD = [f"t{number}" for number in range(40)]


def results_of(tasks: list[TaskId], *, status: int = 0) -> Results:
    statuses = bytes([status]) * len(tasks) if status else b""
    return Results(b"".join(tasks), b"x" * len(tasks), join_u32([1] * len(tasks)), statuses=statuses)


def ended(actions: list[Action]) -> list[str]:
    found = [action.message for action in actions if isinstance(action, Send)]
    return [name for message in found if isinstance(message, Results) for name in names(message.ids)]


def parted(actions: list[Action]) -> list[Disconnect]:
    return [action for action in actions if isinstance(action, Disconnect)]


@pytest.fixture
def story() -> Story:
    """A worker that holds some tasks."""
    story = Story()
    story.is_checked = False  # after each event: these are messages of many thousands of tasks
    story.client("c")
    story.worker("w", credit=len(HELD))
    story.submit("c", HELD)
    story.settle()
    return story


@pytest.mark.parametrize("held", (0, 1, len(HELD)))
@pytest.mark.parametrize("status", (0, STATUS_FAILED))
def test_tasks_that_are_not_held_take_a_fraction_of_a_step_each(story: Story, held: int, status: int) -> None:
    unknown = 10 * PLAIN_ROWS
    tasks = [TaskId(ids([name])) for name in HELD[:held]] + task_id_source()(unknown)
    random.Random(7).shuffle(tasks)
    tables = story.core.tables
    job = completion.results(tables, tables.workers[peer("w")], results_of(tasks, status=status))
    assert job is not None
    steps = list(job)
    assert sum(steps) <= unknown // 3 + held * 2 * STEPS_PER_ROW, "what is held takes its steps, the others few"
    assert max(steps) <= tables.backlog.turn_steps
    assert sorted(ended(story.actions())) == sorted(HELD[:held])
    assert len(tables.where) == len(HELD) - held


def test_a_worker_that_reports_too_many_of_them_loses_its_session(story: Story) -> None:
    fresh = task_id_source()
    story.receive("w", results_of(fresh(STALE_RESULTS)))
    story.work_off()
    assert parted(story.actions()) == [], "as many as may be"
    story.results("w", HELD[:2])
    assert ended(story.actions()) == HELD[:2], "and those that it holds do not count"
    story.receive("w", results_of(fresh(1)))
    story.receive("w", results_of(fresh(50)))
    (part,) = parted(story.actions())
    assert (part.peer_id, part.code) == (peer("w"), OVERLOADED)
    assert "does not hold" in part.text
    story.handle(Lost(peer("w"), part.code, part.text, is_orderly=False))
    story.worker("w2", credit=len(HELD))
    story.work_off()
    assert story.core.tables.workers[peer("w2")].held.keys() == {ids([name]) for name in HELD[2:]}


def test_the_next_session_of_the_worker_begins_anew(story: Story) -> None:
    story.receive("w", results_of(task_id_source()(STALE_RESULTS)))
    story.lost("w")
    story.worker("w", credit=5)
    story.receive("w", results_of(task_id_source()(STALE_RESULTS)))
    story.work_off()
    assert parted(story.actions()) == []


def test_the_object_of_a_stale_attempt_is_released_also_among_many(story: Story) -> None:  # OWN-7
    """The task has been dispatched again: what its first attempt has stored is released."""
    story.lost("w")
    story.worker("w2", credit=len(HELD))
    story.work_off()
    story.actions()
    story.worker("w3", credit=1)
    tables = story.core.tables
    task_id = TaskId(ids([HELD[0]]))
    value_id = tables.chunk_of(task_id).value_id(task_id, 1)
    others = task_id_source()(PLAIN_ROWS + 5)
    named = b"".join(others) + task_id
    sizes, kinds = join_u32([1] * len(others) + [16]), bytes(len(others)) + bytes([KIND_OBJECT])
    story.receive("w3", Results(named, b"x" * len(others) + value_id, sizes, kinds=kinds))
    story.work_off()
    assert any(line.startswith("storage <- Release") for line in story.settle())


def test_more_credit_counts_before_the_first_of_them_is_looked_at(story: Story) -> None:  # SCH-25
    """It comes with so many results that they are worked off later. Tasks wait, and now there is room."""
    story.submit("c", ["more"])
    assert not [line for line in story.settle() if "Dispatch" in line]
    unknown = results_of(task_id_source()(PLAIN_ROWS + 1))
    story.receive("w", dataclasses.replace(unknown, credit=len(HELD) + 1))
    assert [line for line in story.settle() if "Dispatch" in line]
