"""`stream`: the values of a generator that runs as a task, while it runs. (CLI-27 to CLI-29)

Theory of operation. To the scheduler the generator is one task. What it yields lies in the storage, under ids that both
sides compute (`scaler_protocol.streams`), and this side waits there for the next value. The end of the task ends that
wait: what was stored before it is still found, and what is not found then was never yielded. So the task's own result,
or its exception, or its loss, comes in its place behind the values.

What has to be cleared away is known by `_Open`, which the callback of the task's future keeps: a program may drop the
stream at any moment, and only when the task has ended is nothing stored any more.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from scaler.client.core.records import Outcomes, outcome_of
from scaler.client.future import ScalerFuture
from scaler.client.futures.waiting import yielding
from scaler.client.io import dropping
from scaler.client.io.connection import Connection
from scaler.client.submitting.calls import Calls
from scaler.client.submitting.options import CallOptions, whole
from scaler.client.submitting.signatures import check_call
from scaler.client.submitting.streaming import InALoop
from scaler.utility.exceptions import DisconnectedError, MissingObjects, ObjectStorageException, WorkerDiedError
from scaler_protocol import codes
from scaler_protocol.errors import ObjectNotFound, StorageError
from scaler_protocol.ids import ObjectId, Owner, TaskId
from scaler_protocol.messages import Buffer
from scaler_protocol.objects import PendingGet
from scaler_protocol.streams import (
    BEGUN,
    CREDIT,
    MOST_WINDOW,
    VALUE,
    Streamed,
    StreamId,
    Taking,
    step_of,
    stream_object_id,
)

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

T = TypeVar("T")

_NOTHING = object()
_LEFT = (
    "the session with the scheduler was lost before all values of the stream were taken, and what was left is gone "
    "with it: call stream() again"
)
WINDOW = 16
"""Unless the program says otherwise: enough to cover the round trips of tiny values, and not so much that large ones
fill the storage."""
WAIT_SECONDS = 10.0
"""One wait for a value at the storage. It is also how long the storage waits on for a stream that has ended."""
LARGE_BYTES = 64 * 1024
"""Above that a value is released at once when it is taken."""
MOST_STREAMS = 4_096
"""Of one client, open at a time. (LIM-28)"""


def window_of(window: int) -> int:
    """TypeError and ValueError for what is none."""
    if not 1 <= whole("window", window, bits=31) <= MOST_WINDOW:
        raise ValueError(f"window must be from 1 to {MOST_WINDOW:,}, got {window}")
    return int(window)


class StreamFuture(ScalerFuture[T]):
    """Of the task that runs the generator: its result is what the generator returns."""

    __slots__ = ("told",)
    runs_once = True
    #: called when the cluster has said how the task ended
    told: Callable[[], None]

    def cancel(self, timeout: float | None = None) -> bool:
        """Cancels the task as other futures do. The generator may store values until the cluster has stopped it, so
        only the cluster's answer is `told`."""
        if timeout is not None or self.done():
            return super().cancel(timeout)
        assert isinstance(self._connection, Connection)
        self._connection.cancel((self._task_id,))
        audience, canceled = self._watched(), outcome_of(self._task_id, codes.STATUS_CANCELED)
        is_awaited = bool(audience.borrowers)
        with audience.condition.noted():
            self._end_before(audience, canceled)
        self._connection.soon(partial(self._tell, audience, canceled))
        if is_awaited:
            self._connection.wait_until_told()
        return self.cancelled()

    def complete(self, outcomes: Outcomes) -> None:
        super().complete(outcomes)
        self.told()


