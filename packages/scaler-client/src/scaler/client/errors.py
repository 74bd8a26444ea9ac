"""From how a task ended, as the wire tells it, to the exception that its future raises."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Protocol

from scaler.client.core.records import LargeError, Outcomes, outcome_stored
from scaler.client.futures.interrupts import pass_on
from scaler.utility import exceptions
from scaler_protocol import codes, values
from scaler_protocol.codec import CodecError, decode_task_error
from scaler_protocol.errors import escaped_lines
from scaler_protocol.ids import stored_at
from scaler_protocol.messages import Buffer, TaskError


def exception_of(error: TaskError, *, is_trusted: bool = True) -> BaseException:
    """The task's own exception where it can be had, otherwise one of ours that tells its story. Runs user code, unless
    the workers are not trusted."""
    if not error.serialized:
        shown = replace(
            error, message=escaped_lines(error.message), workers=tuple([escaped_lines(line) for line in error.workers])
        )
        raised = _BY_CODE.get(error.code, _unknown)(shown)
    elif is_trusted:
        raised = _own_exception(error)
    else:
        raised = exceptions.RemoteError(error.type_name, error.message, error.text)
    if error.text:
        from scaler.client.futures.source_lines import with_source_lines  # most programs see no traceback

        _first_of_chain(raised).__cause__ = exceptions.RemoteTraceback(with_source_lines(error.text))
    return raised


class Source(Protocol):
    """The connection that has brought the outcomes."""

    @property
    def trusts_results(self) -> bool: ...

    def fetch_one(self, outcomes: Outcomes, end_at: float) -> Buffer: ...


def raised_by(outcomes: Outcomes, connection: Source, end_at: float) -> BaseException:
    """The same for the only task of these outcomes, which has failed. An exception that lies in the storage is fetched:
    raises NotInTime if it has not come by `end_at`, and ObjectStorageException if the storage cannot be reached."""
    error = task_error_of(outcomes)
    object_id = stored_at(error.serialized) if connection.trusts_results else None
    if object_id is not None:
        data: Buffer | None = error.brought_data if isinstance(error, LargeError) else None
        try:
            data = connection.fetch_one(outcome_stored(object_id), end_at) if data is None else data
        except exceptions.MissingObjects:
            data = b""  # its texts tell of it
        error = replace(error, serialized=bytes(data))
    return exception_of(error, is_trusted=connection.trusts_results)


_CHAIN_LENGTH = 64


def _first_of_chain(raised: BaseException) -> BaseException:
    """Where the story begins. The remote traceback goes there: what the user's code chained stays as it was."""
    for _ in range(_CHAIN_LENGTH):
        earlier = raised.__cause__ or (None if raised.__suppress_context__ else raised.__context__)
        if earlier is None:
            break
        raised = earlier
    return raised


def task_error_of(outcomes: Outcomes) -> TaskError:
    """Why the only task of these outcomes did not succeed. Its code is OK only for what was refused without a code."""
    if outcomes.error is not None:
        return outcomes.error
    status_code = _CODE_OF_STATUS.get(outcomes.statuses[0], codes.OK)
    if not outcomes.payload:
        is_plain = status_code == codes.TASK_CANCELED  # most of them have no TaskError, and need none
        return TaskError(code=status_code, message="" if is_plain else "no reason was given")
    try:
        error = decode_task_error(bytes(outcomes.payload))
    except CodecError:
        return TaskError(code=status_code, message="the reason that was given cannot be read")  # PAY-3
    if error.code != codes.OK:
        return error
    is_empty = not (error.type_name or error.message or error.text or error.serialized)
    return replace(error, code=status_code, message="no reason was given" if is_empty else error.message)


_CODE_OF_STATUS = {
    codes.STATUS_FAILED: codes.TASK_RAISED,
    codes.STATUS_CANCELED: codes.TASK_CANCELED,
    codes.STATUS_WORKER_LOST: codes.WORKER_LOST,
    codes.STATUS_PROCESSOR_DIED: codes.PROCESSOR_DIED,
    codes.STATUS_TIMED_OUT: codes.TASK_TIMED_OUT,
}


def _own_exception(error: TaskError) -> BaseException:
    told: Exception
    # Unpickling runs whatever the exception's class does; whatever that raises, the story must still be told.
    try:
        raised = values.loads(error.serialized)
    except BaseException as failure:  # noqa: BLE001
        pass_on(failure)
        told = exceptions.RemoteError(error.type_name, error.message, error.text)
        told.__context__ = failure
        return told
    if isinstance(raised, StopIteration | StopAsyncIteration):
        # In an iterator or a coroutine it would pass for the end of that one, so it comes as Python lets it out of a
        # generator (PEP 479), wherever it is raised: a future does not know which code waits for it.
        told = RuntimeError(f"the task raised {type(raised).__name__}")
        told.__cause__ = raised
        return told
    if isinstance(raised, Exception):
        return raised
    # What is no Exception means the process that it is raised in: SystemExit would end this program without a word,
    # KeyboardInterrupt would pass for a Ctrl-C of its user.
    told = exceptions.RemoteError(error.type_name, error.message, error.text)
    if isinstance(raised, BaseException):
        told.__cause__ = raised
    return told


