"""What tasks print, in the streams of the program."""

from __future__ import annotations

import sys

from scaler.client.core.actions import Print
from scaler.client.io.background import Background

PRINT_SECONDS = 1.0
"""How long a result waits for what its task has printed to be written."""


class Printing:
    def __init__(self, callbacks: Background) -> None:
        self._callbacks = callbacks
        #: something may not have been written yet
        self._is_printing = False

    def print(self, action: Print) -> None:
        # Writing to a terminal or pipe may block: not here.
        stream = sys.stderr if action.stream == 2 else sys.stdout
        self._is_printing = True
        self._callbacks.run(lambda: print(action.text, end="", file=stream, flush=True))

    def wait(self) -> None:
        """What a task has printed is seen before its result, unless whoever reads it is stuck."""
        if self._is_printing and not self._callbacks.is_this_thread:
            self._is_printing = False
            self._callbacks.wait(PRINT_SECONDS)
