"""How tasks end when workers or clients go, or somebody cancels."""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import Story, peer, task

from scaler_protocol.codec import decode_task_error, encode_task_error
from scaler_protocol.codes import (
    CANCEL_UNKNOWN,
    KIND_OBJECT,
    PROCESSOR_DIED,
    STATUS_FAILED,
    STATUS_PROCESSOR_DIED,
    STATUS_TIMED_OUT,
    TASK_RAISED,
)
from scaler_protocol.ids import LAST_ATTEMPT, STORED, Salt, result_object_id
from scaler_protocol.messages import NO_SALT, CancelReply, Limits, Release, TaskError, TaskHeader
from scaler_scheduler.core import Policy
from scaler_scheduler.core.actions import SendToStorage
from scaler_scheduler.core.entities.results import rows
from scaler_scheduler.core.entities.states import State
from scaler_scheduler.core.notes.deaths import MOST_ACCOUNTS

# ---------------------------------------------------------------- workers that go


def test_a_lost_worker_gives_its_tasks_back_as_the_next_attempt(story: Story) -> None:
    story.worker("w0")
    story.submit("c", ["t0", "t1"])
    story.settle()
    story.worker("w1")
    story.lost("w0")
    assert story.settle() == ["storage <- Release of c 1 objects"] * 2 + ["w1 <- Dispatch t0 t1 attempt [2, 2]"]


def test_a_result_of_an_older_attempt_is_dropped_and_its_object_released(story: Story) -> None:
    story.worker("w0")
    story.submit("c", ["t0"])
    story.settle()
    story.worker("w1")
    story.lost("w0")
    story.worker("w0")
    story.settle()
    holder, other = ("w0", "w1") if task("t0") in story.core.tables.workers[peer("w0")].held else ("w1", "w0")
    story.results(other, ["t0"], kind=KIND_OBJECT, value=result_object_id(task("t0"), 1, NO_SALT, peer("c")))
    story.results(holder, ["t0"], attempt=1)
    assert story.settle() == ["storage <- Release of c 1 objects"]
    story.results(holder, ["t0"], attempt=2)
    assert story.settle() == ["c <- Results t0"]


def test_a_large_exception_is_released_where_no_client_is_told_of_it(story: Story) -> None:
    """It lies under the id of the attempt's value, which a failed task has not. (OWN-7)"""

    def error(attempt: int) -> bytes:
        object_id = result_object_id(task("t"), attempt, NO_SALT, peer("c"))
        return encode_task_error(TaskError(code=TASK_RAISED, serialized=STORED + object_id))

    story.worker("w")
    story.submit("c", ["t"], retries=1)
    story.settle()
    story.results("w", ["t"], status=STATUS_FAILED, value=error(1))
    assert story.settle() == ["storage <- Release of c 1 objects", "w <- Dispatch t attempt [2]"], "it is tried again"
    story.results("w", ["t"], status=STATUS_FAILED, value=error(1), attempt=1)
    assert story.settle() == ["storage <- Release of c 1 objects"], "reported late"
    story.results("w", ["t"], status=STATUS_FAILED, value=error(2), attempt=1)
    assert story.settle() == [], "of an attempt that may be wanted"
    story.results("w", ["t"], status=STATUS_FAILED, value=error(2), attempt=2)
    assert story.settle() == ["c <- Results t failed"], "its client releases it"


def test_a_salt_goes_into_the_ids_of_what_attempts_may_have_stored(story: Story) -> None:
    salt = Salt(b"s" * 16)
    story.worker("w0")
    story.submit("c", ["t0"], result_salt=salt)
    story.settle()
    story.lost("w0")
    assert SendToStorage(Release(0, peer("c"), result_object_id(task("t0"), 1, salt, peer("c")))) in story.actions()


def test_a_task_that_loses_worker_after_worker_is_given_up(story: Story) -> None:
    story.submit("c", ["poison"])
    for number in range(3):
        story.worker(f"w{number}")
        story.settle()
        story.lost(f"w{number}")
    lines = story.settle()
    assert lines[-1] == "c <- Results poison worker-lost"


def test_an_orderly_goodbye_is_not_counted_as_a_loss(story: Story) -> None:
    story.submit("c", ["t"])
    for number in range(5):
        story.worker(f"w{number}")
        story.settle()
        story.lost(f"w{number}", is_orderly=True)
    story.worker("last")
    assert story.settle()[-1] == "last <- Dispatch t attempt [6]"


def test_a_failed_task_is_retried_as_often_as_asked(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["t"], retries=1)
    story.settle()
    story.results("w", ["t"], status=STATUS_FAILED)
    assert story.settle() == ["w <- Dispatch t attempt [2]"]
    story.results("w", ["t"], status=STATUS_FAILED, attempt=2)
    assert story.settle() == ["c <- Results t failed"]


