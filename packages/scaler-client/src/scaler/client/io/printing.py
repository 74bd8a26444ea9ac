"""What tasks print, and what workers prepare for them, in the streams of the program."""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from typing import TextIO

from scaler.client.core.actions import Print, Tell
from scaler.client.io.background import Background
from scaler_protocol.codes import LOG_STDERR
from scaler_protocol.errors import escaped_lines, readable
from scaler_protocol.ids import TaskId

_log = logging.getLogger("scaler.preparation")

PRINT_SECONDS = 1.0
"""How long a result waits for what its task has printed to be written."""
MOST_PREPARED = 1_024
"""Tasks that are being prepared at the same time, for one client. The oldest are forgotten: they are shown no less."""


def _write(stream: TextIO | None, text: str) -> None:
    """Writes each line: what the stream cannot encode, as a file on Windows in an old code page, is shown by its
    number. Nothing is raised either, if the stream is closed or its reader has gone. What a terminal would obey, such
    as a sequence that clears it or sets its title, is escaped there; a file or pipe has the text as it was printed."""
    if stream is None:  # pythonw has none
        return
    try:
        if getattr(stream, "isatty", bool)():  # a program's own object may have none
            text = escaped_lines(text)
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
        stream = sys.stderr if action.stream == LOG_STDERR else sys.stdout
        self._is_printing = True
        self._callbacks.run(lambda: _write(stream, action.text))

    def wait(self) -> None:
        """What a task has printed is seen before its result, unless the reader of the output is stuck."""
        if self._is_printing and not self._callbacks.is_this_thread:
            self._is_printing = False
            self._callbacks.wait(PRINT_SECONDS)


class Preparations:
    """Why tasks cannot begin yet, such as packages that are being installed. Every process of a host that waits for the
    same packages tells the same text, which is shown once."""

    def __init__(self, callbacks: Background) -> None:
        self._callbacks = callbacks
        self._texts: OrderedDict[TaskId, str] = OrderedDict()

    def text_of(self, task_id: TaskId) -> str:
        return self._texts.get(task_id, "")

    def tell(self, action: Tell) -> None:
        before = self._texts.pop(action.task_id, "")
        text = readable(action.text)
        if not text:
            return
        is_known = text == before or text in self._texts.values()
        self._texts[action.task_id] = text
        if len(self._texts) > MOST_PREPARED:
            self._texts.popitem(last=False)
        if not is_known:
            self._callbacks.run(lambda: _show(text))


def _show(text: str) -> None:
    """A program that has set up logging decides by it; any other sees the text without having to ask."""
    if _log.hasHandlers():
        _log.info("%s", text)
    else:
        _write(sys.stderr, f"scaler: {text}\n")
