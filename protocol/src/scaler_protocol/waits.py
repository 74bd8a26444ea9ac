"""Waits of the program's own threads: interrupts leave nothing locked behind, and Ctrl-C ends them on Windows too."""

from __future__ import annotations

import math
import sys
import threading
import time

SLICE_SECONDS = 0.2
"""How long one wait lasts in the main thread on Windows, where Ctrl-C is only noticed between waits."""

_PLATFORM: str = sys.platform


def acquire(lock: threading.Lock, seconds: float) -> bool:
    """As `lock.acquire(timeout=seconds)`; `math.inf` for ever."""
    if _PLATFORM == "win32" and threading.current_thread() is threading.main_thread():
        end_at = time.monotonic() + seconds
        while True:
            left = end_at - time.monotonic()
            if lock.acquire(timeout=max(0.0, min(left, SLICE_SECONDS))):
                return True
            if left <= 0:
                return False
    return lock.acquire(timeout=-1 if seconds > threading.TIMEOUT_MAX else max(0.0, seconds))


class Event:
    """As `threading.Event`, without a lock inside. The lock of a `threading.Event` can stay locked if a thread is
    interrupted as it takes the lock. Then every thread that sets the event waits for ever."""

    __slots__ = ("_is_set", "_sleepers")

    def __init__(self) -> None:
        self._is_set = False
        #: a lock for each thread that waits, held until it is woken
        self._sleepers: list[threading.Lock] = []

    def is_set(self) -> bool:
        return self._is_set

    def clear(self) -> None:
        self._is_set = False

    def set(self) -> None:
        # In this order: a thread that is not among the sleepers yet looks at the flag after it is.
        self._is_set = True
        while self._sleepers:
            try:
                self._sleepers.pop().release()
            except IndexError:  # another thread sets it too
                break

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True
        sleeper = threading.Lock()
        sleeper.acquire()
        self._sleepers.append(sleeper)
        try:
            return self.is_set() or acquire(sleeper, math.inf if timeout is None else timeout)
        finally:
            try:
                self._sleepers.remove(sleeper)
            except ValueError:
                pass  # it was woken
