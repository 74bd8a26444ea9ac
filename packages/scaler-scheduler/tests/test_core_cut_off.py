"""Workers that do not reach the storage (SCH-43, SCH-44)."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import Story, peer

from scaler_protocol.codec import encode_task_error
from scaler_protocol.codes import (
    STATUS_FAILED,
    STATUS_REFUSED,
    STORAGE_FULL,
    STORAGE_UNREACHABLE,
)
from scaler_protocol.messages import Credit, TaskError
from scaler_scheduler.core.ending.cut_off import REST_SECONDS

UNREACHABLE = encode_task_error(TaskError(code=STORAGE_UNREACHABLE, message="silent for 60 s"))


def begin(story: Story, tasks: int = 1) -> list[str]:
    story.worker("w0", credit=2)
    story.submit("c", [f"t{number}" for number in range(tasks)])
    return story.settle()


@pytest.mark.parametrize("status", [STATUS_REFUSED, STATUS_FAILED])
def test_another_worker_runs_it(story: Story, status: int) -> None:
    begin(story)
    story.worker("w1", credit=2)
    story.results("w0", ["t0"], status=status, value=UNREACHABLE)
    assert story.settle() == ["storage <- Release of c 1 objects", "w1 <- Dispatch t0 attempt [2]"]
    assert story.core.tables.workers[peer("w0")].is_cut_off


def test_any_other_trouble_with_the_storage_is_the_tasks_end(story: Story) -> None:
    begin(story)
    story.worker("w1", credit=2)
    story.results("w0", ["t0"], status=STATUS_FAILED, value=encode_task_error(TaskError(code=STORAGE_FULL)))
    assert story.settle() == ["c <- Results t0 failed"]


def test_it_gets_nothing_for_a_while_and_then_again(story: Story) -> None:
    begin(story)
    story.worker("w1", credit=1)
    story.results("w0", ["t0"], status=STATUS_REFUSED, value=UNREACHABLE)
    story.settle()
    story.submit("c", ["t1"])
    assert story.settle() == [], "w1 is full, and w0 rests"
    until = story.core.next_deadline()
    assert until is not None and until <= story.now + REST_SECONDS
    story.now += REST_SECONDS
    assert story.settle() == ["w0 <- Dispatch t1"]
    assert not story.core.tables.cut_off


def test_the_last_worker_does_not_rest(story: Story) -> None:
    """Then the storage may be gone for all: what does without it still runs, and the rest ends with the reason."""
    begin(story)
    for attempt in (2, 3):
        story.results("w0", ["t0"], attempt=attempt - 1, status=STATUS_REFUSED, value=UNREACHABLE)
        assert story.settle()[-1] == f"w0 <- Dispatch t0 attempt [{attempt}]"
    story.results("w0", ["t0"], attempt=3, status=STATUS_REFUSED, value=UNREACHABLE)
    assert story.settle()[-1] == "c <- Results t0 refused"
    story.submit("c", ["t1"])
    assert story.settle() == ["w0 <- Dispatch t1"]


@pytest.mark.parametrize("goes", ["lost", "credit"])
def test_a_rest_ends_when_the_others_are_gone(story: Story, goes: str) -> None:
    begin(story)
    story.worker("w1", credit=2)
    story.results("w0", ["t0"], status=STATUS_REFUSED, value=UNREACHABLE)
    story.settle()
    story.submit("c", ["t1", "t2"])
    story.settle()
    if goes == "lost":
        story.lost("w1")
    else:
        story.receive("w1", Credit(0, 0))
    lines = story.settle()
    assert any(line.startswith("w0 <- Dispatch") for line in lines), lines


def test_a_resting_worker_that_leaves_is_forgotten(story: Story) -> None:
    begin(story)
    story.worker("w1", credit=2)
    story.results("w0", ["t0"], status=STATUS_REFUSED, value=UNREACHABLE)
    story.settle()
    story.lost("w0")
    story.settle()
    assert not story.core.tables.cut_off


def test_losses_of_both_kinds_count_together(story: Story) -> None:
    begin(story)
    story.worker("w1", credit=1)
    story.results("w0", ["t0"], status=STATUS_REFUSED, value=UNREACHABLE)
    story.settle()
    story.lost("w1")
    assert story.settle()[-1] == "w0 <- Dispatch t0 attempt [3]"
    story.lost("w0")
    assert story.settle()[-1] == "c <- Results t0 worker-lost"
