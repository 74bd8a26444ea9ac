"""A thread that does small jobs in order, started when there is a first one."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

_log = logging.getLogger("scaler")

_IDLE_SECONDS = 5.0
"""After so long without a job the thread ends; the next job starts another."""


class Background:
    """Runs what must not run in the IO thread: user callbacks, which may block or submit, and requests to storage."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._lock = threading.Lock()
        #: where its thread is; none is inherited by a forked child
        self._process_id = 0
        self._thread_id = 0

    @property
    def is_this_thread(self) -> bool:
        return self._thread_id == threading.get_ident()

    def run(self, job: Callable[[], object]) -> None:
        self._jobs.put(job)
        with self._lock:
            if self._process_id == os.getpid():
                return
            self._process_id = os.getpid()
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def wait(self, timeout_seconds: float) -> bool:
        """Until all jobs given so far are done, or the time is over. Never from within a job."""
        if self._jobs.empty() and not self._process_id:
            return True
        done = threading.Event()
        self.run(done.set)
        return done.wait(timeout_seconds)

    def _work(self) -> None:
        self._thread_id = threading.get_ident()
        while True:
            try:
                job = self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    # `run` puts first and looks at the flag after: a job that is not seen here starts a new thread.
                    if self._jobs.empty():
                        self._process_id = 0
                        return
                continue
            try:
                job()
            except Exception:  # noqa: BLE001
                # As concurrent.futures does: a broken callback is told of and harms nobody else.
                _log.exception("a callback failed")
