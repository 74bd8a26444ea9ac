"""Threads use one client while some of them are interrupted at random bytecodes, and nothing is lost.

The main thread is interrupted by a signal whose handler raises, as Ctrl-C is; another one by an exception that a third
thread raises in it. Both do what programs do: submit, map, get results, wait, cancel, fetch large values. The laws:

1. Every future that the program has got ends right, although asking for it was interrupted.
2. The calls of threads that are not interrupted all succeed, in time.
3. In the end no lock is held, nothing is pending, and the client leaves as fast as ever.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from scaler import Client

LARGE = 100_000
WAIT = 30.0
#: between two interrupts of a thread: one in the middle of nearly every call
LONGEST_PAUSE_SECONDS = 0.004


class Interrupt(KeyboardInterrupt):
    """What comes up in the threads that are interrupted."""


class Broken(AssertionError):
    """A law."""


def plus(number: int) -> int:
    return number + 1


def large(number: int) -> bytes:
    return bytes((number % 256,)) * LARGE


class Caller:
    """What one thread does, and the futures that it holds."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client = client
        self._rng = random.Random(seed)
        #: futures and what they have to return; None: it may have been canceled
        self.held: list[tuple[concurrent.futures.Future[Any], Any]] = []
        self.done_count = 0
        self.interrupted_count = 0

    def step(self) -> None:
        number = self._rng.randrange(1000)
        self._rng.choice(
            (self._lone, self._lone, self._several, self._map, self._large, self._wait, self._cancel, self._chain)
        )(number)
        self.done_count += 1

    def _lone(self, number: int) -> None:
        future = self._submit(plus, number, number + 1)
        expect(future.result(WAIT), number + 1)

    def _several(self, number: int) -> None:
        futures = [self._submit(plus, number + i, number + i + 1) for i in range(8)]
        expect([future.result(WAIT) for future in futures], [number + i + 1 for i in range(8)])

    def _map(self, number: int) -> None:
        expect(self._client.map(plus, range(number), timeout=WAIT), list(range(1, number + 1)))

    def _large(self, number: int) -> None:
        expect(self._submit(large, number, large(number)).result(WAIT), large(number))

    def _wait(self, number: int) -> None:
        futures = [self._submit(plus, number + i, number + i + 1) for i in range(8)]
        _, unfinished = concurrent.futures.wait(futures, WAIT)
        expect(unfinished, set())
        expect(len(list(concurrent.futures.as_completed(futures, WAIT))), len(futures))

    def _cancel(self, number: int) -> None:
        futures = [self._submit(plus, number, None) for _ in range(4)]
        for future in futures:
            future.cancel()
        concurrent.futures.wait(futures, WAIT)

    def _chain(self, number: int) -> None:
        first = self._submit(plus, number, number + 1)
        second = self._client.submit(plus, first)
        self.held.append((second, number + 2))
        expect(second.result(WAIT), number + 2)

    def _submit(self, function: Callable[[int], Any], number: int, value: Any) -> concurrent.futures.Future[Any]:
        future = self._client.submit(function, number)
        self.held.append((future, value))
        return future

    def check(self) -> None:
        """Law 1."""
        held, self.held = self.held, []
        for future, value in held:
            try:
                found = future.result(WAIT)
            except concurrent.futures.CancelledError:
                found = None
            if found != value and value is not None:
                raise Broken(f"{future!r} returned {str(found)[:40]!r}, not {str(value)[:40]!r}")


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise Broken(f"got {str(found)[:60]}, not {str(wanted)[:60]}")


