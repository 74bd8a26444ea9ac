"""A forked child becomes a processor."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import logging
import os
import random
import re
import signal
import socket
import sys
from ast import literal_eval
from dataclasses import dataclass

from scaler_protocol.process import LoggingOptions, setup_logging
from scaler_worker.channel import SignalPage
from scaler_worker.processor.loop import ProcessorLoop

_PRELOAD = re.compile(r"(?P<module>[\w.]+):(?P<function>\w+)\s*(?P<arguments>\(.*\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ProcessorOptions:
    preload: str = ""  #: "module.sub:function(arguments)", called once before the first task
    logging: LoggingOptions | None = None
    object_retention_seconds: float = 3600.0


def run_processor(end: socket.socket, page: SignalPage, slot: int, options: ProcessorOptions) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _use_streams()
    random.seed()
    if options.preload:
        _preload(options)
    _seed_numpy()
    gc.collect()
    gc.freeze()
    ProcessorLoop(end, page, slot, options.object_retention_seconds).run()


def _use_streams() -> None:
    """No input; output line by line, so that a killed processor has said what it printed, and lines do not mix."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    try:
        faulthandler.enable()
    except (AttributeError, ValueError, OSError):
        pass  # stderr is no file, as under some test runners


def _seed_numpy() -> None:
    """numpy's global generator is copied by fork; with it every processor would draw the same numbers."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _preload(options: ProcessorOptions) -> None:
    """Call what the operator named. If it fails, so does this processor, and the agent starts the next more slowly."""
    if options.logging is not None:
        setup_logging(options.logging, path_suffix=f"-{os.getpid()}")
    try:
        module, function, arguments = parse_preload(options.preload)
        logging.info("preloading: %s with args %r", f"{module}:{function}", arguments)
        getattr(importlib.import_module(module), function)(*arguments)
    except Exception:
        logging.exception("preloading %s failed", options.preload)
        raise SystemExit(1) from None


def parse_preload(text: str) -> tuple[str, str, tuple[object, ...]]:
    """Module, function and positional arguments, which are literals. Raises ValueError for anything else."""
    match = _PRELOAD.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not of the form module.sub:function or module.sub:function(arguments)")
    inner = (match["arguments"] or "()")[1:-1].strip()
    arguments = literal_eval(f"({inner},)") if inner else ()
    return match["module"], match["function"], arguments
