"""Calls that take the values of futures: they leave when these have ended. (CLI-14)

Theory of operation. The bytes of a result are passed on as they are, without being read here: a result of the same
connection, made by the same serializer, is a part like any other, and a large one lies in the storage already. Such a
future is *lent*: its object stays until it is dropped, and the call keeps it until its own task has ended. Any other
future has a value to be serialized, which runs user code: that is done in a thread of its own, which waits for nothing
but the storage, and for no value longer than the client's timeout. If another thread reads the value meanwhile, or its
task runs again, the value is read again behind those of other calls.

A future that failed or was canceled ends the call the same way, with the same error. Canceling the call ends nothing
but itself.

The hooks run in the IO thread, with locks held, so they only note what has come and post. A long chain of calls that
wait for one another must not become as deep a recursion when the first of them fails: what ends here is done by one
loop for each thread.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from scaler.client.core.records import Collector, Outcomes, Submission, outcome_of
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
_endings = threading.local()


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
        # Posting may end the task at once, in this thread: when the connection is closed.
        self._lock = waits.RLock()

    @property
    def missing_count(self) -> int:
        return self._missing

    def start(self) -> None:
        try:
            self._calls.connection.deferred[self._task_id] = self
            for position, future in list(self._futures.items()):
                self._await(position, future)
            self._one_less()
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """When its task is with the core already, that will end it."""
        self._end(outcome_of(self._task_id, codes.STATUS_CANCELED))

    def complete(self, outcomes: Outcomes) -> None:
        self._calls.connection.deferred.pop(self._task_id, None)
        self._parts, self._futures, self._call = [], {}, None
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
                self._is_settled = True
                self._calls.connection.post(submission)
                self._puts.hand_over()
                return
        self._puts.release()  # canceled while they were stored

    def _end(self, outcomes: Outcomes) -> None:
        with self._lock:
            if self._is_settled:
                return
            self._is_settled = True
        self._puts.release()
        _one_after_another(lambda: self.complete(outcomes))


def _one_after_another(job: Callable[[], None]) -> None:
    waiting: deque[Callable[[], None]] | None = getattr(_endings, "jobs", None)
    if waiting is not None:
        waiting.append(job)
        return
    jobs = _endings.jobs = deque([job])
    try:
        while jobs:
            jobs.popleft()()
    finally:
        del _endings.jobs


def _told(error: BaseException) -> TaskError:
    """An exception that is ours to pass on, as a worker would tell it."""
    try:
        serialized = b"".join(values.dumps(portable(error)))
        values.loads(serialized)
    except BaseException:  # noqa: BLE001 user code runs in both directions
        serialized = b""
    kind = type(error)
    return TaskError(codes.TASK_RAISED, f"{kind.__module__}.{kind.__qualname__}", str(error), serialized=serialized)
