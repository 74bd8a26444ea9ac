"""Locks and waits of the program's own threads: interrupts leave nothing locked behind, and Ctrl-C ends waits on
Windows too.

Up to Python 3.13, the interpreter takes the lock of a `with` and enters its body in one step: an exception of a
signal's handler comes up before that step or in the body. From 3.14 on the lock is taken by a call. A handler may run
after that call, and an exception that it raises leaves the lock locked. So `with` is used on the locks of this module
only.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

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


_RLock: Any = type(threading.RLock())

_WAITING = (True,)

is_mine: Callable[[Any], bool] = _RLock._is_owned
"""Returns whether this thread has that `RLock`: it stands below on the stack of a signal handler or a destructor."""

if sys.version_info >= (3, 14):

    class Lock:
        """As `threading.Lock`. It is taken by a function of Python, and released by the interpreter's own method,
        because a function of Python could be interrupted before it has released the lock."""

        __slots__ = ("__exit__", "__weakref__", "acquire", "locked", "release")

        def __init__(self) -> None:
            lock = threading.Lock()
            # A slot of this name is where `with` looks, and it finds the method of the lock inside.
            self.__exit__ = lock.__exit__
            self.acquire = lock.acquire
            self.locked = lock.locked
            self.release = lock.release

        def __enter__(self) -> None:
            held: list[bool] = []
            try:
                # One step of the interpreter: no interrupt comes between taking the lock and knowing that it is taken.
                held.extend(map(self.acquire, _WAITING))
            except BaseException:
                if held:
                    self.release()
                raise

    class RLock(_RLock):  # type: ignore[misc]
        """As `threading.RLock`."""

        __slots__ = ()

        def __enter__(self) -> None:
            held: list[bool] = []
            try:
                held.extend(map(_RLock.acquire, (self,)))
            except BaseException:
                if held:
                    _RLock.release(self)
                raise

else:
    Lock = threading.Lock
    RLock = _RLock


class Bounded:
    """For `with`: takes this lock as `with lock` does, but raises `error()` if the lock is not free by `end_at`, an
    instant of `time.monotonic`."""

    __slots__ = ("__exit__", "_acquire", "_end_at", "_error")

    def __init__(self, lock: Lock, end_at: float, error: Callable[[], Exception] = TimeoutError) -> None:
        self.__exit__ = lock.__exit__  # the interpreter's own, as in `Lock`
        self._acquire = lock.acquire
        self._end_at = end_at
        self._error = error

    def __enter__(self) -> None:
        held: list[bool] = []
        try:
            while not held:
                left = max(0.0, self._end_at - time.monotonic())
                # One step of the interpreter, as in `Lock`.
                held.extend(filter(None, map(self._acquire, _WAITING, (min(left, SLICE_SECONDS),))))
                if not (held or left):
                    raise self._error()
        except BaseException:
            if held:
                self.__exit__(None, None, None)
            raise


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
