"""The caller's handle on one task."""

from __future__ import annotations

import concurrent.futures
import math
import time
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from scaler.client import errors
from scaler.client.core.records import Fetch, Outcomes, brought, outcome_of, result_objects
from scaler.client.core.records import ProfileResult as ProfileResult
from scaler.client.elsewhere import OF_FUTURES, explain_missing
from scaler.client.futures import condition as conditions
from scaler.client.futures.fetching import NotInTime, StillAtIt, fetched_by
from scaler.client.futures.interrupts import pass_on
from scaler.client.futures.source import Source
from scaler.client.futures.waiting import Audience, stand_still_at_exit, yielding
from scaler.client.io.background import do
from scaler.client.submitting.options import seconds_of
from scaler.client.submitting.parts import deserialized
from scaler.utility.exceptions import DisconnectedError
from scaler_protocol import codes, waits
from scaler_protocol.columns import measured
from scaler_protocol.ids import TaskId, shown_task
from scaler_protocol.messages import TaskError

_RUNNING, _CANCELLED, _FINISHED = "RUNNING", "CANCELLED_AND_NOTIFIED", "FINISHED"  # the states of concurrent.futures
_ENDED = frozenset((_CANCELLED, "CANCELLED", _FINISHED))
SMALL_BYTES = 8 * 1024
"""A result up to this is unpickled in some microseconds, unless its type makes more of it."""

T = TypeVar("T")


