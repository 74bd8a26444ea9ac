"""An agent's wait for what can be read: zmq's own poller, or the same on an event loop that the operator has chosen."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import zmq

from scaler_protocol.process.event_loop import new_event_loop


class Poller(Protocol):
    def register(self, key: Any, flags: int) -> None: ...

    def unregister(self, key: Any) -> None: ...

    def poll(self, timeout: int | None) -> list[tuple[Any, int]]: ...


def new_poller(event_loop: str) -> Poller:
    """The built-in choice has no loop around it: between two waits an agent wants nothing of one."""
    return zmq.Poller() if event_loop == "builtin" else LoopPoller(new_event_loop(event_loop))


class LoopPoller:
    """Runs the loop until something is ready. Of a ZeroMQ socket it watches the descriptor, as asyncio servers do."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._descriptors: dict[Any, int] = {}
        self._ready: dict[Any, int] = {}

    def register(self, key: Any, flags: int) -> None:
        descriptor = self._descriptors[key] = _descriptor(key)
        self._loop.add_reader(descriptor, self._note, key, zmq.POLLIN)
        if flags & zmq.POLLOUT:
            self._loop.add_writer(descriptor, self._note, key, zmq.POLLOUT)
        else:
            self._loop.remove_writer(descriptor)

    def unregister(self, key: Any) -> None:
        descriptor = self._descriptors.pop(key)
        self._loop.remove_reader(descriptor)
        self._loop.remove_writer(descriptor)
        self._ready.pop(key, None)

    def poll(self, timeout: int | None) -> list[tuple[Any, int]]:
        self._ready.clear()
        timer = None if timeout is None else self._loop.call_later(timeout / 1000, self._loop.stop)
        self._loop.run_forever()
        if timer is not None:
            timer.cancel()
        return list(self._ready.items())

    def _note(self, key: Any, flag: int) -> None:
        self._ready[key] = self._ready.get(key, 0) | flag
        self._loop.stop()


def _descriptor(key: Any) -> int:
    if isinstance(key, int):
        return key
    return int(key.getsockopt(zmq.FD)) if isinstance(key, zmq.Socket) else int(key.fileno())
