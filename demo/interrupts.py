"""Ctrl-C at any moment: what must not be torn in two is finished first, then the interrupt is raised."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

AGAIN_SECONDS = 0.01


class Interrupts:
    """Turns SIGINT and SIGTERM into one KeyboardInterrupt, outside of `deferred` blocks only."""

    def __init__(self) -> None:
        self.signal_number = 0
        self._is_deferred = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)
        sys.unraisablehook = self._on_unraisable

    @property
    def exit_code(self) -> int:
        """As shells write it: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.signal_number

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Starting and stopping the cluster: interrupted half-way, a child process could be forgotten."""
        was_interrupted = bool(self.signal_number)
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
        if self.signal_number and not was_interrupted:
            raise KeyboardInterrupt

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """The first one counts. A second Ctrl-C is impatience with the clean-up, which is bounded."""
        if self.signal_number:
            return
        self.signal_number = number
        if not self._is_deferred:
            raise KeyboardInterrupt

    def _on_unraisable(self, unraisable: Any) -> None:
        """It was raised in a destructor or the like, where Python cannot but ignore it: once more, a moment later."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        number, self.signal_number = self.signal_number, 0
        threading.Timer(AGAIN_SECONDS, signal.pthread_kill, (threading.main_thread().ident, number)).start()
