"""Event loops: what may block is done in threads, which call back into the loop when it is done.

Theory of operation. An `await` of a future takes no thread while the task runs: the end of the task calls back. A small
result is then read in the thread of the callbacks. A result that has to be fetched, or is large, is read in one of at
most `MOST_READERS` threads: reading may wait for the storage, and even for a task that runs again.

`async for` reads the program's iterable and fetches values, and both may take as long as they like. So other threads do
that, and no result waits for them.
"""

from __future__ import annotations

import _thread
import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from scaler.client.futures.waiting import program_exits, stand_still_at_exit
from scaler_protocol import waits

_log = logging.getLogger("scaler")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Job = Callable[[], None]

MOST_READERS = 64
"""How many results are read at the same time; others wait for their turn."""
MOST_ITERATING = 4_096
"""How many `async for` wait in threads at the same time. A client has no more streams open than this."""


class Pending(Protocol[T_co]):
    """A future of the client."""

    def result(self) -> T_co: ...

    def exception(self) -> BaseException | None: ...

    def cancel(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def reads_slowly(self) -> bool: ...

    def add_done_callback(self, fn: Callable[[Any], object]) -> None: ...


class Threads:
    """Does jobs side by side. A thread ends when no job is left. The exit of the program waits for none of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = waits.RLock()
        self._count = 0
        #: jobs that wait for a thread: none, unless no further thread can be started
        self._jobs: deque[Job] = deque()

    def run(self, job: Job) -> None:
        with self._lock:
            if self._count == self._most:
                self._jobs.append(job)
                return
            self._count += 1
        try:
            _thread.start_new_thread(self._work, (job,))  # unlike a Thread's start, this does not wait for it
        except RuntimeError:  # the system gives no more threads
            self._do_without(job)

    def _do_without(self, job: Job) -> None:
        with self._lock:
            self._count -= 1
            if self._count:
                self._jobs.append(job)  # for one of the others
                return
        job()

    def _work(self, job: Job | None) -> None:
        while job is not None:
            try:
                job()
            except BaseException:  # noqa: BLE001 the jobs behind it would wait for a thread that has ended
                _log.exception("a job of a thread that reads results has failed")
            with self._lock:
                job = self._jobs.popleft() if self._jobs else None
                if job is None:
                    self._count -= 1


reading, iterating = Threads(MOST_READERS), Threads(MOST_ITERATING)


def _renew() -> None:
    """In a forked child, where the threads are not."""
    global reading, iterating
    reading, iterating = Threads(MOST_READERS), Threads(MOST_ITERATING)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew)


def tell(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: Any) -> None:
    """Call this in the loop's thread. Safe in any thread, and waits for nothing."""
    try:
        if program_exits.is_set():
            loop.call_soon_threadsafe(stand_still_at_exit)
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:  # the loop is closed, so nothing waits there any more
        if not loop.is_closed():
            raise


def _settle(waiting: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    """In the loop's thread."""
    if waiting.done():
        return  # it was canceled
    if error is None:
        waiting.set_result(value)
        return
    waiting.set_exception(error)


async def in_thread(job: Callable[[], T]) -> T:
    """Returns or raises what the job does, which runs in a thread. For `async for`."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[T] = loop.create_future()

    def work() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = job()
        except BaseException as raised:  # noqa: BLE001 the coroutine that waits gets it, whatever it is
            error = raised
        tell(loop, _settle, waiting, value, error)

    iterating.run(work)
    return await waiting


def ending_of(future: Pending[T]) -> asyncio.Future[T]:
    """A future of the running loop that ends as this one does. If it is canceled, so is the task."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[T] = loop.create_future()
    waiting.add_done_callback(partial(_cancel_too, future))
    future.add_done_callback(partial(_ended, waiting, loop))
    return waiting


def _cancel_too(future: Pending[Any], waiting: asyncio.Future[Any]) -> None:
    if waiting.cancelled():
        future.cancel()


def _ended(waiting: asyncio.Future[Any], loop: asyncio.AbstractEventLoop, future: Pending[Any]) -> None:
    """In the thread of the callbacks, or in the loop's own if the task had ended before."""
    if future.cancelled():
        tell(loop, waiting.cancel)
    elif future.reads_slowly():
        reading.run(partial(_read, waiting, loop, future))
    else:
        _read(waiting, loop, future)


def _read(waiting: asyncio.Future[Any], loop: asyncio.AbstractEventLoop, future: Pending[Any]) -> None:
    value: Any = None
    try:
        error = future.exception()
        if error is None:
            value = future.result()
    except BaseException as raised:  # noqa: BLE001 such as what a type raises when it is unpickled
        error = raised
    tell(loop, _settle, waiting, value, error)
