"""Every error that a program may see from the client. `except ScalerError` catches what Scaler raises on purpose."""

from __future__ import annotations

import concurrent.futures
import sys

from scaler_protocol.errors import (
    ObjectStorageException,
    QuotaError,
    ScalerError,
    TooManyOpenFilesError,
    escaped_lines,
)
from scaler_protocol.keys import KeyFileError

__all__ = [
    "CapnpDeserializationError",
    "ClientCancelledException",
    "ClientQuitException",
    "ClientShutdownException",
    "CodeRefusedError",
    "DeserializeObjectError",
    "DisconnectedError",
    "EnvironmentFailedError",
    "KeyFileError",
    "MemoryLimitError",
    "MissingObjects",
    "NestingTooDeepError",
    "NoWorkerError",
    "ObjectStorageException",
    "ProcessorDiedError",
    "QuotaError",
    "RejectedError",
    "RemoteError",
    "RemoteTraceback",
    "ResultNotSerializableError",
    "ScalerError",
    "TaskExceptionNotSerializableError",
    "TaskNotFoundError",
    "TaskTimeoutError",
    "TooManyOpenFilesError",
    "UnauthorizedError",
    "VersionMismatchError",
    "WorkerDiedError",
]


if sys.version_info >= (3, 11):
    _TimedOut = TimeoutError
else:

    class _TimedOut(concurrent.futures.TimeoutError, TimeoutError):  # two classes before Python 3.11
        pass


class DisconnectedError(ScalerError, ConnectionError, _TimedOut):
    """The scheduler was lost, and no successor came back in time. A TimeoutError too, as in earlier versions, where
    programs caught that."""


class RejectedError(ScalerError, ConnectionError):
    """The scheduler does not accept this client; its own sentence says why and what to do."""


class VersionMismatchError(RejectedError):
    """Client and scheduler have no protocol version in common."""


class UnauthorizedError(RejectedError, PermissionError):
    """The cluster does not let this client in: its key or ticket is another cluster's, has expired, is for other roles,
    or one side has a key and the other has none."""


class ClientQuitException(ScalerError, RuntimeError):
    """This client was disconnected; a new one is needed. A RuntimeError, as an Executor raises it after `shutdown`."""


class ClientShutdownException(ClientQuitException):
    """This client has asked the cluster to stop."""


class ClientCancelledException(ClientQuitException):
    """This client's tasks were canceled because it is leaving."""


class TaskNotFoundError(ScalerError):
    """The scheduler does not know this task."""


class NoWorkerError(ScalerError):
    """No worker took the task: the queue is at its limit."""


class WorkerDiedError(ScalerError):
    """The task's workers were lost, too often to try again. The message names them."""


class ProcessorDiedError(ScalerError):
    """The processes that ran the task died, too often to try again. The message has the worker, the exit code or signal
    and the memory peak of each attempt.

    `attempts` has a line for each of the last attempts. `peak` is the largest memory peak of all attempts, in bytes.
    `exit_code` is that of the last attempt's process, or minus the signal that ended it. What was not measured is 0.
    """

    def __init__(self, message: str = "", attempts: tuple[str, ...] = (), peak: int = 0, exit_code: int = 0) -> None:
        super().__init__(message, attempts, peak, exit_code)
        self.attempts = attempts
        self.peak = peak
        self.exit_code = exit_code

    def __str__(self) -> str:
        return str(self.args[0])


class TaskTimeoutError(ScalerError, TimeoutError):
    """The task ran for longer than it was allowed to."""


class MemoryLimitError(ScalerError, MemoryError):
    """The task's process reached the most memory that its worker allows for (`--memory-per-processor`). The task was
    stopped, and is not tried again. `limit` and `peak` are in bytes: what is allowed, and what it had."""

    def __init__(self, message: str, limit: int = 0, peak: int = 0) -> None:
        super().__init__(message, limit, peak)
        self.limit = limit
        self.peak = peak

    def __str__(self) -> str:
        return str(self.args[0])


class NestingTooDeepError(ScalerError, RecursionError):
    """So many tasks wait for their children that no further processor may be started."""


class DeserializeObjectError(ScalerError):
    """The function, an argument or a result could not be read where it was needed."""


class CodeRefusedError(ScalerError):
    """A worker does not take the files that `Client(code=...)` has sent. The message says why."""


class EnvironmentFailedError(ScalerError):
    """A worker could not install the packages of `Client(requirements=...)`. The message ends with the last lines of
    its installer."""


class ResultNotSerializableError(ScalerError, TypeError):
    """What the task returned cannot be pickled."""


class MissingObjects(ScalerError, LookupError):
    """An object that is needed is not in the storage: cleared, released, or lost with it."""


class RemoteTraceback(ScalerError):
    """The cause of an exception that a task raised: the text of its traceback, with the frames of the user's code."""

    def __str__(self) -> str:
        return f'\n"""\n{escaped_lines(str(self.args[0]))}"""'


class RemoteError(ScalerError):
    """A task failed, and its own exception could not be brought here. `type_name`, `message` and `text` tell of it."""

    def __init__(self, type_name: str, message: str, text: str = "") -> None:
        super().__init__(type_name, message, text)
        self.type_name = type_name
        self.message = message
        self.text = text

    def __str__(self) -> str:
        return escaped_lines(f"{self.type_name}: {self.message}" if self.type_name else self.message)


class CapnpDeserializationError(ScalerError):
    """Of earlier versions, for programs that name it: what cannot be read on the wire ends a session here instead."""


class TaskExceptionNotSerializableError(RemoteError):
    """A task raised an exception that cannot be pickled."""
