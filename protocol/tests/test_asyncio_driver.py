"""Endpoints driven from asyncio: by its own loop, and by that of servers."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from tests.support.endpoints import PATIENCE_SECONDS, make_dialer, make_server

from scaler_protocol.messages import Cancel, CancelReply
from scaler_protocol.process.event_loop import new_event_loop
from scaler_protocol.session import Opened, Received, SessionEvent
from scaler_protocol.transport import AsyncioDriver


class Asker:
    """A dialer's role: asks a thousand times at once and counts the answers."""

    def __init__(self, address: str) -> None:
        self.endpoint = make_dialer(address)
        self.driver = AsyncioDriver(self.endpoint, self.handle)
        self.answered = 0
        self.is_done = asyncio.Event()

    def handle(self, events: list[SessionEvent], now: float) -> None:
        for event in events:
            if isinstance(event, Opened):
                for number in range(1000):
                    self.endpoint.send(Cancel(number.to_bytes(16, "little")))
            self.answered += isinstance(event, Received)
        if self.answered == 1000:
            self.is_done.set()


LOOPS = pytest.mark.parametrize("new_loop", (asyncio.new_event_loop, partial(new_event_loop, "builtin")))


def run_in(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run_until_complete(main)
    finally:
        loop.close()


@LOOPS
def test_the_driver_serves_from_asyncio(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def run() -> None:
        server = make_server()

        def serve(events: list[SessionEvent], now: float) -> None:
            for event in events:
                if isinstance(event, Received) and isinstance(event.message, Cancel):
                    server.send(event.peer_id, CancelReply(event.message.ids))

        askers = [Asker(server.address) for _ in range(3)]
        drivers = [AsyncioDriver(server, serve), *(asker.driver for asker in askers)]
        for driver in drivers:
            driver.start()
        await asyncio.wait_for(asyncio.gather(*(asker.is_done.wait() for asker in askers)), PATIENCE_SECONDS)
        for driver in drivers:
            driver.stop()
        for endpoint in (server, *(asker.endpoint for asker in askers)):
            endpoint.close()

    run_in(new_loop(), run())


@LOOPS
@pytest.mark.parametrize("mistake", [ValueError("ours"), OSError(errno.EMFILE, "Too many open files")])
def test_a_handler_that_raises_is_never_called_again(
    new_loop: Callable[[], asyncio.AbstractEventLoop], mistake: Exception
) -> None:
    """Half a turn is lost, and what was polled is acknowledged: the process ends, as its loop's handler decides. That
    handler lets an OSError pass, as one of a library's connections."""
    calls: list[str] = []

    async def run() -> None:
        server = make_server()
        failed = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.set_result(context["exception"]))

        def serve(events: list[SessionEvent], now: float) -> None:
            calls.append("handler")
            raise mistake

        driver = AsyncioDriver(server, serve, on_failure=lambda: calls.append("failure"))
        driver.start()
        error = await asyncio.wait_for(failed, PATIENCE_SECONDS)
        assert not isinstance(error, OSError) and mistake in (error, error.__cause__)
        driver.wake()
        await asyncio.sleep(0)
        server.close()

    run_in(new_loop(), run())
    assert calls == ["handler", "failure"]
