"""An agent's wait for descriptors: the system's own poll, or the same on an event loop that the operator has chosen."""

from __future__ import annotations

import asyncio
import select
from typing import Protocol

from scaler_protocol.process.event_loop import new_event_loop


class Poller(Protocol):
    """As `select.poll`: descriptors, POLLIN and POLLOUT, milliseconds or None for as long as it takes."""

    def register(self, descriptor: int, flags: int) -> None: ...

    def unregister(self, descriptor: int) -> None: ...

    def poll(self, timeout: int | None) -> list[tuple[int, int]]: ...


def new_poller(event_loop: str) -> Poller:
    """The built-in choice has no loop around it: between two waits an agent wants nothing of one. Nor is it ZeroMQ's
    poller, which asks each of its sockets several times over: a descriptor and `settle` after each round do as well."""
    return select.poll() if event_loop == "builtin" else LoopPoller(new_event_loop(event_loop))


class LoopPoller:
    """Runs the loop until something is ready."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: dict[int, int] = {}

    def register(self, descriptor: int, flags: int) -> None:
        self._loop.add_reader(descriptor, self._note, descriptor, select.POLLIN)
        if flags & select.POLLOUT:
            self._loop.add_writer(descriptor, self._note, descriptor, select.POLLOUT)
        else:
            self._loop.remove_writer(descriptor)

    def unregister(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)
        self._ready.pop(descriptor, None)

    def poll(self, timeout: int | None) -> list[tuple[int, int]]:
        self._ready.clear()
        timer = None if timeout is None else self._loop.call_later(timeout / 1000, self._loop.stop)
        self._loop.run_forever()
        if timer is not None:
            timer.cancel()
        return list(self._ready.items())

    def _note(self, descriptor: int, flag: int) -> None:
        self._ready[descriptor] = self._ready.get(descriptor, 0) | flag
        self._loop.stop()