class _Open:
    """What is stored of one stream, and how to be rid of it. Refers neither to the stream nor to its future."""

    def __init__(self, calls: Calls, task_id: TaskId, window: int) -> None:
        self.connection = calls.connection
        self.task_id = task_id
        self.id = StreamId(os.urandom(16))
        self.taking = Taking(window)
        self.owner = self.connection.storage.present_owner()
        #: every name under which something of it may be stored: after a lost session there are two
        self._owners = {self.owner}
        #: no thread of the program will take another value
        self.is_closed = False
        self.is_canceled = False
        #: all is done that is to be done when it is closed
        self.has_left = False
        self.has_ended = False
        #: what a thread waits for
        self.pending: PendingGet | None = None

    def note_end(self) -> None:
        """The cluster has said that the task has ended: from now on nothing is stored."""
        self.has_ended = True
        self.connection.streams.pop(self.task_id, None)
        self.wake()
        if self.is_closed:
            self.clear()

    def wake(self, _future: object = None) -> None:
        pending = self.pending
        if pending is not None:
            pending.give_up()

    def close(self) -> None:
        """No value is wanted any more."""
        self.is_closed = True
        if self.has_ended:
            self.clear()
        else:
            self.connection.cancel((self.task_id,))
        self.wake()
        self.has_left = True

    def drop(self) -> None:
        """The same, safe in a destructor, wherever it runs: takes no lock."""
        self.is_closed = True
        if self.has_ended:
            dropping.run_apart(self.clear)
        else:
            dropping.cancel(self.connection, (self.task_id,))
        self.has_left = True

    def make_sure(self) -> None:
        """The stream is gone; perhaps an interrupt has come between the lines of its `close`. In the IO thread."""
        if not self.has_left:
            self.drop()

    def name_owner(self) -> None:
        """Under which our values are stored now."""
        self.owner = self.connection.storage.present_owner()
        self._owners.add(self.owner)

    def readers(self) -> list[Owner]:
        """The names under which something of it may be stored, those that may read first."""
        every = self._every_owner()
        return [owner for owner in every if owner.grant] or every[:1]

    def clear(self) -> None:
        self._release(self._ids(self.taking.leftovers()))

    def release_taken(self) -> None:
        taking = self.taking
        self._release(self._ids(taking.releasable()))
        taking.released()

    def _release(self, ids: list[ObjectId]) -> None:
        for owner in self._every_owner():
            self.connection.storage.release_as(owner, ids)

    def _every_owner(self) -> list[Owner]:
        """The present one first. The task may have been sent in a later session than the one in which it was made. What
        is stored under names between these and the present one is gone with them."""
        now = self.connection.storage.owner_now()
        self._owners.add(now)
        return [now, *(self._owners - {now})]

    def _ids(self, named: list[tuple[int, int]]) -> list[ObjectId]:
        return [stream_object_id(self.id, kind, number) for kind, number in named]


def _open_count(streams: dict[TaskId, Any]) -> int:
    """Of those that have not ended. An interrupt may have kept one from being sent: then it is dead, and never ends."""
    if len(streams) >= MOST_STREAMS:
        for task_id, opened in list(streams.items()):
            if opened() is None:
                streams.pop(task_id, None)
    return len(streams)


