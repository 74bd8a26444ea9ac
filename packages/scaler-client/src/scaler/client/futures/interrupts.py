"""Exceptions that come up while a value is read or written, and that are not the value's fault.

A handler of a signal may raise anything: TimeoutError, where SIGALRM bounds a call. The exception comes up wherever the
main thread is, and shall arrive in the program as it is, not as a failure of the value that was being read or written.
The same holds for MemoryError, and in the main thread for KeyboardInterrupt. An exception that another thread raises in
this one cannot be told from an exception of the value's own code. Everything else that the value's code raises is its
failure, also SystemExit: reading a result must not end the program.
"""

from __future__ import annotations

import signal
import threading
from types import CodeType
from typing import Any


def is_interrupt(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if threading.current_thread() is not threading.main_thread():
        return False  # no handler runs here
    if isinstance(error, KeyboardInterrupt):
        return True  # Ctrl-C: the handler that Python installs has no frame
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code in handlers:
            return True
        step = step.tb_next
    return False


def pass_on(error: BaseException) -> None:
    """Raise it if it is an interrupt."""
    if is_interrupt(error):
        raise error


def _code_of(handler: Any) -> CodeType | None:
    """Of a function, a method, a partial of one, or an object that can be called. None: it is not written in Python."""
    while hasattr(handler, "func"):
        handler = handler.func
    if not callable(handler):  # SIG_DFL, SIG_IGN, or None
        return None
    for function in (handler, type(handler).__call__):
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None