class ScalerFuture(concurrent.futures.Future[T]):
    """A real `concurrent.futures.Future` that can also be awaited, and whose running task can be canceled.

    It counts as running from the start. The IO thread only keeps the bytes of the result; they are fetched and
    unpickled by the thread that asks for the result first.
    """

    # A program may hold a million of them, so each has only what every one needs. The rest of what the base class gives
    # its instances is made when a thread waits for this one, or a callback is added: most have ended before that.

    __slots__ = (
        "_audience", "_connection", "_decode_lock", "_exception", "_keeper", "_name", "_outcomes", "_profile",
        "_result", "_serializer", "_state", "_task_id",
    )  # fmt: skip

    def __init__(
        self, task_id: TaskId, connection: Source | None, serializer: Any = None, keeper: object = None, name: str = ""
    ) -> None:
        # The base class is not asked: its condition alone takes more memory than most results.
        self._audience: Audience | None = None
        self._result: Any = None
        self._exception: BaseException | None = None
        self._state = _RUNNING
        self._task_id = task_id
        self._connection = connection
        self._serializer = serializer
        #: of its function, to be shown
        self._name = name
        #: the client, which would close a connection that is not used any more
        self._keeper = keeper
        #: while a thread decodes
        self._decode_lock: waits.RLock | None = None
        #: how the task ended, until it is decoded
        self._outcomes: Outcomes | None = None
        #: as it came; empty: nothing was measured
        self._profile = b""

    @classmethod
    def finished(cls, value: Any) -> ScalerFuture[Any]:
        """The future of something that needs no task, such as a data node of a graph."""
        future: ScalerFuture[Any] = cls(TaskId(b""), None)
        future._result = value
        future._state = _FINISHED
        return future

    @property
    def task_id(self) -> TaskId:
        """The 16 bytes that name the task in the cluster; empty if it needed no task."""
        return self._task_id

    # ------------------------------------------------------------ what the base class looks at

    def _watched(self) -> Audience:
        """From now on a thread is there when it ends."""
        if self._audience is None:
            audience = Audience()  # before the lock is taken: to make one may run a destructor, which may ask too
            with conditions.guard:
                if self._audience is None:
                    self._audience = audience
        return self._audience

    if not TYPE_CHECKING:  # for checkers they are the base class's variables: `as_completed` asks for such

        @property
        def _condition(self):
            return self._watched().condition

        @property
        def _waiters(self):
            return self._watched().waiters

        @property
        def _done_callbacks(self):
            return self._watched().callbacks

    # ------------------------------------------------------------ what the program asks

    def result(self, timeout: float | None = None) -> T:
        """What the task returned.

        Args:
            timeout: seconds to wait. None: as long as it takes. To fetch a large value takes up to half a second even
                if this is shorter.

        Raises:
            Exception: what the task raised, or one of `scaler.utility.exceptions` if it could not be run or read.
            CancelledError: the task was canceled.
            TimeoutError: it has not ended, or its value has not come, in time. It can be asked again.
        """
        end_at = math.inf if timeout is None else fetched_by(timeout)
        if self._state != _FINISHED:
            self._wait(timeout)
        if self._outcomes is not None:
            self._decode(end_at)
        if self._exception is None:
            value: T = self._result
            return value
        try:
            raise self._exception
        finally:
            self = None  # type: ignore[assignment]  # or the exception's traceback holds the future that holds it

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the task raised, or what keeps its value from being read; None if there is a value.

        Args:
            timeout: as for `result`.

        Raises:
            CancelledError: the task was canceled.
            TimeoutError: as for `result`.
        """
        end_at = math.inf if timeout is None else fetched_by(timeout)
        self._wait(timeout)
        try:
            if self._outcomes is not None:
                self._decode(end_at)
        except NotInTime:
            raise
        except Exception as error:  # noqa: BLE001 of the storage or the value, which are asked again the next time
            pass_on(error)
            return error
        return self._exception

    def done(self) -> bool:
        """The task has ended, in any way."""
        return self._state in _ENDED

    def running(self) -> bool:
        """The task has not ended. Whether it has begun, `client.explain` says."""
        return self._state == _RUNNING

    def cancelled(self) -> bool:
        """The task was canceled before it had a result."""
        return self._state in _ENDED and self._state != _FINISHED

    def cancel(self, timeout: float | None = None) -> bool:
        """End the task, also when it runs. True: it has no result and will never have one. False: it has ended.

        The future is canceled at once, and a result that is on its way is dropped. Nothing is waited for, because
        cancels that follow one another leave together: else the place that one frees would go to the next task to be
        canceled.

        Args:
            timeout: seconds to wait for the answer of the cluster; a result that comes first stands. None: do not wait.

        Raises:
            TypeError: the timeout is no number.
        """
        if timeout is not None:
            timeout = seconds_of("timeout", timeout)
        if self._state in _ENDED:
            return self._state != _FINISHED
        assert self._connection is not None, "only futures that are finished from the start have no connection"
        is_awaited = self._audience is not None and bool(self._audience.borrowers)
        self._connection.cancel((self._task_id,))
        if timeout is None:
            canceled = outcome_of(self._task_id, codes.STATUS_CANCELED)
            if not self.complete_alone(canceled):
                with self._watched().condition.noted():
                    self._end_before(self._watched(), canceled)
                self._connection.tell_later(self, canceled, is_awaited=is_awaited)
            return self.cancelled()
        try:
            self._wait(timeout)
        except (CancelledError, concurrent.futures.TimeoutError):
            pass
        return self.cancelled()

    def has_failed(self) -> bool:
        """The task has ended, with an exception. Unlike `exception()` it neither waits nor reads the result."""
        outcomes = self._outcomes
        if outcomes is not None:
            return any(outcomes.statuses)
        return self._state == _FINISHED and self._exception is not None

    def failure(self) -> TaskError | BaseException | None:
        """Why the task did not succeed, without waiting and without reading the result. None: no failure is known."""
        outcomes = self._outcomes
        if outcomes is None:
            return self._exception
        return errors.task_error_of(outcomes) if any(outcomes.statuses) else None

    def profiling_info(self) -> ProfileResult:
        """What running the task took. ValueError while it has not finished."""
        if not self.done():
            raise ValueError("the task has not finished: wait for its result before asking for its profile")
        return ProfileResult(*measured(self._profile))

    def __repr__(self) -> str:
        """Which task it is, as `scaler_top` and the page name it, and how it stands. Reads and waits for nothing."""
        named = [shown_task(self._task_id)] if self._task_id else []
        if self._name:
            named.append(f"of {self._name}")
        return f"<{' '.join(['ScalerFuture', *named])}: {self._standing()}>"

    def _repr_html_(self) -> str:
        from scaler.client.display import html_of_future  # few programs show one

        return html_of_future(self)

    def _standing(self) -> str:
        if self._state not in _ENDED:
            return "has not ended"
        if self._state != _FINISHED:
            return "canceled"
        exception = self._exception
        if exception is not None:
            return f"failed with {type(exception).__name__}"
        if self._outcomes is None:
            return f"returned {type(self._result).__name__}"
        return "failed" if any(self._outcomes.statuses) else "done, its result is not read yet"

    def __await__(self) -> Generator[Any, None, T]:
        from scaler.client.futures.looping import ending_of  # asyncio is slow to import, and few programs need it

        return ending_of(self).__await__()

    def has_raised(self, error: BaseException) -> bool:
        """This is what it ended with, and not what kept this caller from reading it."""
        return self._exception is error

    def reads_slowly(self) -> bool:
        """The result is not read yet, and has to be fetched from the storage, or is not small."""
        outcomes = self._outcomes
        return outcomes is not None and (any(outcomes.kinds) or len(outcomes.payload) > SMALL_BYTES)

    # ------------------------------------------------------------ what the connection tells

    def complete(self, outcomes: Outcomes) -> None:
        """The task has ended. In the IO thread: nothing here may wait or run user code."""
        if self.complete_alone(outcomes):
            return
        audience = self._watched()
        has_ended = self._end_before(audience, outcomes)
        if not has_ended:
            self._drop(outcomes)
        self._tell(audience, outcomes)

    def complete_alone(self, outcomes: Outcomes) -> bool:
        """The same if the future has no audience yet. If it has, nothing is done, and False is returned. Called in any
        thread that takes a turn: if the thread is interrupted, this can be repeated."""
        with conditions.guard:
            if self._audience is not None:
                return False
            has_ended = self._end(outcomes)  # a thread that comes now finds that it has ended
            has_audience = self._audience is not None  # since a moment: a signal's handler has come in between
        if not has_ended:
            self._drop(outcomes)
        return not has_audience

    def _end_before(self, audience: Audience, outcomes: Outcomes) -> bool:
        condition = audience.condition
        with condition:
            try:
                condition.acquire()
                return self._end(outcomes)
            finally:
                condition.release()

    def _end(self, outcomes: Outcomes) -> bool:
        """False: it has ended before."""
        if self._state in _ENDED:
            return False
        is_canceled = bool(outcomes.statuses) and _status(outcomes) == codes.STATUS_CANCELED
        if not is_canceled:
            if type(outcomes.payload) is not bytes:  # but a view of a message with many others
                outcomes = outcomes._replace(payload=bytes(outcomes.payload))
            self._profile = outcomes.profiles
            self._outcomes = outcomes
            if outcomes.kinds:  # a large result lies in the storage while it can be asked for
                assert self._connection is not None
                self._connection.garbage.add_after(self, result_objects(outcomes))
        audience = self._audience
        if audience is not None:
            audience.untold = tuple(audience.waiters)
        # In one step of the interpreter: what was interrupted before this is as if it had not begun.
        self._state = _CANCELLED if is_canceled else _FINISHED
        return True

    def _drop(self, outcomes: Outcomes) -> None:
        """The program canceled the task while the result was on its way, so the result is never fetched. (OWN-10)"""
        if self._state == _CANCELLED and (objects := result_objects(outcomes)):
            assert self._connection is not None
            self._connection.garbage.add(objects)

    def _tell(self, audience: Audience, outcomes: Outcomes) -> None:
        """Those who waited when it ended. Not to be repeated, so only in the IO thread, which is not interrupted."""
        with audience.condition:
            untold, audience.untold = audience.untold, None
            if untold is None:
                return
            borrowers, audience.borrowers = audience.borrowers, ()
            for waiter in untold:
                _tell(waiter, _status(outcomes), self)
            audience.condition.notify_all()
        for take in borrowers:
            take(outcomes)
        self._invoke_callbacks()

    def abandon(self) -> None:
        """In a forked child, where nothing will come. Its callbacks are the parent's: they are called there."""
        self._audience = self._decode_lock = None
        self._exception = DisconnectedError(
            "this process was forked while the task was pending: only the process that submitted it gets its result"
        )
        self._state = _FINISHED

    # ------------------------------------------------------------ as an argument of another call (CLI-14)

    def is_of(self, connection: Source, serializer: object) -> bool:
        """Its bytes mean the same in a call by this connection with this serializer."""
        return self._connection is connection and self._serializer is serializer

    def bring(self, fetch: Fetch) -> None:
        """Fetches the bytes of a value that lies in the storage, because the client of this future leaves. The bytes
        are read when the program requests the value."""
        with waits.Bounded(self._decoding(), fetch.end_at, StillAtIt):
            outcomes = self._outcomes
            if outcomes is not None:
                self._outcomes = brought(outcomes, fetch)

    def lend(self, take: Callable[[Outcomes | None], None]) -> None:
        """Tell how the task ended, now or when it has; None when its bytes are gone because it was read before. Does
        not wait for a thread that reads it now: what is marked as lent before its outcomes are looked at stays stored,
        or they are not there any more."""
        audience = self._watched()
        with audience.condition.noted(), audience.condition:
            has_ended = self._state in _ENDED
            if not has_ended:
                audience.borrowers = (*audience.borrowers, take)
            audience.is_lent = True
        outcomes = self._outcomes or audience.failure
        if has_ended:
            take(outcome_of(self._task_id, codes.STATUS_CANCELED) if self._state != _FINISHED else outcomes)

    def __reduce__(self) -> Any:
        raise TypeError(
            "a future does not travel inside of other values: pass it as an argument of its own; for a list, "
            "submit(lambda *values: function(values), *futures)"
        )

    def _invoke_callbacks(self) -> None:  # called by every way of ending, also those of the base class
        if self._audience is None or not self._audience.callbacks:
            return
        if self._connection is None:
            self._call_each()
        else:
            self._connection.callbacks.run(self._call_each)

    def _call_each(self) -> None:
        """Each once, and none is kept: what they refer to, such as an event loop, can go. What one raises, also
        SystemExit, is logged, and the others are called: an `await` may be one of them."""
        callbacks = self._watched().callbacks
        while callbacks:
            do(partial(callbacks.pop(0), self))

    # ------------------------------------------------------------ inside

    def _wait(self, timeout: float | None) -> None:
        """Until the task has ended. Raises CancelledError or TimeoutError."""
        end_at = math.inf if timeout is None else time.monotonic() + seconds_of("timeout", timeout)
        if self._state not in _ENDED and self._connection is not None:
            self._connection.hasten()
            self._connection.serve_until(self.done, end_at)
        if self._state not in _ENDED:
            yielding(lambda: self.wait_for_end(end_at))
        if self._state not in _ENDED:
            raise concurrent.futures.TimeoutError(f"the task has not ended within {timeout} s")
        if self._state != _FINISHED:
            stand_still_at_exit()
            has_left = self._connection is not None and self._connection.is_closed
            why = ": its client was disconnected, which cancels what has not ended; leaving `with` does that"
            raise CancelledError("the task was canceled" + (why if has_left else ""))

    def wait_for_end(self, end_at: float = math.inf) -> None:
        """Until the task has ended, one way or another, or the time is over."""
        self._watched().condition.wait_until(self.done, end_at)

    def outcomes(self, end_at: float) -> Outcomes:
        """How the task ended, as it came. Waits, as `result` does; not for futures whose result is read."""
        self._wait(None if end_at == math.inf else max(0.0, end_at - time.monotonic()))
        assert self._outcomes is not None
        return self._outcomes

    def _decoding(self) -> waits.RLock:
        lock = self._decode_lock or waits.RLock()
        with conditions.guard:
            if self._decode_lock is None:
                self._decode_lock = lock
            return self._decode_lock

    def _decode(self, end_at: float) -> None:
        """Turn the bytes into the value, or the exception that the task raised, once. An interrupt, the end of the
        time, a storage that cannot be reached, and what unpickling raises are told to this caller alone: the next one
        tries again, because some interrupts cannot be told from exceptions of the value's own code."""
        lock = self._decoding()
        with lock if end_at == math.inf else waits.Bounded(lock, end_at, StillAtIt):
            outcomes, result, exception = self._outcomes, None, None
            if outcomes is None:
                return
            assert self._connection is not None
            self._connection.wait_for_prints()
            is_trusted = self._connection.trusts_results
            if any(outcomes.statuses):
                exception = errors.raised_by(outcomes, self._connection, end_at)
                self._watched().failure = outcomes
            else:
                data = self._connection.fetch_one(outcomes, end_at) if outcomes.kinds else outcomes.payload
                result = deserialized(self._serializer, data, is_trusted=is_trusted)
            # All in one step of the interpreter: what was interrupted before this is as if it had not begun.
            self._result, self._exception, self._outcomes, self._decode_lock = result, exception, None, None
        is_lent = self._audience is not None and self._audience.is_lent
        if outcomes.kinds and not is_lent and (objects := result_objects(outcomes)):
            self._connection.unneeded(objects)


explain_missing(ScalerFuture, OF_FUTURES)


def _status(outcomes: Outcomes) -> int:
    return outcomes.statuses[0] if outcomes.statuses else codes.STATUS_SUCCESS


def _tell(waiter: Any, status: int, future: ScalerFuture[Any]) -> None:
    """What concurrent.futures does for `wait` and `as_completed`; failed ones count for FIRST_EXCEPTION."""
    if status == codes.STATUS_SUCCESS:
        waiter.add_result(future)
    elif status == codes.STATUS_CANCELED:
        waiter.add_cancelled(future)
    else:
        waiter.add_exception(future)
