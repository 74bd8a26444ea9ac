"""A generator task in its processor: each value is stored when it is yielded. (WRK-59, WRK-60)"""

from __future__ import annotations

import contextlib
import inspect
import secrets
from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence
from typing import Any

from scaler_protocol import task_context
from scaler_protocol.codes import EXISTS, STORAGE_UNREACHABLE, WORKER_LOST
from scaler_protocol.errors import ObjectNotFound, ObjectStorageException, StorageError
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import Buffer
from scaler_protocol.running.calls import Context, Objects, serialized
from scaler_protocol.running.errors import TaskFailed
from scaler_protocol.streams import BEGUN, CREDIT, VALUE, StreamId, Writing, stream_object_id

CREDIT_WAIT_SECONDS = 5.0
"""One wait for a credit at the storage. A client may be slow for as long as it likes: the task waits again, as long as
what says that the stream has begun is there."""

AT_ONCE_SECONDS = 0.005
"""A client that takes values as fast as they come has stored its credit by then: no place need be lent for that."""


class Outlet:
    """What a task needs of its processor to leave values in the storage, in the name of its client."""

    def __init__(self, objects: Objects, context: Context) -> None:
        self._objects = objects
        self._context = context

    def put(self, object_id: ObjectId, pieces: Sequence[Buffer]) -> None:
        owner = self._context.owner
        self._objects.ask(lambda storage: storage.put(object_id, owner.peer_id, pieces, owner.grant))

    def get(self, object_id: ObjectId, wait_seconds: float) -> Buffer | None:
        """None: there is no such object, and none has come in that time."""
        try:
            return self._objects.ask(
                lambda storage: storage.start_get(object_id, wait_seconds, self._context.owner).finish()
            )
        except ObjectNotFound:
            return None

    def release(self, ids: Sequence[ObjectId]) -> None:
        owner = self._context.owner
        self._objects.ask(lambda storage: storage.release(owner.peer_id, ids, grant=owner.grant))

    def serialized(self, value: Any) -> list[Buffer]:
        return serialized(value, self._context, self._objects, "value that the task has yielded")


def run(
    function: Callable[..., Any], stream: StreamId, window: int, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Any:
    """What the generator returns, when all that it has yielded is stored."""
    context = task_context.current()
    outlet = None if context is None else context.outlet
    if context is None or outlet is None:
        raise TypeError("the values of a task are streamed from a processor of a worker only")
    _begin(outlet, stream)
    values = _iterator_of(function, function(*arguments, **keywords))
    writing = Writing(window)
    try:
        while True:
            if not writing.has_room:
                _wait_for_credit(context, outlet, stream, writing)
            try:
                value = next(values)
            except StopIteration as end:
                return end.value
            _store(outlet, stream_object_id(stream, VALUE, writing.count), value)
            writing.count += 1
    finally:
        try:
            close = getattr(values, "close", None)
            if close is not None:
                close()  # if the task is canceled while the generator is not running, its `finally` runs here
        finally:
            _leave(outlet, stream, writing)


def _begin(outlet: Outlet, stream: StreamId) -> None:
    """The first run of the generator leaves its mark, and every other finds that of the first. (WRK-60)"""
    begun, mark = stream_object_id(stream, BEGUN, 0), secrets.token_bytes(16)
    try:
        outlet.put(begun, [mark])
        found = outlet.get(begun, 0.0)
    except StorageError as error:
        if error.code != EXISTS:
            raise TaskFailed(STORAGE_UNREACHABLE, f"the stream cannot begin on this worker: {error}") from error
        found = None
    if found is None or bytes(found) != mark:
        text = (
            "the worker that ran this generator was lost, or has left: the values that it had stored are delivered, "
            "and a generator is not begun a second time"
        )
        raise TaskFailed(WORKER_LOST, text, has_run=True)


def _iterator_of(function: Callable[..., Any], made: Any) -> Iterator[Any]:
    try:
        return iter(made)
    except TypeError:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        is_async = isinstance(made, AsyncIterable) or inspect.isawaitable(made)
        hint = "; asynchronous generators cannot be streamed" if is_async else ""
        raise TypeError(
            f"stream() takes a function that returns an iterator, and {name} has returned a {type(made).__name__}{hint}"
        ) from None


def _store(outlet: Outlet, object_id: ObjectId, value: Any) -> None:
    pieces = outlet.serialized(value)
    try:
        outlet.put(object_id, pieces)
    except StorageError as error:
        raise ObjectStorageException(f"a value that the task has yielded cannot be stored: {error}") from error


def _check_mark(outlet: Outlet, stream: StreamId, writing: Writing) -> None:
    """A client that has cleared the stream away takes no other value, and its Cancel may never come: its scheduler was
    lost, or this worker is cut off from the scheduler. (WRK-60)"""
    if outlet.get(stream_object_id(stream, BEGUN, 0), 0.0) is None:
        outlet.release([stream_object_id(stream, VALUE, number) for number in writing.unread()])
        raise ObjectStorageException("the client has left the stream, and has taken no further value")


def _leave(outlet: Outlet, stream: StreamId, writing: Writing) -> None:
    """Ends with the generator, perhaps while a value was on its way to the storage. (WRK-60)

    The answer comes behind everything that this task has sent to the storage. So if the mark is there, all values have
    arrived before the end of the task is told, and the client that clears the stream then finds them. If it is not, the
    client has cleared the stream before, as one does whose scheduler has given this worker up, and only this task knows
    of what came after that.
    """
    with contextlib.suppress(StorageError):  # cut off from the storage: what is there goes with its client
        if outlet.get(stream_object_id(stream, BEGUN, 0), 0.0) is None:
            numbers = range(writing.unread().start, writing.count + 1)
            outlet.release([stream_object_id(stream, VALUE, number) for number in numbers])


def _wait_for_credit(context: task_context.TaskContext, outlet: Outlet, stream: StreamId, writing: Writing) -> None:
    """The task lends its place meanwhile: its client may wait for another task before it takes the next value."""
    credit = stream_object_id(stream, CREDIT, writing.credits + 1)
    try:
        if outlet.get(credit, AT_ONCE_SECONDS) is None:
            context.block()
            while outlet.get(credit, CREDIT_WAIT_SECONDS) is None:
                _check_mark(outlet, stream, writing)
            context.unblock()  # not after an interrupt: what cleans up needs no place, and none may be given any more
    except StorageError as error:
        raise ObjectStorageException(f"the task cannot tell how many of its values were taken: {error}") from error
    writing.credits += 1
