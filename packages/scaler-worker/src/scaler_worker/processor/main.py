"""A forked child becomes a processor."""

from __future__ import annotations

import faulthandler
import gc
import io
import logging
import os
import random
import signal
import socket
import sys
import time
from dataclasses import field
from types import FrameType

from scaler_protocol.keys import Pass
from scaler_protocol.process import LoggingOptions, execute_preload, setup_logging
from scaler_protocol.records import dataclass
from scaler_protocol.running.named import NamedFunctions
from scaler_worker.channel import SignalPage
from scaler_worker.code_sets.options import CodeOptions
from scaler_worker.memory import become_first_to_go
from scaler_worker.processor.housekeeping import Housekeeping
from scaler_worker.processor.loop import ProcessorLoop


@dataclass(frozen=True, slots=True)
class ProcessorOptions:
    preload: str = ""  #: "module.sub:function(arguments)", called once before the first task
    logging: LoggingOptions | None = None
    collect_seconds: float = 30.0
    trim_threshold_bytes: int = 1 << 30
    functions: tuple[str, ...] = ()  #: modules whose functions tasks may name
    shown: Pass | None = None
    is_limited: bool = False  #: in its memory
    code: CodeOptions = field(default_factory=CodeOptions)  #: for the code of clients


def run_processor(end: socket.socket, page: SignalPage, slot: int, options: ProcessorOptions) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _outlive_sigterm()
    if options.is_limited:
        become_first_to_go()
    _use_streams()
    random.seed()
    if options.logging is not None:
        _log_to_own_files(options.logging)
    if options.preload:
        _preload(options.preload)
    _seed_numpy()
    gc.collect()
    gc.freeze()
    housekeeping = Housekeeping(options.collect_seconds, options.trim_threshold_bytes, time.monotonic())
    named = NamedFunctions(options.functions)
    ProcessorLoop(end, page, slot, housekeeping, named, options.shown, options.code).run()


def _outlive_sigterm() -> None:
    """A service manager may send SIGTERM to all its processes. The agent then gives our task its grace, and ends
    us afterwards. For what the task itself starts, the signal means what it always means: a handler does not survive an
    exec, and in a fork the default is back before the signal can arrive there."""
    sigterm = {signal.SIGTERM}

    def outlive(number: int, frame: FrameType | None) -> None:
        return

    def begin_child() -> None:
        if signal.getsignal(signal.SIGTERM) is outlive:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, sigterm)

    signal.signal(signal.SIGTERM, outlive)
    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, sigterm),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, sigterm),
        after_in_child=begin_child,
    )


def _use_streams() -> None:
    """No input; output line by line, so that a killed processor has said what it printed, and lines do not mix. What
    standard output cannot show is escaped, as it always is on standard error: no task fails for its worker's locale."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    try:
        # Another one: this one may take a pipe for a file, if it was a file before, and then cannot be told to escape.
        descriptor = io.FileIO(sys.stdout.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(descriptor), sys.stdout.encoding, "backslashreplace", line_buffering=True
        )
    except (AttributeError, ValueError, OSError):
        pass  # standard output is no file, as under some test runners
    try:
        faulthandler.enable()
    except (AttributeError, ValueError, OSError):
        pass  # stderr is no file, as under some test runners


def _seed_numpy() -> None:
    """numpy's global generator is copied by fork; with it every processor would draw the same numbers."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _log_to_own_files(options: LoggingOptions) -> None:
    """Files get the process id behind their names, so that a task's lines can be told from those of others. What only
    goes to streams, or where a configuration file says, goes on there as it is."""
    if options.config_file is None and not options.is_streams_only:
        setup_logging(options, path_suffix=f"-{os.getpid()}")


def _preload(text: str) -> None:
    """If it fails, so does this processor, and the agent starts the next more slowly."""
    try:
        execute_preload(text)
    except Exception:
        logging.exception("preloading %s failed", text)
        raise SystemExit(1) from None
