"""Glue between endpoints and an asyncio loop, the built-in one or uvloop. Not zmq.asyncio: that costs ten times as
much per message as to watch the descriptor and drain."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from scaler_protocol.session import SessionEvent
from scaler_protocol.transport.dealer import DealerEndpoint
from scaler_protocol.transport.router import RouterEndpoint

Endpoint = RouterEndpoint | DealerEndpoint
Handler = Callable[[list[SessionEvent], float], None]


class AsyncioDriver:
    """At each wake-up every endpoint is polled and its handler called, then all are settled: a handler may send on any
    of them. Handlers are also called with no events, when `next_deadline` of the role has come or `wake` was called.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        handler: Handler,
        *,
        next_deadline: Callable[[], float | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handlers: list[tuple[Endpoint, Handler]] = [(endpoint, handler)]
        self._next_deadline = next_deadline
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watched: dict[Endpoint, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False  # a turn is scheduled with call_soon

    def add(self, endpoint: Endpoint, handler: Handler) -> None:
        """Another endpoint of the same role, such as the scheduler's to its storage."""
        self._handlers.append((endpoint, handler))
        if self._loop is not None:
            self.wake()

    def start(self) -> None:
        """Inside the running loop."""
        self._loop = asyncio.get_running_loop()
        self.wake()

    def wake(self) -> None:
        """Take a turn soon: the role did something outside a handler, or there is more to read."""
        if self._loop is not None and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn_due)

    def stop(self) -> None:
        """Watch nothing any more. The endpoints stay open: closing them is their owner's."""
        if self._loop is None:
            return
        for descriptor in self._watched.values():
            self._loop.remove_reader(descriptor)
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None

    def _turn_due(self) -> None:
        self._is_due = False
        self._turn()

    def _turn(self) -> None:
        if self._loop is None:
            return
        now = self._clock()
        for endpoint, handler in self._handlers:
            events = endpoint.poll(now)
            self._watch(endpoint)
            handler(events, now)
            if self._loop is None:  # the handler stopped us
                return
        is_more = False
        for endpoint, _ in self._handlers:
            is_more |= endpoint.settle(now)
        if is_more:
            self.wake()  # not at once: other work of the loop has its turn in between
        else:
            self._set_timer()

    def _watch(self, endpoint: Endpoint) -> None:
        """A dialer's socket changes with every dial; the old one is open for one more turn."""
        assert self._loop is not None
        descriptor = endpoint.fileno()
        watched = self._watched.get(endpoint)
        if watched == descriptor:
            return
        if watched is not None:
            self._loop.remove_reader(watched)
        self._watched[endpoint] = descriptor
        self._loop.add_reader(descriptor, self._turn)

    def _set_timer(self) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._earliest_deadline()
        if deadline is not None:
            self._timer = self._loop.call_later(max(0.0, deadline - self._clock()), self._turn)

    def _earliest_deadline(self) -> float | None:
        deadlines = [endpoint.next_deadline() for endpoint, _ in self._handlers]
        if self._next_deadline is not None:
            deadlines.append(self._next_deadline())
        known = [deadline for deadline in deadlines if deadline is not None]
        return min(known) if known else None
