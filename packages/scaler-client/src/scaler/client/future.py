"""The caller's handle on one task."""

from __future__ import annotations

import concurrent.futures
import struct
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scaler.client.condition import FutureCondition
from scaler.client.core.records import Outcomes, outcome_of, result_objects
from scaler.client.waiting import Waiters, in_event_loop, yielding
from scaler.utility.exceptions import DisconnectedError
from scaler_protocol import codes
from scaler_protocol.ids import ObjectId, TaskId

if TYPE_CHECKING:
    from scaler.client.connection import Connection

_RUNNING, _CANCELLED, _FINISHED = "RUNNING", "CANCELLED_AND_NOTIFIED", "FINISHED"  # the states of concurrent.futures
_ENDED = frozenset((_CANCELLED, "CANCELLED", _FINISHED))
_PROFILE = struct.Struct("<QQQ")

CANCEL_SECONDS = 60.0
"""How long `cancel` waits for its answer; the core answers in the scheduler's stead before that."""


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """What running a task took. All zero for what did not run, such as a data node of a graph."""

    duration_s: float = 0.0
    cpu_time_s: float = 0.0
    #: bytes above what the processor used before the task
    memory_peak: int = 0

    @property
    def duration_us(self) -> float:
        return self.duration_s * 1e6

    @property
    def peak_memory(self) -> int:
        return self.memory_peak


