"""Threads use one client while some of them are interrupted at random bytecodes, and nothing is lost.

The main thread is interrupted by a signal whose handler raises, as Ctrl-C is; another one by an exception that a third
thread raises in it. Both do what programs do (`tests.interrupts.programs`). The laws:

1. Every future that the program has got ends right, although asking for it was interrupted.
2. The calls of threads that are not interrupted all succeed, in time.
3. In the end no lock is held, nothing is pending, and the client leaves as fast as ever.
4. When the program has dropped what it had, the storage has nothing of the client but the functions that it keeps, and
   the scheduler has no task of it. When the client has left, the storage has nothing at all.
"""

from __future__ import annotations

import ctypes
import gc
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from scaler import Client
from scaler.client.io.connection import Connection
from tests.interrupts.programs import WAIT, Broken, Caller, Interrupt
from tests.support.waiting import eventually

#: between two interrupts of a thread: one in the middle of nearly every call
LONGEST_PAUSE_SECONDS = 0.004
#: some pauses are so many times longer: calls of many round trips come further
PAUSES = (1, 1, 5, 25)

CountTasks = Callable[[], int]


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
            longest = LONGEST_PAUSE_SECONDS * self._rng.choice(PAUSES)
            signal.setitimer(signal.ITIMER_REAL, self._rng.uniform(1e-5, longest), longest)
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


def stress(address: str, seconds: float, seed: int, count_tasks: CountTasks | None = None) -> str:
    """Raises `Broken`; returns what was done, for people. In the main thread.

    `count_tasks`: of a cluster with processors, how many tasks its scheduler has. The cluster has no other client.
    """
    has_streams = count_tasks is not None
    client = Client(address, timeout_seconds=WAIT, heartbeat_interval_seconds=0.5)
    mine, other = (Caller(client, seed + index, has_streams=has_streams) for index in range(2))
    bystanders = [Bystander(Caller(client, seed + 2 + index, has_streams=has_streams)) for index in range(2)]
    mine.warm_up()
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
    _leave(client, count_tasks)
    slowest = max(one.slowest_seconds for one in bystanders)
    done = [one.done_count for one in (mine, other, *(one.caller for one in bystanders))]
    return (
        f"seed {seed}: {mine.interrupted_count} + {other.interrupted_count} interrupts; calls done {done}; "
        f"slowest of a bystander {slowest:.2f} s"
    )


def _leave(client: Client, count_tasks: CountTasks | None) -> None:
    """Laws 3 and 4."""
    connection = client._ready().connection
    # Cancels leave together after a moment, and a call whose future never reached its caller may still run.
    _in_the_end(lambda: connection.standing()[1], 0, "tasks are pending")
    if not connection.lock.acquire(timeout=WAIT):
        raise Broken("the connection's lock is held")
    connection.lock.release()
    _in_the_end(lambda: _waiting_calls(client), (0, 0, 0), "calls of different kinds are waited for")
    # A session that was cut off says goodbye when the next one owns what it did.
    _in_the_end(lambda: len(connection._retired), 0, "sessions have not said goodbye")
    if count_tasks is not None:
        _in_the_end(count_tasks, 0, "tasks are with the scheduler")
    _in_the_end(lambda: _beyond_functions(connection), (0, 0), "objects are held here, and are stored")
    begun_at = time.monotonic()
    client.disconnect()
    if time.monotonic() - begun_at > 3.0:
        raise Broken("the client took long to leave")


def _waiting_calls(client: Client) -> tuple[int, int, int]:
    """Calls with futures as arguments, streams, and maps."""
    gc.collect()
    connection = client._ready().connection
    streams = [opened() for opened in list(connection.streams.values())]
    return len(connection.deferred), sum(one is not None for one in streams), len(client._ready().maps)


def _beyond_functions(connection: Connection) -> tuple[int, int]:
    """How many objects the client holds that are no functions in use, and how many the storage has that the client
    does not hold."""
    gc.collect()
    storage = connection.storage
    held = [object_id for object_id, _ in storage.holdings.all()]
    with storage.functions.lock:
        unwanted = storage.functions.unwanted(held)
    return len(unwanted), storage._connected().status().object_count - len(held)


def _in_the_end(found: Callable[[], object], wanted: object, what: str) -> None:
    last: list[object] = []

    def is_so() -> bool:
        last[:] = [found()]
        return last == [wanted]

    try:
        eventually(is_so, what)
    except AssertionError:
        raise Broken(f"{what}: {last[0]} instead of {wanted}") from None
