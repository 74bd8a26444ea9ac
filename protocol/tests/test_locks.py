"""The locks of the program's threads: whatever an interrupt cuts off, none of them stays locked."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from scaler_protocol import waits

KINDS = pytest.mark.parametrize("make", [waits.Lock, waits.RLock], ids=["Lock", "RLock"])
SECONDS = 0.3
PERIOD_SECONDS = 0.0002


class Cut(BaseException):
    """What a handler raises."""


def is_free(lock: Any) -> bool:
    """As another thread sees it."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False)))
    thread.start()
    thread.join()
    return found[0]


def is_cut(perform: Callable[[], object], moment: int) -> bool:
    """A handler runs where a function of Python begins, and where one of C has returned: raise at the n-th of these."""
    left = moment

    def count(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal left
        left -= event in ("call", "c_return")
        if left < 0:
            sys.setprofile(None)
            raise Cut

    try:
        sys.setprofile(count)
        perform()
        return False
    except Cut:
        return True
    finally:
        sys.setprofile(None)


@KINDS
def test_an_interrupt_at_any_moment_leaves_it_free(make: Callable[[], Any]) -> None:
    moment, is_again = 0, True
    while is_again:
        lock = make()

        def take(lock: Any = lock) -> None:
            with lock:
                pass

        is_again = is_cut(take, moment)
        assert is_free(lock), f"cut off at moment {moment}"
        moment += 1
    assert moment > 1


def test_an_interrupt_of_a_bounded_wait_leaves_it_free() -> None:
    moment, is_again = 0, True
    while is_again:
        lock = waits.Lock()

        def take(lock: Any = lock) -> None:
            with waits.Bounded(lock, time.monotonic() + SECONDS):
                assert not lock.acquire(blocking=False)

        is_again = is_cut(take, moment)
        assert is_free(lock), f"cut off at moment {moment}"
        moment += 1
    assert moment > 1


def test_a_bounded_wait_ends_and_leaves_the_lock_to_the_one_that_has_it() -> None:
    lock = waits.Lock()
    with lock:
        with pytest.raises(TimeoutError), waits.Bounded(lock, time.monotonic() + 0.01):
            pass
        with pytest.raises(ValueError), waits.Bounded(lock, time.monotonic() - 1.0, ValueError):
            pass
        assert not is_free(lock)
    assert is_free(lock)


class Alarms:
    """Signals that come again and again. When armed, the handler raises once."""

    def __init__(self) -> None:
        self.is_armed = False
        self._before = signal.signal(signal.SIGALRM, self._cut)
        signal.setitimer(signal.ITIMER_REAL, PERIOD_SECONDS, PERIOD_SECONDS)

    def _cut(self, _number: int, _frame: object) -> None:
        if self.is_armed:
            self.is_armed = False
            raise Cut

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)


@pytest.mark.timeout(method="thread")  # the signal of the other method is needed here
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timers that send signals")
@KINDS
def test_real_signals_leave_it_free(make: Callable[[], Any]) -> None:
    """On Python 3.14 two of three such signals leave a `threading.Lock` locked."""
    lock, end_at = make(), time.monotonic() + SECONDS
    alarms = Alarms()
    try:
        while time.monotonic() < end_at:
            try:
                alarms.is_armed = True
                while True:
                    with lock:
                        pass
            except Cut:
                pass
            assert lock.acquire(blocking=False)
            lock.release()
    finally:
        alarms.stop()
    assert is_free(lock)


@KINDS
def test_it_is_a_lock(make: Callable[[], Any]) -> None:
    lock = make()
    with lock:
        assert not is_free(lock)
    with pytest.raises(ValueError, match="mine"), lock:
        raise ValueError("mine")
    assert lock.acquire(timeout=0.1)
    lock.release()
    assert is_free(lock)


def test_only_one_of_them_can_be_taken_twice_by_a_thread() -> None:
    again, once = waits.RLock(), waits.Lock()
    with again, once:
        assert again.acquire(blocking=False) and not once.acquire(blocking=False)
        again.release()
    assert is_free(again) and is_free(once)