def died(exit_code: int, worker: str = "w", peak: int = 0) -> bytes:
    how = f"{worker}: exited with code {exit_code}"
    error = TaskError(
        code=PROCESSOR_DIED, exit_code=exit_code, message="died", workers=(how,), peak_memory_bytes=peak * 2**20
    )
    return encode_task_error(error)


def test_the_death_of_a_processor_is_not_the_end_of_its_task(story: Story) -> None:
    """Three attempts without being asked for, and an error that names them all. (SCH-75, SCH-41)"""
    story.worker("w", credit=1)
    story.submit("c", ["t"])
    story.settle()
    for attempt, peak in ((1, 70), (2, 900)):
        story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(-9, peak=peak), attempt=attempt)
        assert story.settle() == ["storage <- Release of c 1 objects", f"w <- Dispatch t attempt [{attempt + 1}]"]
    story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(3), attempt=3)
    error = told_error(story)
    assert "died in 3 attempts" in error.message and error.exit_code == 3
    assert error.peak_memory_bytes == 900 * 2**20
    assert error.workers == (
        "attempt 1 on w: exited with code -9, memory peak 70 MiB",
        "attempt 2 on w: exited with code -9, memory peak 900 MiB",
        "attempt 3 on w: exited with code 3",
    )
    (record,) = story.core.history(story.now).failures
    assert record.accounts == error.workers, "monitors are told of each attempt once"
    assert not story.core.tables.deaths and not story.core.tables.retried


@pytest.mark.parametrize(("of_operator", "of_task", "attempts"), [(3, 0, 3), (1, 0, 1), (1, 4, 4), (5, 2, 2)])
def test_a_task_says_how_many_processors_it_may_lose(of_operator: int, of_task: int, attempts: int) -> None:
    story = Story(Policy(lost_processors_limit=of_operator))
    story.client("c")
    story.worker("w", credit=1)
    story.submit("c", ["t"], lost_processors_limit=of_task)
    for attempt in range(1, attempts + 1):
        assert story.settle()[-1] == f"w <- Dispatch t{f' attempt [{attempt}]' if attempt > 1 else ''}"
        story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(7), attempt=attempt)
    assert story.settle()[-1] == "c <- Results t processor-died"


def test_dead_processors_and_lost_workers_and_retries_are_counted_apart(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["t"], retries=1, lost_processors_limit=2)
    story.settle()
    story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(7))
    story.settle()
    story.lost("w")
    story.worker("other", credit=1)
    assert story.settle()[-1] == "other <- Dispatch t attempt [3]"
    story.results("other", ["t"], status=STATUS_FAILED, attempt=3)
    assert story.settle() == ["other <- Dispatch t attempt [4]"], "the retry is still there"
    story.results("other", ["t"], status=STATUS_PROCESSOR_DIED, value=died(7), attempt=4)
    assert story.settle()[-1] == "c <- Results t processor-died"


def told_error(story: Story) -> TaskError:
    (row,) = rows(story.actions()[-1].message)  # type: ignore[union-attr, arg-type]
    assert row.status == STATUS_PROCESSOR_DIED
    return decode_task_error(bytes(row.value))


def test_a_death_beyond_the_limit_uses_up_a_retry(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["t"], retries=2, lost_processors_limit=1)
    story.settle()
    story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(7))
    assert story.settle() == ["storage <- Release of c 1 objects", "w <- Dispatch t attempt [2]"]
    story.results("w", ["t"], status=STATUS_FAILED, attempt=2)
    assert story.settle() == ["w <- Dispatch t attempt [3]"]
    story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, attempt=3, value=died(-9))
    error = told_error(story)
    assert error.exit_code == -9
    assert error.workers == ("attempt 1 on w: exited with code 7", "attempt 3 on w: exited with code -9")
    assert not story.core.tables.deaths and not story.core.tables.retried


def test_the_error_of_the_only_dead_processor_is_passed_on_as_it_is(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["t"], lost_processors_limit=1)
    story.settle()
    story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(7))
    _, told = story.actions()
    (row,) = rows(told.message)  # type: ignore[union-attr, arg-type]
    assert bytes(row.value) == died(7)


