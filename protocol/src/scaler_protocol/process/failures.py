"""Mistakes of the person at the keyboard: told in one line, never as a traceback."""

from __future__ import annotations

import logging
import os

from scaler_protocol.errors import ScalerError

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_BROKEN = 70
"""A mistake in Scaler, EX_SOFTWARE of sysexits.h. Another start may help, unlike with the other two."""
EXIT_UNREAD = 141
"""The reader of the output has ended before all of it was written: what shells tell of a program that SIGPIPE ended."""


class UsageError(ScalerError):
    """The command line asks for something that cannot be. Exit code 2."""


class StartupError(ScalerError):
    """What was asked is sensible, but this machine cannot do it now: a port is taken, a file cannot be written.
    Exit code 1."""


def end_process(thread: str, error: BaseException) -> None:
    """Ends this process with EXIT_BROKEN, because a thread that it cannot do without has failed. The thread is then the
    only one that knows: without it the process would stand still and look well."""
    logging.critical(
        "this is a mistake in Scaler: the thread %s has failed, so the process ends", thread, exc_info=error
    )
    logging.shutdown()
    os._exit(EXIT_BROKEN)


def exit_code_of(error: ScalerError) -> int:
    return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILURE
