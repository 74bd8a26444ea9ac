"""Stopping a task whose time is up, from within the process that runs it (WRK-14).

In a main thread a signal does it, which also ends a system call that waits. In another thread the interpreter can be
asked to raise, which it does when it is back in Python code.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType


class TimeIsUp(KeyboardInterrupt):
    """Code that cleans up on Ctrl-C cleans up on this."""


def time_limit(seconds: float) -> AbstractContextManager[None]:
    """Raises TimeIsUp inside the block; zero is no limit."""
    if seconds <= 0:
        return nullcontext()
    is_main = threading.current_thread() is threading.main_thread()
    return _limit_by_signal(seconds) if is_main else _limit_by_thread(seconds)


@contextmanager
def _limit_by_signal(seconds: float) -> Iterator[None]:
    def raise_it(_number: int, _frame: FrameType | None) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, raise_it)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _limit_by_thread(seconds: float) -> Iterator[None]:
    thread_id = ctypes.c_ulong(threading.get_ident())
    ask = ctypes.pythonapi.PyThreadState_SetAsyncExc
    lock = threading.Lock()
    is_over = False

    def interrupt() -> None:
        with lock:
            if not is_over:
                ask(thread_id, ctypes.py_object(TimeIsUp))

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        # What was asked for a moment ago is raised here at the latest, once the lock is taken, and hits no other task.
        # (Asking for nothing would take it back, and CPython 3.11 would then look for it for ever, at every jump.)
        with lock:
            is_over = True