class ScalerStream(InALoop[T]):
    """The values of one `Client.stream`, in the order in which the generator yields them.

    One thread takes them at a time; `cancel` and `close` may come from any. An interrupt of `next` loses no value: the
    next call returns it. When the generator has ended, StopIteration has what it returned. What it raised comes up
    behind its last value; so do WorkerDiedError and ProcessorDiedError, because a generator is never begun again. If
    the client loses its session, such as by an interrupt of any thread while it sends, values that were not taken are
    lost, and DisconnectedError comes in their place.
    """

    def __init__(
        self,
        calls: Calls,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: CallOptions,
        window: int,
        keeper: object,
    ) -> None:
        check_call(function, len(args), kwargs)
        connection = calls.connection
        if _open_count(connection.streams) >= MOST_STREAMS:
            raise RuntimeError(f"{MOST_STREAMS:,} streams of this client are open: end or cancel some of them first")
        connection.storage.meet()
        self._calls = calls
        self._is_over = False
        #: the value to be returned next, when it is here
        self._value: Any = _NOTHING
        self._is_large = False
        self._count = 0
        #: small values are released as many together as one credit is for
        self._step = step_of(window)
        task_id = connection.new_task_ids(1)[0]
        self._open = _Open(calls, task_id, window)
        self._restarts = connection.storage.restarts
        name = getattr(function, "__name__", "")
        self._future: StreamFuture[Any] = StreamFuture(task_id, connection, calls.serializer, keeper, name)
        connection.drops.after(self, self._open.make_sure)
        connection.streams[task_id] = weakref.ref(self._open)
        self._future.told = self._open.note_end
        self._future.add_done_callback(partial(_Open.wake, self._open))
        try:
            callee, arguments = calls.callee(Streamed(function), (self._open.id, window, *args))
            calls.submit(callee, arguments, kwargs, options, task_id, self._future)
        except BaseException:
            self._open.close()
            connection.streams.pop(task_id, None)
            raise

    @property
    def task_id(self) -> TaskId:
        """The 16 bytes that name the generator's task in the cluster."""
        return self._open.task_id

    @property
    def future(self) -> ScalerFuture[Any]:
        """The future of the task that runs the generator: its result is what the generator returns."""
        return self._future

    # ------------------------------------------------------------ values

    def __next__(self) -> T:
        """The next value, waiting for it. Raises what the generator raised, CancelledError after `cancel`, and
        ObjectStorageException when the storage cannot be reached (the stream goes on when it can be again)."""
        if self._is_over:
            raise StopIteration
        if self._value is _NOTHING:
            data = self._fetch()
            if data is None:
                self._finish()
            self._is_large = len(data) > LARGE_BYTES
            self._value = self._read(data)
        self._acknowledge()
        # In one step of the interpreter: what is interrupted before this is repeated.
        value, self._value, self._count = self._value, _NOTHING, self._count + 1
        found: T = value
        return found

    def _fetch(self) -> Buffer | None:
        """The bytes of the next value; None when the task has ended without it."""
        stream, future = self._open, self._future
        object_id = stream_object_id(stream.id, VALUE, self._count)
        stream.connection.hasten()
        while True:
            self._check()
            if future.done():  # before it is asked for: what is stored by then is found
                return self._stored(object_id)
            stream.name_owner()
            try:
                found = self._asked(object_id, WAIT_SECONDS, stream.owner, future.done)
            except ObjectNotFound:
                self._check_worker()
                continue
            if found is not None:
                return found

    def _stored(self, object_id: ObjectId) -> Buffer | None:
        """An object of this stream, of which no other comes any more."""
        owners = self._open.readers()
        while owners:
            self._check()
            try:
                found = self._asked(object_id, 0.0, owners[0], lambda: False)
            except ObjectNotFound:
                del owners[0]
                continue
            if found is not None:
                return found
        return None

    def _asked(
        self, object_id: ObjectId, wait_seconds: float, owner: Owner, is_in_vain: Callable[[], bool]
    ) -> Buffer | None:
        """None: the wait was given up, by `close` or because the task has ended. ObjectNotFound if it was in vain."""
        stream = self._open
        pending = stream.connection.storage.start_get(object_id, wait_seconds, owner)
        stream.pending = pending
        if stream.is_closed or is_in_vain():
            pending.give_up()
        try:
            return yielding(pending.finish)
        except ObjectNotFound:
            raise
        except StorageError as error:
            if not pending.is_given_up:
                raise ObjectStorageException(str(error)) from error
            return None
        finally:
            stream.pending = None

    def _check(self) -> None:
        if self._open.is_canceled:
            self._is_over = True
            raise CancelledError("the stream was canceled")
        if self._open.is_closed:
            self._is_over = True
            raise StopIteration
        if self._open.connection.storage.restarts != self._restarts:
            self.close()
            raise MissingObjects("the object storage was restarted while a generator streamed: its values are lost")

    def _check_worker(self) -> None:
        """Nothing has come for a while. A generator that had begun and is queued again has lost its worker; without
        another worker, which would say so, nothing would end this wait."""
        stream = self._open
        try:
            stream.connection.storage.start_get(stream_object_id(stream.id, BEGUN, 0), 0.0, stream.owner).finish()
        except StorageError:
            return  # it has not begun, or cannot be asked for now
        if stream.connection.questions.state_of(stream.task_id) == "queued" and not stream.is_closed:
            self.close()
            raise WorkerDiedError("the worker that ran this generator was lost, and a generator is not begun again")

    def _read(self, data: Buffer) -> Any:
        try:
            return self._calls.deserialize(data)
        except Exception:
            self.close()
            raise

    def _acknowledge(self) -> None:
        """The value that is about to be handed out counts as taken. Can be repeated."""
        stream, taking = self._open, self._open.taking
        taking.count = self._count + 1
        while taking.owes_credit and not stream.has_ended:
            credit = stream_object_id(stream.id, CREDIT, taking.credits + 1)
            if stream.connection.storage.put_as(stream.owner, credit, [b""]):
                taking.credits += 1
                continue
            gone = stream.owner
            stream.name_owner()
            if stream.owner == gone:
                break  # the task ends with its session, and says so behind its values
        if not taking.count % self._step or self._is_large:
            stream.release_taken()

    def _finish(self) -> NoReturn:
        try:
            value = self._future.result()
        except Exception:
            self._end()
            raise
        # It is stored before all values. Without it their owner has left, and what was not taken is gone as well.
        has_all = self._stored(stream_object_id(self._open.id, BEGUN, 0)) is not None
        self._end()
        if not has_all:
            raise DisconnectedError(_LEFT)
        raise StopIteration(value)

    def _end(self) -> None:
        self._is_over = True
        self._open.close()

    # ------------------------------------------------------------ ending

    def cancel(self) -> None:
        """Stop the generator: it is interrupted where it is, its `finally` blocks run, and it is killed when that takes
        longer than a second. Values that were not taken are dropped. From then on `next` raises CancelledError."""
        if not self._open.is_closed:
            self._open.is_canceled = True
        if not self._open.has_left:
            self._open.close()

    def close(self) -> None:
        """As `cancel`; from then on the iteration is over. Leaving a `with` block does this, and so does dropping the
        stream."""
        if not self._open.has_left:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        opened = getattr(self, "_open", None)
        if opened is not None and not opened.has_left:
            opened.drop()

    # ------------------------------------------------------------ in an event loop

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        standing = "closed" if self._open.is_closed else f"{self._count:,} taken"
        return f"<ScalerStream of {self._future!r}: {standing}>"
