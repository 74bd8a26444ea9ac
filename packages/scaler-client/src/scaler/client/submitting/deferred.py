"""Calls that take the values of futures: they leave when these have ended. (CLI-14)

Theory of operation. The bytes of a result are passed on as they are, without being read here: a result of the same
connection, made by the same serializer, is a part like any other, and a large one lies in the storage already. Such a
future is *lent*: its object stays until it is dropped, and the call keeps it until its own task has ended. Any other
future has a value to be serialized, which runs user code: that is done in a thread of its own, which waits for nothing
but the storage, and for no value longer than the client's timeout. If another thread reads the value meanwhile, or its
task runs again, the value is read again behind those of other calls.

A future that failed or was canceled ends the call the same way, with the same error. Canceling the call ends nothing
but itself.

The hooks run in the IO thread, with locks held, so they only note what has come and post. What ends here before its
task is with the core is ended by a step of the IO thread (`Connection.soon`), because an interrupt of the program's
thread, in the middle of a cancel, would leave calls behind that no one ends. Until that step nothing is changed.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from scaler.client.core.events import CancelRequested
from scaler.client.core.records import Collector, Outcomes, Submission, outcome_of, result_objects
from scaler.client.future import ScalerFuture
from scaler.client.futures.fetching import StillAtIt
from scaler.client.io.background import Background
from scaler.client.io.connection import Connection
from scaler.client.objects.functions import StoredFunction
from scaler.client.objects.puts import Puts
from scaler.client.submitting.parts import Part
from scaler_protocol import codes, values, waits
from scaler_protocol.ids import TaskId
from scaler_protocol.messages import TaskError, TaskHeader
from scaler_protocol.raised import portable

_background = Background("scaler-arguments")


class Call(NamedTuple):
    """What one submission is made of."""

    header: TaskHeader
    function: StoredFunction
    task_id: TaskId
    parts: Sequence[Part]
    collector: Collector


class Sender(Protocol):
    """The client handle that makes the call."""

    @property
    def connection(self) -> Connection: ...

    @property
    def serializer(self) -> object: ...

    @property
    def owner(self) -> object: ...

    def value_part(self, value: Any) -> Part: ...

    def has_to_store(self, parts: Sequence[Part]) -> bool: ...

    def submission(self, call: Call, puts: Puts) -> Submission: ...


class Deferred:
    """One such call. It is the collector of its own task, and passes on what becomes of it."""

    def __init__(
        self,
        calls: Sender,
        call: Call,
        puts: Puts,
        futures: dict[int, concurrent.futures.Future[Any]],
    ) -> None:
        self.collector = call.collector
        self.owner = calls.owner
        self._calls = calls
        #: None when the task has ended
        self._call: Call | None = call
        self._task_id = call.task_id
        #: of the call; the values of the futures are put in their places
        self._parts = list(call.parts)
        #: stored for this call alone
        self._puts = puts
        #: by position among the parts; kept until the task has ended, and with them what they lend
        self._futures = futures
        #: how many have yet to come, and one for `start` itself
        self._missing = len(futures) + 1
        #: its task is with the core, or has ended without
        self._is_settled = False
        #: it is to end without; the IO thread will
        self._is_ending = False
        # Posting may end the task at once, in this thread: when the connection is closed.
        self._lock = waits.RLock()

    @property
    def missing_count(self) -> int:
        return self._missing

    def start(self) -> None:
        connection = self._calls.connection
        try:
            connection.deferred[self._task_id] = self
            for position, future in list(self._futures.items()):
                self._await(position, future)
            self._one_less()
            if self._is_ending:
                connection.wait_until_told()
        except BaseException:
            connection.cancel((self._task_id,))  # it may be with the core
            raise

    def cancel(self) -> bool:
        """False: its task is with the core already, which will end it."""
        if self._is_settled:
            return False
        self._end(outcome_of(self._task_id, codes.STATUS_CANCELED))
        return True

    def complete(self, outcomes: Outcomes) -> None:
        """In the IO thread. Told twice if it was to end while its task was sent: the first time counts."""
        with self._lock:
            call, self._call = self._call, None
        connection = self._calls.connection
        connection.deferred.pop(self._task_id, None)
        if call is None:
            if objects := result_objects(outcomes):
                connection.garbage.add(objects)
            return
        self._parts, self._futures = [], {}
        self.collector.complete(outcomes)

    # ------------------------------------------------------------ what comes

    def _await(self, position: int, future: concurrent.futures.Future[Any]) -> None:
        if not isinstance(future, ScalerFuture):
            future.add_done_callback(lambda _: self._read_later(position, future))
        elif future.is_of(self._calls.connection, self._calls.serializer):
            future.lend(lambda outcomes: self._take(position, future, outcomes))
        else:
            future.lend(lambda _: self._read_later(position, future))

    def _take(self, position: int, future: ScalerFuture[Any], outcomes: Outcomes | None) -> None:
        if outcomes is None:  # it was read before: its bytes are gone
            self._read_later(position, future)
            return
        status = outcomes.statuses[0] if outcomes.statuses else codes.STATUS_SUCCESS
        if status != codes.STATUS_SUCCESS:
            self._end(outcomes._replace(ids=(self._task_id,), profiles=b""))
            return
        kind = outcomes.kinds[0] if outcomes.kinds else codes.KIND_INLINE
        if kind == codes.KIND_OBJECT and self._calls.connection.storage.is_lost(outcomes.payload):
            self._read_later(position, future)  # which has it made again
            return
        self._came(position, Part((outcomes.payload,), len(outcomes.payload), kind))

    def _read_later(self, position: int, future: concurrent.futures.Future[Any]) -> None:
        _background.run(lambda: self._read(position, future))

    def _read(self, position: int, future: concurrent.futures.Future[Any]) -> None:
        if self._is_settled:
            return
        if future.cancelled():
            self._end(outcome_of(self._task_id, codes.STATUS_CANCELED))
            return
        try:
            part = self._calls.value_part(future.result(self._calls.connection.timeout_seconds))
        # Its own exception, or that its value cannot be fetched, read or serialized: all end this call.
        except BaseException as error:  # noqa: BLE001
            if isinstance(error, StillAtIt) and isinstance(future, ScalerFuture) and not future.has_raised(error):
                self._read_later(position, future)
                return
            self._end(outcome_of(self._task_id, codes.STATUS_FAILED, _told(error)))
            return
        self._came(position, part)

    def _came(self, position: int, part: Part) -> None:
        with self._lock:
            if self._is_settled:
                return
            self._parts[position] = part
        self._one_less()

    def _one_less(self) -> None:
        with self._lock:
            self._missing -= 1
            if self._missing or self._is_settled:
                return
        if self._calls.has_to_store(self._parts):
            _background.run(self._submit)  # this may be the IO thread, which has no time to wait
        else:
            self._submit()

    # ------------------------------------------------------------ how it goes on

    def _submit(self) -> None:
        call = self._call
        if call is None:
            return  # it has ended meanwhile
        try:
            submission = self._calls.submission(call._replace(parts=self._parts, collector=self), self._puts)
        except Exception as error:  # noqa: BLE001 the storage may fail in many ways
            self._end(outcome_of(self._task_id, codes.STATUS_FAILED, _told(error)))
            return
        with self._lock:
            if not self._is_settled:
                self._calls.connection.post(submission)
                self._is_settled = True
                self._puts.hand_over()
                return
        self._puts.release()  # canceled while they were stored

    def _end(self, outcomes: Outcomes) -> None:
        """Soon. In any thread; if it is cut off, it can be repeated."""
        self._is_ending = True
        self._calls.connection.soon(lambda: self._end_unsent(outcomes))

    def _end_unsent(self, outcomes: Outcomes) -> None:
        with self._lock:
            was_settled, self._is_settled = self._is_settled, True
        if not was_settled:
            self._puts.release()
            self.complete(outcomes)
        elif self._call is not None:  # its task was sent meanwhile
            self._calls.connection.post(CancelRequested((self._task_id,)), is_batch=True)


def _told(error: BaseException) -> TaskError:
    """An exception that is ours to pass on, as a worker would tell it."""
    try:
        serialized = b"".join(values.dumps(portable(error)))
        values.loads(serialized)
    except BaseException:  # noqa: BLE001 user code runs in both directions
        serialized = b""
    kind = type(error)
    return TaskError(codes.TASK_RAISED, f"{kind.__module__}.{kind.__qualname__}", str(error), serialized=serialized)