class Alarm:
    """Raises in the main thread, from a signal's handler, while it is armed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._is_armed = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, self._ring)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def run(self, step: Callable[[], None]) -> bool:
        """False: it was interrupted."""
        try:
            self._is_armed = True
            signal.setitimer(signal.ITIMER_REAL, self._rng.uniform(1e-5, LONGEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
            step()
            return True
        except Interrupt:
            return False
        finally:
            self._is_armed = False

    def _ring(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_armed:
            # A second one may come in the middle of what the first one's way out has to do.
            self._is_armed = self._rng.random() < 0.3
            raise Interrupt


class Raised:
    """A thread in which another one raises, as some libraries do to bound the time of a call."""

    def __init__(self, caller: Caller, seed: int) -> None:
        self._caller = caller
        self._rng = random.Random(seed)
        self._is_armed = False
        self._is_over = False
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Raised:
        self._thread.start()
        threading.Thread(target=self._raise, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over = True
        self._thread.join(WAIT)
        if self._thread.is_alive():
            raise Broken("the thread in which exceptions are raised stands still")
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            while not self._is_over:
                self._round()
        except BaseException as error:
            self.failure = error

    def _round(self) -> None:
        try:
            self._is_armed = True
            for _ in range(20):
                self._caller.step()
        except Interrupt:
            self._caller.interrupted_count += 1
        finally:
            self._calm_down()
        self._caller.check()

    def _calm_down(self) -> None:
        """What was raised comes up some bytecodes later."""
        while True:
            try:
                self._is_armed = False
                for _ in range(200):
                    time.sleep(1e-5)
                return
            except Interrupt:
                pass

    def _raise(self) -> None:
        while not self._is_over:
            time.sleep(self._rng.uniform(1e-4, 5 * LONGEST_PAUSE_SECONDS))
            if self._is_armed and self._thread.ident is not None:
                self._is_armed = False
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread.ident), ctypes.py_object(Interrupt)
                )


class Bystander(threading.Thread):
    """Not interrupted: all that it does has to succeed."""

    def __init__(self, caller: Caller) -> None:
        super().__init__(daemon=True)
        self.caller = caller
        self.is_over = False
        self.failure: BaseException | None = None
        self.slowest_seconds = 0.0

    def run(self) -> None:
        try:
            while not self.is_over:
                begun_at = time.monotonic()
                self.caller.step()
                self.caller.check()
                self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - begun_at)
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        self.is_over = True
        self.join(WAIT)
        if self.is_alive():
            raise Broken("a thread that was not interrupted stands still")
        if self.failure is not None:
            raise self.failure


@contextmanager
def _plain_hook() -> Iterator[None]:
    """An exception in a destructor is told by the interpreter itself. The hook of pytest is Python, in which a further
    interrupt would be the failure of a test."""
    before, sys.unraisablehook = sys.unraisablehook, sys.__unraisablehook__
    try:
        yield
    finally:
        sys.unraisablehook = before


def stress(address: str, seconds: float, seed: int) -> str:
    """Raises `Broken`; returns what was done, for people. In the main thread."""
    client = Client(address, timeout_seconds=WAIT, heartbeat_interval_seconds=0.5)
    mine, other = Caller(client, seed), Caller(client, seed + 1)
    bystanders = [Bystander(Caller(client, seed + 2 + index)) for index in range(2)]
    for bystander in bystanders:
        bystander.start()
    alarm = Alarm(seed)
    with _plain_hook(), Raised(other, seed), alarm.installed():
        end_at = time.monotonic() + seconds
        while time.monotonic() < end_at:
            for _ in range(10):
                mine.interrupted_count += not alarm.run(mine.step)
            mine.check()
    for bystander in bystanders:
        bystander.end()
    _leave(client)
    slowest = max(one.slowest_seconds for one in bystanders)
    done = [one.done_count for one in (mine, other, *(one.caller for one in bystanders))]
    return (
        f"seed {seed}: {mine.interrupted_count} + {other.interrupted_count} interrupts; calls done {done}; "
        f"slowest of a bystander {slowest:.2f} s"
    )


def _leave(client: Client) -> None:
    """Law 3."""
    connection = client._ready().connection
    # Cancels leave together after a moment, and a call whose future never reached its caller may still run.
    end_at = time.monotonic() + WAIT
    while connection.standing()[1] and time.monotonic() < end_at:
        time.sleep(0.01)
    expect(connection.standing()[1], 0)
    if not connection.lock.acquire(timeout=WAIT):
        raise Broken("the connection's lock is held")
    connection.lock.release()
    begun_at = time.monotonic()
    client.disconnect()
    if time.monotonic() - begun_at > 3.0:
        raise Broken("the client took long to leave")