class ScalerFuture(concurrent.futures.Future[Any]):
    """A real `concurrent.futures.Future` that can also be awaited, and whose running task can be canceled.

    It counts as running from the start. The IO thread only keeps the bytes of the result; they are fetched and
    unpickled by whoever asks for the result first.
    """

    #: the calls that take this one's value as an argument, told when it has ended
    _borrowers: tuple[Callable[[Outcomes | None], None], ...] = ()
    #: calls use its bytes, so its object is released with this future and not before
    _is_lent = False
    _lent_objects: tuple[ObjectId, ...] = ()
    #: how a task ended that did not succeed, for calls that take its value
    _failure: Outcomes | None = None

    def __init__(
        self,
        task_id: TaskId,
        connection: Connection | None,
        deserialize: Callable[[Any], Any],
        serializer: object = None,
    ) -> None:
        # As the base class does, which is not asked: its condition takes more memory than most results.
        self._condition: Any = FutureCondition()
        self._result: Any = None
        self._exception: BaseException | None = None
        self._done_callbacks: list[Any] = []
        self._state = _RUNNING
        self._waiters: list[Any] = Waiters()
        self._task_id = task_id
        self._connection = connection
        self._deserialize = deserialize
        self._serializer = serializer
        self._decode_lock = threading.Lock()
        #: how the task ended, until it is decoded
        self._outcomes: Outcomes | None = None
        #: as it came: few ask for it
        self._profile = b""

    @classmethod
    def finished(cls, value: object) -> ScalerFuture:
        """The future of something that needs no task, such as a data node of a graph."""
        future = cls(TaskId(b""), None, lambda data: data)
        future.set_result(value)
        return future

    @property
    def task_id(self) -> TaskId:
        return self._task_id

    # ------------------------------------------------------------ what the program asks

    def result(self, timeout: float | None = None) -> Any:
        self._wait(timeout)
        self._decode()
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        self._decode()
        return super().exception(0)

    def cancel(self, timeout: float | None = None) -> bool:
        """End the task, also when it runs. Waits for the answer; False when the task has ended otherwise.

        In the thread of an event loop, which must not wait, it only asks: True means that it will be answered.
        """
        with self._condition:
            if self._state in _ENDED:
                return self._state != _FINISHED
        assert self._connection is not None, "only futures that are finished from the start have no connection"
        self._connection.cancel((self._task_id,))
        if timeout is None and in_event_loop():
            return True
        try:
            self._wait(CANCEL_SECONDS if timeout is None else timeout)
        except (CancelledError, concurrent.futures.TimeoutError):
            pass
        return self.cancelled()

    def has_failed(self) -> bool:
        """The task has ended, with an exception. Unlike `exception()` it neither waits nor reads the result."""
        outcomes = self._outcomes
        if outcomes is not None:
            return any(outcomes.statuses)
        return self._state == _FINISHED and self._exception is not None

    def profiling_info(self) -> ProfileResult:
        """What running the task took. ValueError while it has not finished."""
        if not self.done():
            raise ValueError("the task has not finished: wait for its result before asking for its profile")
        return _profile(self._profile) if self._profile else ProfileResult()

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio  # not needed, and slow to import, for everyone else

        return asyncio.wrap_future(self).__await__()

    # ------------------------------------------------------------ what the connection tells

    def complete(self, outcomes: Outcomes) -> None:
        """The task has ended. In the IO thread, or whichever leads: nothing here may wait or run user code."""
        status = outcomes.statuses[0] if outcomes.statuses else codes.STATUS_SUCCESS
        with self._condition:
            if self._state in _ENDED:
                return
            if status == codes.STATUS_CANCELED:
                self._state = _CANCELLED
            else:
                self._profile = outcomes.profiles
                if type(outcomes.payload) is not bytes:
                    outcomes = outcomes._replace(payload=bytes(outcomes.payload))
                self._outcomes = outcomes
                self._state = _FINISHED
            borrowers, self._borrowers = self._borrowers, ()
            for waiter in self._waiters:
                _tell(waiter, status, self)
            self._condition.notify_all()
        for take in borrowers:
            take(outcomes)
        self._invoke_callbacks()

    def abandon(self) -> None:
        """In a forked child, where nothing will come. Its callbacks are the parent's: they are called there."""
        self._condition = FutureCondition()
        self._decode_lock = threading.Lock()
        self._done_callbacks = []
        self._exception = DisconnectedError(
            "this process was forked while the task was pending: only the process that submitted it gets its result"
        )
        self._state = _FINISHED

    # ------------------------------------------------------------ as an argument of another call (CLI-14)

    def is_of(self, connection: Connection, serializer: object) -> bool:
        """Its bytes mean the same in a call by this connection with this serializer."""
        return self._connection is connection and self._serializer is serializer

    def lend(self, take: Callable[[Outcomes | None], None]) -> None:
        """Tell how the task ended, now or when it has; None when its bytes are gone because it was read before."""
        with self._decode_lock:
            with self._condition:
                has_ended = self._state in _ENDED
                if not has_ended:
                    self._borrowers = (*self._borrowers, take)
                if not has_ended or self._outcomes is not None:
                    self._is_lent = True
            outcomes = self._outcomes or self._failure
        if has_ended:
            take(outcome_of(self._task_id, codes.STATUS_CANCELED) if self._state != _FINISHED else outcomes)

    def __reduce__(self) -> Any:
        raise TypeError("a future does not travel inside of other values: pass it as an argument of its own")

    def _invoke_callbacks(self) -> None:  # called by every way of ending, also those of the base class
        if not self._done_callbacks:
            return
        if self._connection is None:
            super()._invoke_callbacks()  # type: ignore[misc]
        else:
            self._connection.callbacks.run(super()._invoke_callbacks)  # type: ignore[misc]

    # ------------------------------------------------------------ inside

    def _wait(self, timeout: float | None) -> None:
        """Until the task has ended. Raises CancelledError or TimeoutError."""
        if self._state not in _ENDED and self._connection is not None:
            self._connection.hasten()
            self._connection.serve_until(self.done, timeout)
        if self._state not in _ENDED:
            yielding(lambda: self.wait_for_end(timeout))
        if self._state not in _ENDED:
            raise concurrent.futures.TimeoutError(f"the task has not ended within {timeout} s")
        if self._state != _FINISHED:
            raise CancelledError("the task was canceled")

    def wait_for_end(self, timeout: float | None) -> None:
        """Until the task has ended, one way or another, or the time is over."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._condition:
            while self._state not in _ENDED:
                remaining = None if end is None else end - time.monotonic()
                if remaining is not None and remaining <= 0:
                    return
                self._condition.wait(remaining)

    def _decode(self) -> None:
        """Turn the bytes into the value or exception, once."""
        if self._outcomes is None:
            return
        with self._decode_lock:
            outcomes = self._outcomes
            if outcomes is None:
                return
            assert self._connection is not None
            self._connection.wait_for_prints()
            try:
                self._result = self._connection.decode_one(outcomes, self._deserialize, keeps_object=self._is_lent)
            # Whatever unpickling raises belongs to whoever asks for the result, now and later.
            except BaseException as error:  # noqa: BLE001
                self._exception = error
                self._failure = outcomes if any(outcomes.statuses) else None
            if self._is_lent:
                self._lent_objects = result_objects(outcomes)
            self._outcomes = None

    def __del__(self) -> None:
        # A large result that nobody has asked for lies in the storage; nobody can ask any more.
        outcomes = getattr(self, "_outcomes", None)
        objects = self._lent_objects if outcomes is None or not outcomes.kinds else result_objects(outcomes)
        if objects and self._connection is not None:
            self._connection.release_later(objects)


def _profile(data: bytes) -> ProfileResult:
    duration_ns, cpu_ns, peak_bytes = _PROFILE.unpack(data[: _PROFILE.size])
    return ProfileResult(duration_ns / 1e9, cpu_ns / 1e9, peak_bytes)


def _tell(waiter: Any, status: int, future: ScalerFuture) -> None:
    """What concurrent.futures does for `wait` and `as_completed`; failed ones count for FIRST_EXCEPTION."""
    if status == codes.STATUS_SUCCESS:
        waiter.add_result(future)
    elif status == codes.STATUS_CANCELED:
        waiter.add_cancelled(future)
    else:
        waiter.add_exception(future)
