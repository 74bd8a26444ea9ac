"""What a task prints, line by line to the client that submitted it, besides where it went anyway (STREAM_OUTPUT)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from scaler_protocol.codes import LOG_STDERR, LOG_STDOUT

LINE_CHARACTERS = 16 * 1024
CHARACTERS_PER_SECOND = 1024 * 1024
"""Beyond this a task's output is cut, with a line that says so: logs must not drown results."""

SendLine = Callable[[int, str], None]  # stream, text


class _Tee:
    """A text stream that also passes whole lines on. Everything else is the stream's own."""

    def __init__(self, stream: IO[str], number: int, send_line: SendLine) -> None:
        self._stream = stream
        self._number = number
        self._send_line = send_line
        self._pending = ""
        self._window_at = 0.0
        self._sent_characters = 0

    def write(self, text: str) -> int:
        self._stream.write(text)
        self._pending += text
        if "\n" in text or len(self._pending) > LINE_CHARACTERS:
            whole, newline, self._pending = self._pending.rpartition("\n")
            if not newline:
                whole, self._pending = self._pending, ""
            self._pass_on(whole + newline)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def finish(self) -> None:
        if self._pending:
            self._pass_on(self._pending)
            self._pending = ""

    def _pass_on(self, text: str) -> None:
        now = time.monotonic()
        if now >= self._window_at + 1.0:
            self._window_at, self._sent_characters = now, 0
        before = self._sent_characters
        self._sent_characters += len(text)
        if self._sent_characters <= CHARACTERS_PER_SECOND:
            for start in range(0, len(text), LINE_CHARACTERS):
                self._send_line(self._number, text[start : start + LINE_CHARACTERS])
        elif before <= CHARACTERS_PER_SECOND:
            self._send_line(self._number, "[scaler: too much output, the rest of this second is left out]\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def streamed_output(send_line: SendLine) -> Iterator[None]:
    before = sys.stdout, sys.stderr
    out, err = _Tee(before[0], LOG_STDOUT, send_line), _Tee(before[1], LOG_STDERR, send_line)
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        out.finish()
        err.finish()
