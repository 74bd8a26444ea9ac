"""Every error that the wire can tell of becomes the exception that the documentation names for it."""

from __future__ import annotations

import concurrent.futures
import pickle
import re
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from scaler.client.core.records import Outcomes
from scaler.client.errors import _BY_CODE, exception_of, task_error_of
from scaler.client.submitting.deferred import _told
from scaler.utility import exceptions
from scaler.utility.exceptions import (
    CodeRefusedError,
    DeserializeObjectError,
    DisconnectedError,
    EnvironmentFailedError,
    MemoryLimitError,
    MissingObjects,
    NestingTooDeepError,
    NoWorkerError,
    ObjectStorageException,
    ProcessorDiedError,
    QuotaError,
    RemoteError,
    ResultNotSerializableError,
    ScalerError,
    TaskExceptionNotSerializableError,
    TaskTimeoutError,
    WorkerDiedError,
)
from scaler_protocol import codes
from scaler_protocol.codec import encode_task_error
from scaler_protocol.errors import OwnerGone, StorageFull, StorageUnavailable, storage_error
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import TaskError

ROOT = Path(__file__).parents[3]

OF_A_TASK = {
    "TOO_LARGE": RemoteError,
    "BAD_BATCH": RemoteError,
    "NO_SUCH_OBJECT": MissingObjects,
    "OWNER_GONE": MissingObjects,
    "STORAGE_FULL": ObjectStorageException,
    "QUOTA": QuotaError,
    "EXISTS": ObjectStorageException,
    "STORAGE_UNREACHABLE": ObjectStorageException,
    "TASK_RAISED": TaskExceptionNotSerializableError,
    "TASK_TIMED_OUT": TaskTimeoutError,
    "PROCESSOR_DIED": ProcessorDiedError,
    "MEMORY_LIMIT": MemoryLimitError,
    "CODE_SET_REFUSED": CodeRefusedError,
    "ENVIRONMENT_FAILED": EnvironmentFailedError,
    "WORKER_LOST": WorkerDiedError,
    "TASK_CANCELED": CancelledError,  # most often there is no error at all, and the future is canceled
    "DEPENDENCY_FAILED": TaskExceptionNotSerializableError,
    "FUNCTION_UNREADABLE": DeserializeObjectError,
    "RESULT_UNREADABLE": ResultNotSerializableError,
    "TOO_DEEP": NestingTooDeepError,
    "QUEUE_FULL": NoWorkerError,
}
"""As a worker or the scheduler tells it, without the task's own exception."""


def codes_that_travel_in_a_task_error() -> set[str]:
    """The column "travels" of the tables of codes."""
    text = (ROOT / "protocol/spec/11-errors.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    found = set()
    for row in rows:
        if row[0].isdecimal():
            travels = row[4] if len(row) == 8 else row[3]
            if "T" in travels.split():
                found.add(row[1])
    return found


def documented_exceptions() -> set[str]:
    text = (ROOT / "docs/guide/errors.md").read_text(encoding="utf-8")
    return set(
        re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `")))
    )


def test_every_code_of_a_task_error_has_its_exception() -> None:
    assert codes_that_travel_in_a_task_error() == set(OF_A_TASK)
    for name, kind in OF_A_TASK.items():
        raised = exception_of(TaskError(code=getattr(codes, name), message="the story"))
        assert type(raised) is kind and "the story" in str(raised)
        assert isinstance(raised, ScalerError | CancelledError)


def test_every_exception_that_can_be_raised_is_documented() -> None:
    for_old_programs = {
        "CapnpDeserializationError", "ClientCancelledException", "ClientShutdownException", "RemoteTraceback",
        "ScalerError", "TaskNotFoundError",
    }  # fmt: skip
    assert documented_exceptions() == set(exceptions.__all__) - for_old_programs
    assert {kind.__name__ for kind in OF_A_TASK.values()} - {"CancelledError"} <= documented_exceptions()


STATUSES = {name: code for name, code in vars(codes).items() if name.startswith("STATUS_") and code}
PAYLOADS = {
    "none": b"",
    "unreadable": b"\xff" * 9,
    "without a code": encode_task_error(TaskError(code=codes.OK)),
    "a text without a code": encode_task_error(TaskError(code=codes.OK, type_name="Odd", message="why")),
}


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("status", STATUSES)
def test_no_user_sees_the_code_of_success(status: str, payload: str) -> None:
    """The code of what failed is that of its status, where there is one. (PAY-3)"""
    data = PAYLOADS[payload]
    outcomes = Outcomes((TaskId(bytes(16)),), bytes((STATUSES[status],)), bytes(1), (len(data),), data)
    error = task_error_of(outcomes)
    raised = exception_of(error)
    told = f"{type(raised).__name__}: {raised}"
    assert (error.code != codes.OK) == (status != "STATUS_REFUSED"), told
    assert "error 0" not in told and str(raised)
    if "text" in payload:
        assert "why" in told


def test_the_error_of_dead_processors_has_figures_and_keeps_them_on_its_way_through_tasks() -> None:
    attempts = ("attempt 1 on w1: exited with code 3", "attempt 2 on w2: was ended by signal 9 (SIGKILL)")
    error = TaskError(
        codes.PROCESSOR_DIED, message="the story", exit_code=-9, peak_memory_bytes=5 << 20, workers=attempts
    )
    raised = exception_of(error)
    in_parent = exception_of(_told(raised))
    for found in (raised, pickle.loads(pickle.dumps(raised)), in_parent):
        assert type(found) is ProcessorDiedError
        assert (found.attempts, found.peak, found.exit_code) == (attempts, 5 << 20, -9)
        assert str(found) == "\n  ".join(("the story", *attempts))
    plain = ProcessorDiedError("only words")
    assert str(plain) == "only words" and (plain.attempts, plain.peak, plain.exit_code) == ((), 0, 0)


def test_a_code_of_a_newer_peer_fails_the_task() -> None:
    assert type(exception_of(TaskError(code=60_000, message="new"))) is RemoteError  # ERR-7


@pytest.mark.parametrize("code", [codes.STORAGE_FULL, codes.OWNER_GONE, codes.BAD_CHUNK, codes.NO_SUCH_OBJECT, 60_000])
def test_what_a_storage_refuses_is_an_object_storage_exception(code: int) -> None:
    error = storage_error(code, "refused")
    assert isinstance(error, ObjectStorageException)
    assert type(pickle.loads(pickle.dumps(error))) is type(error)
    for kind in (StorageFull, StorageUnavailable, OwnerGone):
        assert issubclass(kind, ObjectStorageException)


def test_a_lost_scheduler_is_a_timeout_too() -> None:
    """Programs of earlier versions catch either."""
    error = exception_of(TaskError(code=codes.LEASE_EXPIRED, message="gone"))
    assert type(error) is DisconnectedError
    for kind in (ConnectionError, TimeoutError, concurrent.futures.TimeoutError, ScalerError):
        assert isinstance(error, kind)


@pytest.mark.parametrize("code", [codes.OK, *_BY_CODE])
def test_what_workers_tell_of_a_failure_is_nothing_that_a_terminal_obeys(code: int) -> None:
    evil = "\x1b[2J\x1b[31mred\nnext"
    told = TaskError(code=code, message=evil, text=f"{evil}\n", type_name=evil, workers=(evil,))
    raised = exception_of(told)
    for shown in (str(raised), str(raised.__cause__)):
        assert "\x1b[2J" not in shown
        assert "\\x1b[2J\x1b[31mred\x1b[0m\nnext" in shown