def test_a_task_that_killed_its_processor_runs_again_on_another_worker(story: Story) -> None:
    """Also when the other one holds more. (SCH-40)"""
    story.worker("busy", credit=3)
    story.submit("c", ["a", "b"])
    story.settle()
    story.worker("w", credit=1)
    story.submit("c", ["t"], retries=3)
    assert story.settle() == ["w <- Dispatch t"]
    story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(7))
    assert story.settle()[-1] == "busy <- Dispatch t attempt [2]"
    story.results("busy", ["t"], status=STATUS_PROCESSOR_DIED, value=died(7), attempt=2)
    assert story.settle()[-1] == "w <- Dispatch t attempt [3]"
    story.submit("c", ["urgent", "other"], priority=1)
    assert story.settle() == ["busy <- Dispatch urgent"]
    story.submit("c", ["last"], priority=1)
    story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(7), attempt=3)
    assert story.settle()[-1] == "w <- Dispatch other", "what is more urgent goes first"


def test_a_canceled_task_whose_processor_dies_is_not_tried_again(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["t"], retries=5)
    story.settle()
    story.cancel("c", ["t"])
    story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(-9))
    assert story.settle()[-2:] == ["c <- Results t processor-died", "c <- CancelReply t too-late"]


def test_a_task_that_ran_for_too_long_is_not_tried_again(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["t"], retries=5)
    story.settle()
    story.results("w", ["t"], status=STATUS_TIMED_OUT)
    assert story.settle() == ["c <- Results t timed-out"]


def test_what_follows_a_task_waits_for_its_next_attempt(story: Story) -> None:
    """Its follower was sent ahead of its time, and comes back. (SCH-37, WRK-24)"""
    story.worker("w", credit=2, features=("chains",))
    header = TaskHeader(graph_id=task("graph"), retries=1)  # type: ignore[arg-type]
    story.submit_graph("c", {"a": [], "b": ["a"]}, header=header)
    assert story.settle() == ["w <- Dispatch a", "w <- Dispatch b"]
    story.results("w", ["a"], status=STATUS_PROCESSOR_DIED, value=died(7))
    story.give_back("w", ["b"])
    assert story.settle()[1:] == ["w <- Dispatch a attempt [2]", "w <- Dispatch b"]
    story.results("w", ["a"], attempt=2)
    story.results("w", ["b"])
    assert story.settle() == ["c <- Results a, b"]


def test_the_last_attempt_ends_a_task_whatever_is_left_of_its_retries(story: Story) -> None:
    """There is no number for another. (SCH-5)"""
    story.worker("w", credit=2)
    story.submit("c", ["failing", "lost"], retries=65_535)
    story.settle()
    for name in ("failing", "lost"):
        story.core.tables.attempts[task(name)] = LAST_ATTEMPT
    story.results("w", ["failing"], status=STATUS_FAILED, attempt=LAST_ATTEMPT)
    assert story.settle() == ["c <- Results failing failed"]
    story.lost("w", is_orderly=True)
    assert story.settle()[-1] == "c <- Results lost worker-lost"


def test_the_error_of_many_dead_processors_fits_its_client() -> None:
    story = Story()
    story.client("c", Limits(inline_bytes=1024))
    story.worker("w", credit=1)
    story.submit("c", ["t"], retries=40, lost_processors_limit=1)
    for attempt in range(1, 42):
        story.settle()
        story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(attempt), attempt=attempt)
    (row,) = rows(story.actions()[-1].message)  # type: ignore[union-attr, arg-type]
    error = decode_task_error(bytes(row.value))
    assert len(row.value) <= 1024 and "41 attempts" in error.message
    assert error.workers[-1] == "attempt 41 on w: exited with code 41"


def test_of_very_many_dead_processors_the_last_are_kept(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["t"], lost_processors_limit=1_000)
    for attempt in range(1, 1_001):
        story.settle()
        story.results("w", ["t"], status=STATUS_PROCESSOR_DIED, value=died(7), attempt=attempt)
        assert attempt == 1_000 or len(story.core.tables.deaths[task("t")].accounts) <= MOST_ACCOUNTS
    error = told_error(story)
    assert "died in 1000 attempts" in error.message and error.workers[-1].startswith("attempt 1000 on w")


# ---------------------------------------------------------------- cancelling


def test_cancel_of_a_queued_task(story: Story) -> None:
    story.submit("c", ["t0", "t1"])
    story.cancel("c", ["t0"])
    assert story.settle() == ["c <- Results t0 canceled", "c <- CancelReply t0 canceled"]
    story.worker("w")
    assert story.settle() == ["w <- Dispatch t1"]


