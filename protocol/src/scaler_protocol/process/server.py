"""The life of a command: set up, run until a signal, end in order; a mistake becomes one line and an exit code."""

from __future__ import annotations

import errno
import gc
import io
import logging
import os
import select
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from scaler_protocol.errors import ScalerError, escaped
from scaler_protocol.process.event_loop import new_event_loop
from scaler_protocol.process.failures import EXIT_BROKEN, EXIT_UNREAD, exit_code_of
from scaler_protocol.process.logs import LoggingOptions, setup_logging
from scaler_protocol.process.parent import follow_parent
from scaler_protocol.secrets import take_secrets

if TYPE_CHECKING:
    import asyncio

ServerMain = Callable[["asyncio.Event"], Awaitable[None]]
"""A server: runs until the event is set, then ends in order. May raise ScalerError."""


def run_command(name: str, command: Callable[[], int]) -> int:
    """Call `command`; an error that is the user's to mend becomes one line on stderr and an exit code. Before
    that, secrets leave the environment: what the command starts does not inherit them. A command whose output is read
    no further, as by `head`, ends without a word."""
    take_secrets()
    _write_all_text()
    try:
        return _with_all_output(command)
    except BrokenPipeError as error:
        if not (isinstance(error, OutputClosed) or _is_output_closed()):
            raise
        _write_nowhere()
        return EXIT_UNREAD
    except ScalerError as error:
        print(f"{name}: error: {escaped(str(error))}", file=sys.stderr)
        return exit_code_of(error)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _with_all_output(command: Callable[[], int]) -> int:
    """What the command has printed has left by then: when the interpreter ends, an error can only be complained of."""
    try:
        code = command()
    except SystemExit:  # such as after --help
        _flush()
        raise
    _flush()
    return code


def _flush() -> None:
    if sys.stdout is not None:  # a program without a console has none
        sys.stdout.flush()


def _is_output_closed() -> bool:
    """The reader of our output has gone, and not the other end of some socket."""
    try:
        poller = select.poll()
        poller.register(sys.stdout.fileno(), select.POLLOUT)
    except (AttributeError, ValueError, OSError):  # no file, or Windows: see `OutputClosed`
        return False
    return any(what & (select.POLLERR | select.POLLHUP) for _, what in poller.poll(0))


def _write_nowhere() -> None:
    """So goes what is left to write, as when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class OutputClosed(BrokenPipeError):
    """Standard output is a pipe, and its reader has gone."""


class TellingFile(io.FileIO):
    """Standard output on Windows, where a write to a pipe without a reader is an invalid argument, and no poll tells
    afterwards which file that was."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]
        try:
            return super().write(data)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EPIPE):
                raise OutputClosed(errno.EPIPE, "the reader of the output has gone") from error
            raise


def telling(output: io.TextIOWrapper) -> io.TextIOWrapper:
    """The same output, which raises OutputClosed."""
    output.flush()
    raw = TellingFile(output.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        raw if output.write_through else io.BufferedWriter(raw),
        output.encoding,
        "backslashreplace",
        line_buffering=output.line_buffering,
        write_through=output.write_through,
    )


def _write_all_text() -> None:
    """Names of users, workers and functions may have characters that the encoding of the output lacks. They are written
    by their number, as Python does on stderr, instead of ending the command or losing a line of its log."""
    output = sys.stdout
    if not isinstance(output, io.TextIOWrapper):
        return
    if sys.platform == "win32" and output is sys.__stdout__ and not output.isatty():
        sys.stdout = telling(output)
        return
    try:
        output.reconfigure(errors="backslashreplace")
    except OSError:  # a warm start has put a pipe in the place of its file
        sys.stdout = open(  # noqa: SIM115 it is open for the life of the process
            output.fileno(), "w", buffering=1, encoding=output.encoding, errors="backslashreplace", closefd=False
        )


def run_server(main: ServerMain, logging_options: LoggingOptions | None, event_loop: str = "builtin") -> int:
    """Runs an asyncio server until SIGINT or SIGTERM.

    Returns 0 after an orderly end, and EXIT_BROKEN if a callback of the loop raised: half of its work is done, and
    what it received is acknowledged already. All peers can recover from a process that ended; a process that goes on
    in such a state would send them wrong answers.

    Args:
        main: the server; it ends after its event is set.
        logging_options: None: the command has set up its log already.
        event_loop: one of EVENT_LOOPS.
    """
    loop = new_event_loop(event_loop)
    try:
        if logging_options is not None:
            setup_logging(logging_options)
        logging.info("use event loop: %s", event_loop)
        return loop.run_until_complete(_until_signal(loop, main))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        # The loop closes its end of the pipe before it takes its handlers off: for a signal in between, Python would
        # write about a bad descriptor on standard error.
        signal.set_wakeup_fd(-1)
        loop.close()


async def _until_signal(loop: asyncio.AbstractEventLoop, main: ServerMain) -> int:
    import asyncio

    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set():
            # A user who asks twice does not want to wait for an orderly end.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        logging.info("received %s, shutting down", signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        _install(loop, number, on_signal)
    follow_parent()  # now that its SIGTERM would be an orderly end
    gc.freeze()  # a full collection that looks at everything imported so far would stop the server for milliseconds
    gc.set_threshold(10_000, 20)  # what it makes has hardly a circle: it is looked through less often
    return await _until_broken(loop, main(stop))


async def _until_broken(loop: asyncio.AbstractEventLoop, running: Awaitable[None]) -> int:
    import asyncio

    server = asyncio.ensure_future(running)
    is_broken = False

    def on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal is_broken
        error = context.get("exception")
        if error is None or isinstance(error, OSError) or "transport" in context:
            loop.default_exception_handler(context)  # a connection of a library, and not a mistake of ours
            return
        is_broken = True
        _tell(error)
        server.cancel()

    loop.set_exception_handler(on_exception)
    try:
        await server
    except asyncio.CancelledError:
        if not is_broken:
            raise
    except ScalerError:
        raise
    except Exception as error:  # noqa: BLE001 whatever it is, it ends the process
        is_broken = True
        _tell(error)
    return EXIT_BROKEN if is_broken else 0


def _tell(error: BaseException) -> None:
    logging.critical("this is a mistake in Scaler: the process ends with exit code %d", EXIT_BROKEN, exc_info=error)


def _install(loop: asyncio.AbstractEventLoop, number: int, on_signal: Callable[[int], None]) -> None:
    try:
        loop.add_signal_handler(number, on_signal, number)
    except NotImplementedError:  # Windows
        signal.signal(number, lambda received, _frame: loop.call_soon_threadsafe(on_signal, received))
