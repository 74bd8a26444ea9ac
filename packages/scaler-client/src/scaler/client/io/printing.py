"""What tasks print, in the streams of the program."""

from __future__ import annotations

import sys
from typing import TextIO

from scaler.client.core.actions import Print
from scaler.client.io.background import Background

PRINT_SECONDS = 1.0
"""How long a result waits for what its task has printed to be written."""


def _write(stream: TextIO | None, text: str) -> None:
    """No line is lost: what the stream cannot encode, as a file on Windows in an old code page, is shown by its number.
    Nothing is raised either, if the stream is closed or its reader has gone."""
    if stream is None:  # pythonw has none
        return
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except (OSError, ValueError):
        pass


class Printing:
    def __init__(self, callbacks: Background) -> None:
        self._callbacks = callbacks
        #: something may not have been written yet
        self._is_printing = False

    def print(self, action: Print) -> None:
        # Writing to a terminal or pipe may block: not here.
        stream = sys.stderr if action.stream == 2 else sys.stdout
        self._is_printing = True
        self._callbacks.run(lambda: _write(stream, action.text))

    def wait(self) -> None:
        """What a task has printed is seen before its result, unless the reader of the output is stuck."""
        if self._is_printing and not self._callbacks.is_this_thread:
            self._is_printing = False
            self._callbacks.wait(PRINT_SECONDS)
