"""A thread that does small jobs in order, started when there is a first one."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue

from scaler_protocol import waits
from scaler_protocol.waits import Event

_log = logging.getLogger("scaler")

_IDLE_SECONDS = 5.0
"""After so long without a job the thread ends; the next job starts another."""


FINISH_SECONDS = 1.0
"""How long a client that leaves waits for a job that does not end."""


class Background:
    """Runs what must not run in the IO thread: user callbacks, which may block or submit, and requests to storage."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._lock = waits.RLock()
        #: the process and the thread that works; none is inherited by a forked child
        self._worker = (0, 0)

    @property
    def is_this_thread(self) -> bool:
        return self._worker == (os.getpid(), threading.get_ident())

    def run(self, job: Callable[[], object]) -> None:
        self._jobs.put(job)
        if self._worker[0] == os.getpid():
            return
        try:
            # Of two that are started at once, because an interrupt or another thread came between, one works.
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:
            # Since Python 3.12 no thread begins any more at the interpreter's exit. There `finish` does the rest.
            _log.debug("%s: a job is left for the exit of the program", self._name)

    def wait(self, timeout_seconds: float) -> bool:
        """Until all jobs given so far are done, or the time is over. Never from within a job."""
        if self._jobs.empty() and not self._worker[0]:
            return True
        done = Event()
        self.run(done.set)
        return done.wait(timeout_seconds)

    def finish(self) -> None:
        """Waits a moment for its thread when the client leaves, or does what no thread does, as at the exit of a
        program since Python 3.12. Nothing from within a job."""
        if self.is_this_thread:
            return
        while self._worker[0] != os.getpid():
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            do(job)
        if self._worker[0] == os.getpid():
            self.wait(FINISH_SECONDS)

    def _work(self) -> None:
        worker = os.getpid(), threading.get_ident()
        with self._lock:
            if self._worker[0] == worker[0]:
                return
            self._worker = worker
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    self._worker = (0, 0)
                # `run` puts first and looks at the worker after: a job that is put from here on starts a new thread.
                if self._jobs.empty() or not self._begin_again(worker):
                    return
                continue
            do(job)

    def _begin_again(self, worker: tuple[int, int]) -> bool:
        with self._lock:
            if self._worker[0] == worker[0]:
                return False
            self._worker = worker
            return True


def do(job: Callable[[], object]) -> None:
    """Calls it. A callback that fails is logged, also by SystemExit, because others are still to be called."""
    try:
        job()
    except BaseException:  # noqa: BLE001
        _log.exception("a callback failed")


def weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Calls it while its object lives: a thread that works for an object must not keep it alive."""
    reference = weakref.WeakMethod(method)

    def call() -> None:
        alive = reference()
        if alive is not None:
            alive()

    return call
