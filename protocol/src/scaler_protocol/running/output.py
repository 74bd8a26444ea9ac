"""What a task prints, line by line to the client that submitted it (STREAM_OUTPUT), and to the worker's own output,
unless both appear in the same program: then a line is to be seen once."""

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

    def __init__(self, stream: IO[str], number: int) -> None:
        self.stream = stream
        self._number = number
        self.send_line: SendLine | None = None  #: of the task that streams; None: none does
        self.is_for_client_only = False
        self._pending = ""
        self._window_at = 0.0
        self._sent_characters = 0

    def write(self, text: str) -> int:
        if self.send_line is None:
            return self.stream.write(text)
        if not self.is_for_client_only:
            self.stream.write(text)
        self._pending += text
        if "\n" in text or len(self._pending) > LINE_CHARACTERS:
            whole, newline, self._pending = self._pending.rpartition("\n")
            if not newline:
                whole, self._pending = self._pending, ""
            self.pass_on(whole + newline)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def finish(self) -> None:
        if self._pending:
            self.pass_on(self._pending)
            self._pending = ""
        self.send_line = None

    def pass_on(self, text: str) -> None:
        """To the client alone."""
        if self.send_line is None:
            return
        now = time.monotonic()
        if now >= self._window_at + 1.0:
            self._window_at, self._sent_characters = now, 0
        before = self._sent_characters
        self._sent_characters += len(text)
        if self._sent_characters <= CHARACTERS_PER_SECOND:
            for start in range(0, len(text), LINE_CHARACTERS):
                self.send_line(self._number, text[start : start + LINE_CHARACTERS])
        elif before <= CHARACTERS_PER_SECOND:
            self.send_line(self._number, "[scaler: too much output, the rest of this second is left out]\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


_tees: dict[int, _Tee] = {}
"""By number of the stream. A handler of `logging` that a task makes keeps the stream of that moment for its life, and
is to reach the clients of later tasks, too."""


def _tee(stream: Any, number: int, send_line: SendLine, is_for_client_only: bool) -> _Tee:
    found = _tees.get(number)
    if found is None or found.stream is not stream or found.send_line is not None:
        found = _tees[number] = _Tee(stream, number)
    found.send_line, found.is_for_client_only = send_line, is_for_client_only
    return found


@contextmanager
def streamed_output(send_line: SendLine, is_for_client_only: bool = False) -> Iterator[None]:
    before = sys.stdout, sys.stderr
    out = _tee(before[0], LOG_STDOUT, send_line, is_for_client_only)
    err = _tee(before[1], LOG_STDERR, send_line, is_for_client_only)
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        out.finish()
        err.finish()
