"""Attempt 65,535 is the last that has a number, and a worker can present a task in it at any time. (SCH-95)"""

from __future__ import annotations

import pytest
from tests.support.scheduler_story import names, task
from tests.support.succession_story import adopted

from scaler_protocol.codec import decode_task_error, encode_task_error
from scaler_protocol.codes import (
    KIND_NONE,
    KIND_OBJECT,
    NO_SUCH_OBJECT,
    OWNER_GONE,
    STATUS_CANCELED,
    STATUS_FAILED,
    STATUS_REFUSED,
    STATUS_WORKER_LOST,
    STORAGE_UNREACHABLE,
)
from scaler_protocol.columns import join_u16, join_u32
from scaler_protocol.ids import LAST_ATTEMPT
from scaler_protocol.messages import Dispatch, Duplicate, Results, TaskError
from scaler_scheduler.core import StorageReplied


@pytest.mark.parametrize(
    ("code", "status"),
    ((OWNER_GONE, STATUS_FAILED), (STORAGE_UNREACHABLE, STATUS_FAILED), (STORAGE_UNREACHABLE, STATUS_REFUSED)),
)
def test_a_task_that_is_presented_in_its_last_attempt_ends_as_its_worker_tells(code: int, status: int) -> None:
    """There is no number for another attempt, and any worker can name this one. (SCH-95)"""
    story = adopted(attempt=LAST_ATTEMPT)
    error = encode_task_error(TaskError(code=code))
    column = join_u16([LAST_ATTEMPT])
    story.receive("w", Results(task("t"), error, join_u32([len(error)]), column, statuses=bytes([status])))
    (result,) = story.settle()["c"]
    assert isinstance(result, Results) and (result.statuses, result.attempts) == (bytes([status]), column)


def test_a_task_is_taken_over_in_its_last_attempt_and_has_it_again() -> None:
    """(SCH-95)"""
    story = adopted(attempt=LAST_ATTEMPT)
    story.client("again")
    story.submits("again", "t")
    assert "w" in story.settle(), "the earlier life is being canceled"
    canceled = Results(
        task("t"), b"", join_u32([0]), join_u16([LAST_ATTEMPT]), bytes([STATUS_CANCELED]), bytes([KIND_NONE])
    )
    story.receive("w", canceled)
    (given,) = [one for one in story.settle(10.0)["w"] if isinstance(one, Dispatch)]
    assert (names(given.ids), given.attempts) == (["t"], join_u16([LAST_ATTEMPT]))
    story.ends("w", "t", attempt=LAST_ATTEMPT)
    (result,) = story.settle()["again"]
    assert isinstance(result, Results) and result.payload == b"value"


def test_a_value_that_is_lost_in_the_last_attempt_ends_its_task() -> None:
    """(SCH-95)"""
    story = adopted(attempt=LAST_ATTEMPT)
    story.ends("w", "t", kind=KIND_OBJECT, value=b"\1" * 16, attempt=LAST_ATTEMPT)
    story.settle()
    (claim,) = [one for one in story.asked if isinstance(one, Duplicate)]
    story.core.handle(StorageReplied(claim.request_id, NO_SUCH_OBJECT), story.now)
    (result,) = story.settle()["c"]
    assert isinstance(result, Results) and result.statuses == bytes([STATUS_WORKER_LOST])
    assert "the value that it had stored is lost" in decode_task_error(bytes(result.payload)).message
