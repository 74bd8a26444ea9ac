"""Where the records of `logging` go in a processor: as in a program of its own, until a task says otherwise.

The root logger has no handler and the level WARNING, so `logging.basicConfig` in a task or preload does what it does in
any program. What no handler takes goes to `sys.stderr`, and with it to the client of a task that streams its output.
Our own records, below the logger `scaler`, go where the worker logs.

Where a worker logs to files, or in another format, the operator wants the records of tasks there: the root logger has
the worker's handlers and level, and one more that passes warnings on to the client of a task that streams its output.
(Without any handler `logging.warning` would make one of its own.) A configuration file of the operator's stays in force
as it is.
"""

from __future__ import annotations

import logging
import os
import sys

from scaler_protocol.process import LoggingOptions, setup_logging

OURS = "scaler"


class _ToClient(logging.Handler):
    """Passes records on to the client of a task that streams what it prints, and nowhere else."""

    def emit(self, record: logging.LogRecord) -> None:
        pass_on = getattr(sys.stderr, "pass_on", None)
        if pass_on is not None:
            pass_on(f"{self.format(record)}\n")


def log_as_a_program(options: LoggingOptions) -> None:
    if options.config_file is not None:
        return
    root, ours = logging.getLogger(), logging.getLogger(OURS)
    if options.is_streams_only and options.format == "text":
        ours.setLevel(root.level)
        ours.propagate = False
        for handler in root.handlers[:]:
            root.removeHandler(handler)
            ours.addHandler(handler)
        root.setLevel(logging.WARNING)
        return
    if not options.is_streams_only:
        # Files get the process id behind their names, so that a task's lines can be told from those of others.
        setup_logging(options, path_suffix=f"-{os.getpid()}")
    root.addHandler(_ToClient(logging.WARNING))
