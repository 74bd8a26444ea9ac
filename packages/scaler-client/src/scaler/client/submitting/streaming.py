"""`imap`: the results of a map one by one, while its iterables are still being read.

Theory of operation. The items leave in batches, as those of `map` do. What counts for the window is an item from the
moment it is read until its result is taken: a program that takes its results slowly stops the reading of its iterables.
Everything happens in the thread that asks for the next result, so an iterable needs no lock, and one that blocks keeps
the results that come meanwhile for as long as it does.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from scaler.client import errors
from scaler.client.core.records import Fetch, Outcomes, brought, each_of
from scaler.client.futures.waiting import yielding
from scaler.client.submitting.calls import Calls
from scaler.client.submitting.mapping import Gathering, MapRun
from scaler.client.submitting.options import whole
from scaler.utility.exceptions import ClientQuitException
from scaler_protocol import task_context
from scaler_protocol.ids import TaskId
from scaler_protocol.waits import Event

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_END = object()
_LATER: Any = object()
"""In the place of a value that has not arrived."""
WINDOW = 1_024
"""Unless the program says otherwise: several batches for a hundred workers, and not so much that reading ahead of slow
tasks surprises."""


def window_of(window: int | None) -> int:
    """TypeError and ValueError for what is none."""
    if window is None:
        return WINDOW
    if whole("window", window, bits=31) < 1:
        raise ValueError(f"window must be 1 or more, got {window}: no item could be read")
    return window


class Failed(NamedTuple):
    """In the place of a value."""

    exception: BaseException


class Places(Protocol):
    """Values that have arrived and are not taken yet."""

    def __setitem__(self, position: int, value: Any) -> None: ...

    def __len__(self) -> int: ...

    def has_next(self) -> bool: ...

    def take(self) -> Any: ...


class InOrder:
    """The next is that of the next item."""

    def __init__(self) -> None:
        self._values: dict[int, Any] = {}
        self._next = 0

    def __setitem__(self, position: int, value: Any) -> None:
        self._values[position] = value

    def __len__(self) -> int:
        return len(self._values)

    def has_next(self) -> bool:
        return self._next in self._values

    def take(self) -> Any:
        value = self._values.pop(self._next)
        self._next += 1
        return value


class AsTheyCome:
    """The next is the one that came first."""

    def __init__(self) -> None:
        self._values: deque[Any] = deque()

    def __setitem__(self, position: int, value: Any) -> None:
        self._values.append(value)

    def __len__(self) -> int:
        return len(self._values)

    def has_next(self) -> bool:
        return bool(self._values)

    def take(self) -> Any:
        return self._values.popleft()


class Streaming(Gathering):
    """Keeps what has arrived until it is taken; a failure is told in its place."""

    def __init__(self, calls: Calls, places: Places) -> None:
        super().__init__(calls)
        self.values = places
        #: its client is leaving: what is in flight is still waited for
        self.is_leaving = False
        self._has_come = Event()
        #: called when something has arrived, in the IO thread: it must not wait
        self.wake: Callable[[], None] | None = None

    def complete(self, outcomes: Outcomes) -> None:
        super().complete(outcomes)
        self._has_come.set()
        self._call_back()

    def expect(self, ids: Sequence[TaskId]) -> None:
        if self.is_leaving or self.calls.connection.is_closed:
            raise ClientQuitException(
                "cannot schedule new futures after shutdown: no further item of this imap is sent"
            )
        super().expect(ids)

    def wait_for_end(self) -> None:
        """Until what is in flight has ended, from now on without further items: the thread that takes the results may
        be the one that waits here."""
        self.is_leaving = True
        while True:
            self._has_come.clear()
            if self not in self.calls.connection.pending_collectors(self.calls.owner):
                return
            yielding(self._has_come.wait)

    def abandon(self) -> None:
        super().abandon()
        self.calls.maps.discard(self)
        self._call_back()

    def drop(self) -> None:
        super().drop()
        self.calls.maps.discard(self)

    def bring(self, fetch: Fetch) -> None:
        """Fetches the values that lie in the storage, because the client of this stream leaves: values of results that
        have arrived and are not taken."""
        for _ in range(len(self._arrived)):
            try:
                outcomes = self._arrived.popleft()
            except IndexError:  # another thread takes them, at the same time
                return
            rest = [outcomes] if not any(outcomes.kinds) else list(each_of(outcomes))
            try:
                while rest:
                    self._arrived.append(brought(rest[0], fetch))
                    del rest[0]
            finally:
                self._arrived.extend(rest)
                self._has_arrived.set()

    def _call_back(self) -> None:
        if (wake := self.wake) is not None:
            wake()

    def _make_places(self, count: int) -> None:
        """Each is made by the value that comes."""

    @property
    def held_count(self) -> int:
        return len(self.positions) + len(self.values)  # until its result is taken

    def _fail(self, failed: list[tuple[int, Outcomes]], end_at: float) -> None:
        for position, outcomes in failed:
            self.values[position] = Failed(errors.raised_by(outcomes, self.calls.connection, end_at))


class InALoop(Iterator[T]):
    """An iterator that waits for what it returns, for programs with an event loop too."""

    @abstractmethod
    def close(self) -> None:
        """End the iteration."""

    def __iter__(self) -> Self:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """As `next`, without blocking the event loop. Canceling the wait closes this iterator."""
        import asyncio  # not needed, and slow to import, for programs without a loop

        try:
            found = await self._awaited()
        except asyncio.CancelledError:
            self.close()
            raise
        if found is _END:
            raise StopAsyncIteration
        value: T = found
        return value

    async def _awaited(self) -> Any:
        """The next value, or the mark of the end. A thread waits for it."""
        from scaler.client.futures.looping import in_thread

        return await in_thread(partial(next, self, _END))


class Results(InALoop[T]):
    """The results of one `imap`. `close` cancels what has not ended, and so does a failure, an interrupt, or dropping
    this object."""

    def __init__(
        self,
        make_run: Callable[[Streaming], MapRun],
        calls: Calls,
        end_at: float | None,
        *,
        is_ordered: bool,
        keeper: object,
    ) -> None:
        #: the client, which would close a connection that no object of the program uses any more
        self._keeper = keeper
        self._gathering = Streaming(calls, InOrder() if is_ordered else AsTheyCome())
        self._end_at = end_at
        self._is_closed = False
        self._has_more = True
        self._run = make_run(self._gathering)
        calls.maps.add(self._gathering)
        try:
            self._send()
        except BaseException:
            self.close()
            raise

    def __next__(self) -> T:
        found = self._step(is_waiting=True)
        if found is _END:
            raise StopIteration
        value: T = found
        return value

    def _step(self, *, is_waiting: bool) -> Any:
        """The next value, or the mark of the end. If it has not arrived, and is not to be waited for, another mark."""
        if self._is_closed:
            return _END
        gathering = self._gathering
        try:
            self._send()
            gathering.take(self._end_at, is_waiting=False)
            while not gathering.values.has_next():
                if self._send():
                    gathering.take(self._end_at, is_waiting=False)
                elif self._is_closed:  # by another thread
                    return _END
                elif not gathering.positions:
                    gathering.calls.connection.wait_for_prints()
                    self.close()
                    return _END
                elif is_waiting or self._remaining() <= 0:
                    gathering.take(self._end_at, is_waiting=True)
                else:
                    gathering.calls.connection.hasten()
                    return _LATER
            return self._take()
        except (StopIteration, StopAsyncIteration) as error:
            self.close()
            # Of the program's iterable, or of what makes bytes of an item. As itself it would pass for our end.
            raise RuntimeError(f"{type(error).__name__} was raised while an item of imap() was sent") from error
        except BaseException:
            self.close()
            raise

    def _take(self) -> Any:
        value = self._gathering.values.take()
        if type(value) is Failed:
            raise value.exception
        return value

    def _remaining(self) -> float:
        return math.inf if self._end_at is None else self._end_at - time.monotonic()

    def _send(self) -> bool:
        """One batch, if there is room for it. When the client is leaving, first what is in flight is taken."""
        gathering = self._gathering
        if not self._has_more or not self._run.has_room() or (gathering.is_leaving and gathering.held_count):
            return False
        self._has_more = self._run.send_batch()
        if self._is_closed:  # by another thread, while this one read the iterable
            self._gathering.abandon()
        return self._has_more

    # ------------------------------------------------------------ in an event loop

    async def _awaited(self) -> Any:
        """A thread sends and reads, and ends when nothing is left to do. Then the next arrival calls back."""
        if task_context.current() is not None:
            return await super()._awaited()  # a thread that waits in a task lends the place of the task
        import asyncio

        from scaler.client.futures.looping import in_thread

        while True:
            if self._is_at_hand():
                await asyncio.sleep(0)  # or a loop over a large window would keep others from their turn
                return self._take_at_hand()
            found = await in_thread(partial(self._step, is_waiting=False))
            if found is not _LATER:
                return found
            await self._arrival()

    def _is_at_hand(self) -> bool:
        """The next value is in its place, and no item is to be sent before it is taken."""
        has_next = not self._is_closed and self._gathering.values.has_next()
        return has_next and not (self._has_more and self._run.has_room())

    def _take_at_hand(self) -> Any:
        try:
            return self._take()
        except BaseException:
            self.close()
            raise

    async def _arrival(self) -> None:
        """Until something has arrived, or the time is over."""
        import asyncio

        from scaler.client.futures.looping import tell

        loop, has_arrived, remaining = asyncio.get_running_loop(), asyncio.Event(), self._remaining()
        self._gathering.wake = partial(tell, loop, has_arrived.set)
        timer = None if remaining == math.inf else loop.call_later(remaining, has_arrived.set)
        try:
            if self._gathering.has_to_wait():  # it may have come before it could call back
                await has_arrived.wait()
        finally:
            self._gathering.wake = None
            if timer is not None:
                timer.cancel()

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """Cancel what has not ended. There are no further results. A second time this does nothing."""
        self._is_closed = True
        if not self._gathering.has_left:
            self._gathering.abandon()

    def __del__(self) -> None:
        gathering = getattr(self, "_gathering", None)
        if gathering is not None and not gathering.has_left:
            gathering.drop()
