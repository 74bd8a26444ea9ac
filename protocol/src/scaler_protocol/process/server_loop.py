"""asyncio's own loop, for servers: what watches a descriptor is called where the descriptor was found readable.

asyncio puts such a callback in a line, behind a handle and a context, and goes round once more: some 300 steps of the
interpreter for each wake-up, which a server with one message in hand pays for each message. Here the selector calls it,
and waits again. It goes back to the loop as soon as there is something to do there: something was scheduled, a timer is
due, or a descriptor of asyncio's own is ready, such as the one by which signals and other threads wake the loop.
(decision 0017)
"""

from __future__ import annotations

import asyncio
import math
import select
import selectors
import time
from collections.abc import Callable
from typing import Any

_MOST = 64


class _Selector(selectors.EpollSelector):
    """asyncio's selector, and beside it the readers."""

    def __init__(self) -> None:
        super().__init__()
        self._own = super().fileno()
        #: of the readers, and of asyncio's descriptors as one
        self._all = select.epoll()
        self._all.register(self._own, select.EPOLLIN)
        self.readers: dict[int, tuple[Callable[..., object], tuple[Any, ...]]] = {}
        self.on_failure: Callable[[Exception], None] = lambda error: None
        #: something was scheduled, so the loop has to find out anew how long it may wait
        self.is_wanted = False

    def watch(self, descriptor: int, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.leave(descriptor)
        self._all.register(descriptor, select.EPOLLIN)
        self.readers[descriptor] = callback, arguments

    def leave(self, descriptor: int) -> bool:
        """Whether it was watched."""
        if self.readers.pop(descriptor, None) is None:
            return False
        try:
            self._all.unregister(descriptor)
        except OSError:
            pass  # it was closed since, and so is watched no longer
        return True

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        poll, readers = self._all.poll, self.readers
        ends_at = math.inf if timeout is None else time.monotonic() + timeout
        self.is_wanted = is_own = False
        while True:
            ready = poll(timeout, _MOST)
            for descriptor, _ in ready:
                reader = readers.get(descriptor)
                if reader is None:  # asyncio's own, or one that was left in this round
                    is_own = is_own or descriptor == self._own
                    continue
                callback, arguments = reader
                try:
                    callback(*arguments)
                except Exception as error:  # noqa: BLE001 as in any callback of a loop
                    self.on_failure(error)
            if is_own:
                return super().select(0)
            if self.is_wanted or not ready:
                return []
            if timeout is not None and (timeout := ends_at - time.monotonic()) <= 0:
                return []

    def close(self) -> None:
        self._all.close()
        self.readers.clear()
        super().close()


class ServerLoop(asyncio.SelectorEventLoop):
    """Only on Linux. A reader is called outside of any handle: it cannot be canceled but by `remove_reader`."""

    def __init__(self) -> None:
        self._turns = _Selector()
        self._turns.on_failure = self._failed
        super().__init__(self._turns)

    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., object], *args: Any
    ) -> None:
        self._turns.watch(fd if isinstance(fd, int) else fd.fileno(), callback, args)

    def remove_reader(self, fd: Any) -> bool:
        return self._turns.leave(fd if isinstance(fd, int) else fd.fileno())

    def call_soon(self, *args: Any, **kwargs: Any) -> asyncio.Handle:  # type: ignore[override]
        self._turns.is_wanted = True
        return super().call_soon(*args, **kwargs)

    def call_at(self, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self._turns.is_wanted = True
        return super().call_at(*args, **kwargs)

    def stop(self) -> None:
        self._turns.is_wanted = True
        super().stop()

    def _failed(self, error: Exception) -> None:
        self.call_exception_handler({"message": "a reader raised", "exception": error})
