"""The life of a command: set up, run until a signal, end in order; a mistake becomes one line and an exit code."""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from scaler_protocol.errors import ScalerError
from scaler_protocol.process.event_loop import new_event_loop
from scaler_protocol.process.failures import exit_code_of
from scaler_protocol.process.logs import LoggingOptions, setup_logging
from scaler_protocol.process.parent import follow_parent

if TYPE_CHECKING:
    import asyncio

ServerMain = Callable[["asyncio.Event"], Awaitable[None]]
"""A server: runs until the event is set, then ends in order. May raise ScalerError."""


def run_command(name: str, command: Callable[[], int]) -> int:
    """Call `command`; an error that is the user's to mend becomes one line on stderr and an exit code."""
    try:
        return command()
    except ScalerError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return exit_code_of(error)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def run_server(main: ServerMain, logging_options: LoggingOptions, event_loop: str = "builtin") -> int:
    """Run an asyncio server until SIGINT or SIGTERM. The exit code is 0 after an orderly end."""
    loop = new_event_loop(event_loop)
    try:
        setup_logging(logging_options)
        logging.info("use event loop: %s", event_loop)
        loop.run_until_complete(_until_signal(loop, main))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    return 0


async def _until_signal(loop: asyncio.AbstractEventLoop, main: ServerMain) -> None:
    import asyncio

    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set():
            # Whoever asks twice does not want to wait for an orderly end.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        logging.info("received %s, shutting down", signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        _install(loop, number, on_signal)
    follow_parent()  # now that its SIGTERM would be an orderly end
    gc.freeze()  # a full collection that looks at everything imported so far would stop the server for milliseconds
    await main(stop)


def _install(loop: asyncio.AbstractEventLoop, number: int, on_signal: Callable[[int], None]) -> None:
    try:
        loop.add_signal_handler(number, on_signal, number)
    except NotImplementedError:  # Windows
        signal.signal(number, lambda received, _frame: loop.call_soon_threadsafe(on_signal, received))
