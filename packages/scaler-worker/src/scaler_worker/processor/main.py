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
from functools import cache, partial
from types import FrameType
from typing import TYPE_CHECKING

from scaler_protocol.process import execute_preload, memory_trim
from scaler_protocol.running.kept import KeptValues, most_kept_bytes
from scaler_protocol.running.named import NamedFunctions
from scaler_worker.channel import SignalPage
from scaler_worker.children import end_fork
from scaler_worker.config import ClusterConfig
from scaler_worker.memory import become_first_to_go
from scaler_worker.processor.housekeeping import Housekeeping
from scaler_worker.processor.logs import log_as_a_program
from scaler_worker.processor.loop import ProcessorLoop
from scaler_worker.processor.main_names import MainNames

if TYPE_CHECKING:
    from scaler_worker.code_sets.entering import CodeSets

logger = logging.getLogger("scaler.worker")


def run_processor(end: socket.socket, page: SignalPage, slot: int, config: ClusterConfig) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _outlive_sigterm()
    if config.memory_bytes:
        become_first_to_go()
    _use_streams()
    random.seed()
    log_as_a_program(config.logging)
    if config.preload:
        _preload(config.preload)
    _seed_numpy()
    gc.collect()
    gc.freeze()
    housekeeping = Housekeeping(config.collect_seconds, config.trim_threshold_bytes, time.monotonic())
    named = NamedFunctions(config.functions)
    sys.modules["__main__"] = MainNames()
    sys.argv = ["-c"]  # the worker's options are not the task's
    kept = KeptValues(most_kept_bytes(config.memory_bytes), page.kept_cells(slot), memory_trim())
    code_sets, hides = cache(partial(_code_sets, config)), config.hides_streamed_output
    ProcessorLoop(end, page, slot, housekeeping, named, config.shown, code_sets, kept, hides).run()


def _code_sets(config: ClusterConfig) -> CodeSets:
    from scaler_worker.code_sets.entering import CodeSets  # most processors need none of it

    return CodeSets(config.code, config.shown)


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


def _preload(text: str) -> None:
    """If it fails, so does this processor, and the agent starts the next more slowly."""
    process_id = os.getpid()
    try:
        execute_preload(text)
    except BaseException as error:
        if os.getpid() != process_id:
            end_fork(error)
        if not isinstance(error, Exception):
            raise
        told = " ".join(str(error).split())
        logger.error("preloading %s failed: %s: %s", text, type(error).__name__, told)
        logger.debug("preloading %s failed", text, exc_info=True)
        raise SystemExit(1) from None
    if os.getpid() != process_id:
        end_fork()