def _raised(error: TaskError) -> BaseException:
    return exceptions.TaskExceptionNotSerializableError(error.type_name, error.message, error.text)


def _unknown(error: TaskError) -> BaseException:
    kind = "the task was refused" if error.code == codes.OK else f"error {error.code}"
    return exceptions.RemoteError(error.type_name or kind, error.message or "no reason was given", error.text)


def _canceled(error: TaskError) -> BaseException:
    """As a future raises it: `map` has none."""
    return CancelledError(error.message or "the task was canceled")


def _worker_lost(error: TaskError) -> BaseException:
    return exceptions.WorkerDiedError("\n  ".join((error.message or "the task's worker was lost", *error.workers)))


def _processor_died(error: TaskError) -> BaseException:
    told = error.message or f"the processor died with exit code {error.exit_code}"
    if error.peak_memory_bytes and not error.message:
        told += f", memory peak {error.peak_memory_bytes / 2**20:.0f} MiB"
    told = "\n  ".join((told, *error.workers))
    return exceptions.ProcessorDiedError(told, error.workers, error.peak_memory_bytes, error.exit_code)


def _memory_limit(error: TaskError) -> BaseException:
    told = error.message or "the task needed more memory than its worker allows for"
    return exceptions.MemoryLimitError(told, error.memory_limit_bytes, error.peak_memory_bytes)


def _plainly(kind: type[exceptions.ScalerError], default: str) -> Callable[[TaskError], BaseException]:
    return lambda error: kind(error.message or default)


_BY_CODE: dict[int, Callable[[TaskError], BaseException]] = {
    codes.TASK_RAISED: _raised,
    codes.DEPENDENCY_FAILED: _raised,
    codes.PROCESSOR_DIED: _processor_died,
    codes.WORKER_LOST: _worker_lost,
    codes.TASK_CANCELED: _canceled,
    codes.TASK_TIMED_OUT: _plainly(exceptions.TaskTimeoutError, "the task ran for too long"),
    codes.MEMORY_LIMIT: _memory_limit,
    codes.FUNCTION_UNREADABLE: _plainly(exceptions.DeserializeObjectError, "the worker could not read the function"),
    codes.CODE_SET_REFUSED: _plainly(exceptions.CodeRefusedError, "the worker does not take the code of the task"),
    codes.ENVIRONMENT_FAILED: _plainly(exceptions.EnvironmentFailedError, "the packages could not be installed"),
    codes.RESULT_UNREADABLE: _plainly(exceptions.ResultNotSerializableError, "the result cannot be pickled"),
    codes.TOO_DEEP: _plainly(exceptions.NestingTooDeepError, "tasks are nested too deeply"),
    codes.QUEUE_FULL: _plainly(exceptions.NoWorkerError, "the scheduler's queue is full"),
    codes.QUOTA: _plainly(exceptions.QuotaError, "the user of this program has as much as each user may have"),
    codes.UNKNOWN_TASK: _plainly(exceptions.TaskNotFoundError, "the scheduler does not know this task"),
    codes.NO_SUCH_OBJECT: _plainly(exceptions.MissingObjects, "an object the task needs does not exist"),
    codes.OWNER_GONE: _plainly(exceptions.MissingObjects, "the task's client has left the cluster"),
    codes.STORAGE_FULL: _plainly(exceptions.ObjectStorageException, "the object storage is full"),
    codes.EXISTS: _plainly(exceptions.ObjectStorageException, "another object has the id of the task's value"),
    codes.STORAGE_UNREACHABLE: _plainly(exceptions.ObjectStorageException, "no worker reaches the object storage"),
    codes.LEASE_EXPIRED: _plainly(exceptions.DisconnectedError, "the scheduler was lost"),
    codes.VERSION_MISMATCH: _plainly(exceptions.VersionMismatchError, "the protocol versions differ"),
    codes.UNAUTHORIZED: _plainly(exceptions.UnauthorizedError, "the cluster does not let this client in"),
}


_REJECTIONS: dict[int, type[exceptions.RejectedError]] = {
    codes.VERSION_MISMATCH: exceptions.VersionMismatchError,
    codes.UNAUTHORIZED: exceptions.UnauthorizedError,
}


def rejection(code: int, text: str) -> exceptions.RejectedError:
    """The error of a client that a scheduler does not want."""
    return _REJECTIONS.get(code, exceptions.RejectedError)(text)


def waits_for_itself() -> RuntimeError:
    """Returns the error of a wait within the step that would end it."""
    return RuntimeError(
        "this would wait for ever: a signal handler or a destructor has interrupted its own client in a step that the "
        "answer waits for. Submit there, and ask for the result elsewhere"
    )
