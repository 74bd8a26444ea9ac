"""A condition variable for futures, of which a program may hold very many, and which survives interrupts.

Threads of the program hold the locks of futures, and an exception can come up in such a thread between any two
bytecodes. A `with` statement on a lock of `scaler_protocol.waits` never leaves it locked. But
`concurrent.futures.wait` and `as_completed` *inspect* many futures at once: they call `acquire` of each in a loop, and
when they are interrupted there, what they have acquired is never released. So `acquire` takes a lock of its own here,
and the end of a task takes that from a thread that does not inspect any more.
"""

from __future__ import annotations

import concurrent.futures._base
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import starmap
from types import FrameType
from typing import Any

from scaler_protocol import waits

_LOOK_SECONDS = 0.02
"""How long a thread waits for another one that inspects a future, before it looks again whether that still does."""

_base: Any = concurrent.futures._base
_AROUND = frozenset(one.__code__ for one in (_base._AcquireFutures.__enter__, _base._AcquireFutures.__exit__))
"""Nothing has been looked at yet, or all has."""
_OURS = frozenset((__name__, waits.__name__))
_INSPECTING = _AROUND | {_base.wait.__code__, _base.as_completed.__code__}


guard = waits.RLock()
"""Held for the moment in which a future gets an audience, or ends without one."""

#: the condition that each thread takes; what an interrupt leaves here does no harm
_taking: dict[int, FutureCondition] = {}
#: threads that inspect futures, and some that were interrupted there
_inspecting: dict[int, None] = {}


def holding() -> waits.RLock:
    """Returns a lock that this thread may have, and that is taken when some future ends."""
    return guard if waits.is_mine(guard) else _taking.get(threading.get_ident(), guard)


def is_inspecting() -> bool:
    """Returns whether this thread is in the middle of an inspection, in which a signal's handler or a destructor runs
    now. What it looks at does not end before it goes on."""
    thread = threading.get_ident()
    if thread not in _inspecting:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in _INSPECTING:
        frame = frame.f_back
    if frame is None:
        _inspecting.pop(thread, None)
    return frame is not None and frame.f_code not in _AROUND


def _renew_guard() -> None:
    """In a forked child, where the thread that held it is not."""
    global guard
    guard = waits.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_guard)


class FutureCondition(waits.RLock):  # type: ignore[misc]
    """As much of `threading.Condition` as `concurrent.futures` uses. Without waiters it has no queue of them, and no
    bound methods: 150 bytes instead of 1,300. The methods of `with` are those of the lock."""

    __slots__ = ("_inspected", "_inspector", "_sleepers")

    def __init__(self) -> None:
        #: held from `acquire` to `release`: by a thread that inspects, or as the future ends
        self._inspected = threading.Lock()
        #: the thread that holds it; 0: none, or it has just been taken
        self._inspector = 0
        #: a lock for each thread that waits, held until it is woken
        self._sleepers: tuple[threading.Lock, ...] = ()

    # ------------------------------------------------------------ inspecting

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Always successful, as the only caller in `concurrent.futures` expects. The end of a future takes this too,
        after the lock itself."""
        while not self._inspected.acquire(blocking=False):
            with self:  # so no end is going on
                holder = self._inspector
                if holder and not _is_inspecting(holder):
                    break  # left behind by an interrupt: it is ours now
            if self._inspected.acquire(timeout=_LOOK_SECONDS):
                break
            if not holder and not self._inspector:
                break  # the same, just as it was taken
        self._inspector = thread = threading.get_ident()
        _inspecting[thread] = None
        return True

    def release(self) -> None:
        thread = threading.get_ident()
        _inspecting.pop(thread, None)
        if self._inspector != thread:
            return  # another thread has taken it meanwhile
        self._inspector = 0
        try:
            self._inspected.release()
        except RuntimeError:
            pass  # it was left behind, and freed by another thread

    # ------------------------------------------------------------ waiting

    def wait(self, timeout: float | None = None) -> bool:
        """With the lock, which is let go meanwhile however often it was taken. False: the time is over."""
        sleeper = threading.Lock()
        sleeper.acquire()
        self._sleepers = (*self._sleepers, sleeper)
        saved: list[Any] = []
        is_woken = False
        try:
            # One step of the interpreter: no interrupt comes between letting go and knowing what to take again.
            saved.extend(starmap(self._release_save, ((),)))
            is_woken = waits.acquire(sleeper, math.inf if timeout is None else timeout)
        finally:
            if saved:
                self._acquire_restore(saved[0])
            if not is_woken:
                self._sleepers = tuple([one for one in self._sleepers if one is not sleeper])
        return is_woken

    def wait_until(self, is_over: Callable[[], bool], end_at: float) -> None:
        """Returns when it is over, or at `end_at`, an instant of `time.monotonic`."""
        with self.noted(), self:
            while not is_over() and (remaining := end_at - time.monotonic()) > 0:
                self.wait(None if remaining == math.inf else remaining)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Around what a thread of the program does with this lock: `holding` finds it."""
        thread = threading.get_ident()
        below = _taking.get(thread)
        _taking[thread] = self
        try:
            yield
        finally:
            if below is None:
                _taking.pop(thread, None)
            else:
                _taking[thread] = below

    def notify_all(self) -> None:
        """With the lock."""
        sleepers, self._sleepers = self._sleepers, ()
        for sleeper in sleepers:
            sleeper.release()


def _is_inspecting(thread_id: int) -> bool:
    """Returns whether that thread is in the middle of an inspection, and not where it waits for the futures to end. It
    is in none either while a signal's handler runs before anything was looked at: what the handler waits for may be
    held up by this."""
    if thread_id == threading.get_ident():
        return False  # we begin another one
    above = ""
    is_interrupted = False
    frame = sys._current_frames().get(thread_id)
    while frame is not None:
        if frame.f_code in _INSPECTING:
            return above != "wait" and not (is_interrupted and frame.f_code in _AROUND)
        is_interrupted = is_interrupted or frame.f_globals.get("__name__") not in _OURS
        above = frame.f_code.co_name
        frame = frame.f_back
    return False