def test_cancel_of_a_running_task_is_answered_when_it_has_ended(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t"])
    story.settle()
    story.cancel("c", ["t"])
    assert story.settle() == ["w <- Cancel t"]
    story.canceled("w", ["t"])
    assert story.settle() == ["c <- Results t canceled", "c <- CancelReply t canceled"]


def test_a_cancel_that_crosses_the_result_is_too_late(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t"])
    story.settle()
    story.cancel("c", ["t"])
    story.results("w", ["t"])
    lines = story.settle()
    assert lines == ["w <- Cancel t", "c <- Results t", "c <- CancelReply t too-late"]


def test_cancel_of_what_is_not_there_is_unknown_also_when_it_is_somebody_elses(story: Story) -> None:
    story.client("d")
    story.submit("d", ["theirs"])
    story.cancel("c", ["nothing", "theirs"])
    assert story.settle() == ["c <- CancelReply nothing unknown, theirs unknown"]


def test_a_lost_worker_confirms_a_cancel_by_its_absence(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t"])
    story.settle()
    story.cancel("c", ["t"])
    story.lost("w")
    assert story.settle() == [
        "storage <- Release of c 1 objects",
        "c <- Results t canceled",
        "c <- CancelReply t canceled",
    ]


def test_children_end_with_their_parent(story: Story) -> None:
    story.worker("w", credit=2)
    story.submit("c", ["parent"])
    story.settle()
    story.client("nested")
    story.submit("nested", ["child0", "child1", "child2"], depth=1, parent_task=task("parent"))
    assert story.settle() == ["w <- Dispatch child0 child1"]
    story.results("w", ["parent"])
    assert set(story.settle()) == {
        "c <- Results parent",
        "nested <- Results child2 canceled",
        "w <- Cancel child0 child1",
    }
    assert story.core.tables.counts[State.CANCELING] == 2
    story.canceled("w", ["child0", "child1"])
    assert "nested <- Results child0 canceled, child1 canceled" in story.settle()


# ---------------------------------------------------------------- clients that go


def test_a_client_that_goes_takes_its_tasks_and_objects_along(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["running", "queued"])
    story.settle()
    story.lost("c")
    assert story.settle() == ["storage <- ReleaseOwner of c", "w <- Cancel running"]
    story.canceled("w", ["running"])
    story.lost("w", is_orderly=True)
    assert story.settle() == []
    assert story.is_empty()


def test_a_result_of_another_attempt_ends_no_task_of_a_client_that_has_gone(story: Story) -> None:
    story.worker("w", credit=1)
    story.submit("c", ["t"])
    story.settle()
    story.lost("c")
    story.settle()
    story.client("d")
    story.results("w", ["t"], attempt=2)
    story.submit("d", ["u"])
    assert story.settle() == []
    story.results("w", ["t"], attempt=1)
    assert story.settle() == ["w <- Dispatch u"]


def test_a_task_submitted_again_waits_for_the_end_of_its_earlier_life(story: Story) -> None:
    story.worker("w")
    story.submit("c", ["t"])
    story.settle()
    story.lost("c")
    story.client("c")
    story.submit("c", ["t"])
    assert story.settle() == ["storage <- ReleaseOwner of c", "w <- Cancel t"]
    story.canceled("w", ["t"])
    assert story.settle() == ["w <- Dispatch t attempt [2]"]
    story.results("w", ["t"], attempt=2)
    assert story.settle() == ["c <- Results t"]


def test_a_late_submit_of_an_earlier_session_takes_nothing_over(story: Story) -> None:
    """The client has opened another session and submitted there again; the old Submit was still on its way. (SCH-48)"""
    story.client("former")
    story.client("successor")
    story.worker("w", credit=1)
    story.submit("successor", ["held", "queued"])
    assert story.settle() == ["w <- Dispatch held"]
    story.submit("former", ["queued", "new"])
    assert story.settle() == ["former <- Error 301 (SCH-2)"]
    story.lost("former", is_orderly=True)
    story.results("w", ["held"], credit=1)
    assert story.settle() == ["storage <- ReleaseOwner of former", "w <- Dispatch queued", "successor <- Results held"]


def test_an_answer_to_the_cancel_of_a_former_attempt_ends_nothing(story: Story) -> None:
    """The first attempt had ended when the Cancel came, and the second was dispatched before the answer. (CAN-12)"""
    story.client("former")
    story.client("successor")
    story.worker("w", credit=1)
    story.submit("former", ["t"])
    assert story.settle() == ["w <- Dispatch t"]
    story.submit("successor", ["t"])
    assert story.settle() == ["w <- Cancel t"]
    story.results("w", ["t"], credit=1)
    assert story.settle() == ["w <- Dispatch t attempt [2]"]
    story.receive("w", CancelReply(ids=task("t"), outcomes=bytes([CANCEL_UNKNOWN])))
    assert story.settle() == []
    story.results("w", ["t"], attempt=2)
    assert story.settle() == ["successor <- Results t"]
