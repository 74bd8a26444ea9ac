"""Glue between endpoints and an asyncio loop, the built-in one or uvloop. Not zmq.asyncio: that costs ten times as
much per message as to watch the descriptor and drain."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from scaler_protocol.codec.schema import load
from scaler_protocol.session import SessionEvent

if TYPE_CHECKING:
    import asyncio

    from scaler_protocol.transport.dealer import DealerEndpoint
    from scaler_protocol.transport.router import RouterEndpoint

Endpoint: TypeAlias = "RouterEndpoint | DealerEndpoint"
Handler = Callable[[list[SessionEvent], float], None]


class BrokenTurn(RuntimeError):
    """In place of an OSError that a turn has raised."""


class AsyncioDriver:
    """At each wake-up the endpoints that have something to read, or something due, are polled and their handlers
    called; then all are settled, because a handler may send on any of them. The first endpoint's handler is also called
    when `next_deadline` of the role has come; all are when `wake` was called. `on_failure` is called when a handler
    raised: the last chance to write down what the role knew.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        handler: Handler,
        *,
        next_deadline: Callable[[], float | None] | None = None,
        on_failure: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first = endpoint
        self._on_failure = on_failure
        self._handlers: dict[Endpoint, Handler] = {endpoint: handler}
        self._next_deadline = next_deadline
        self._deadlines = [endpoint.next_deadline, *([next_deadline] if next_deadline is not None else [])]
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watched: dict[Endpoint, int] = {}
        #: endpoints to be polled in the next turn whatever the time is
        self._ready: set[Endpoint] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._is_due = False  # a turn is scheduled with call_soon

    def add(self, endpoint: Endpoint, handler: Handler) -> None:
        """Another endpoint of the same role, such as the scheduler's to its storage."""
        self._handlers[endpoint] = handler
        self._deadlines.append(endpoint.next_deadline)
        if self._loop is not None:
            self.wake()

    def start(self) -> None:
        """Inside the running loop."""
        import asyncio  # here, because clients import this package too

        load()  # when the first peers are there, there may be no descriptor for its files
        self._loop = asyncio.get_running_loop()
        self.wake()

    def wake(self) -> None:
        """Take a turn with all endpoints soon: the role did something outside a handler."""
        self._ready.update(self._handlers)
        self._turn_soon()

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

    # ------------------------------------------------------------ turns

    def _turn_soon(self) -> None:
        if self._loop is not None and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn_due)

    def _turn_due(self) -> None:
        self._is_due = False
        self._turn(may_be_due=True)

    def _readable(self, endpoint: Endpoint) -> None:
        self._ready.add(endpoint)
        self._turn()

    def _turn(self, may_be_due: bool = False) -> None:
        """An exception is a mistake of ours in the middle of a turn: there is no other turn, and the loop's exception
        handler ends the process. It does not for an OSError, which it takes for that of a library's connection."""
        if self._loop is None:
            return
        now = self._clock()
        ready, self._ready = self._ready, set()
        try:
            if may_be_due:
                self._look_for_due(ready, now)
            for endpoint in ready:
                if self._loop is None:  # a handler stopped us
                    return
                events = endpoint.poll(now)
                if self._watched.get(endpoint) != endpoint.fileno():
                    self._watch(endpoint)
                self._handlers[endpoint](events, now)
            if self._loop is not None:
                self._settle(now)
        except Exception as error:
            self.stop()
            self._on_failure()
            if isinstance(error, OSError):
                raise BrokenTurn("a turn has failed") from error
            raise

    def _look_for_due(self, ready: set[Endpoint], now: float) -> None:
        """Deadlines are looked at when the timer has come, which is never later than the earliest of them."""
        ready.update([endpoint for endpoint in self._handlers if _is_due(endpoint.next_deadline(), now)])
        if self._first not in ready and self._next_deadline is not None and _is_due(self._next_deadline(), now):
            self._handlers[self._first]([], now)

    def _settle(self, now: float) -> None:
        for endpoint in self._handlers:
            if endpoint.settle(now):
                self._ready.add(endpoint)
        if self._ready:
            self._turn_soon()  # not at once: other work of the loop has its turn in between
        else:
            self._set_timer(now)

    def _watch(self, endpoint: Endpoint) -> None:
        """A dialer's socket changes with every dial; the old one is open for one more turn."""
        assert self._loop is not None
        watched = self._watched.get(endpoint)
        if watched is not None:
            self._loop.remove_reader(watched)
        self._watched[endpoint] = descriptor = endpoint.fileno()
        self._loop.add_reader(descriptor, self._readable, endpoint)

    # ------------------------------------------------------------ time

    def _set_timer(self, now: float) -> None:
        """Deadlines mostly move away; a timer that is early then finds nothing due and sets the next."""
        assert self._loop is not None
        deadline = self._earliest_deadline()
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
            self._timer = None
        if deadline < math.inf:
            self._timer_at = deadline
            self._timer = self._loop.call_later(max(0.0, deadline - now), self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        self._turn(may_be_due=True)

    def _earliest_deadline(self) -> float:
        earliest = math.inf
        for next_deadline in self._deadlines:
            deadline = next_deadline()
            if deadline is not None and deadline < earliest:
                earliest = deadline
        return earliest


def _is_due(deadline: float | None, now: float) -> bool:
    return deadline is not None and deadline <= now
