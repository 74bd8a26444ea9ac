"""What a person sees while it runs, and how numbers are written."""

import os
import platform
import shutil
import sys
import time
from typing import TextIO

#: Without a terminal a line is printed rather than rewritten, so seldom enough to be read.
PLAIN_EVERY_SECONDS = 2.0
LIVE_EVERY_SECONDS = 0.1
BAR_CELLS = 24


class Progress:
    """One line that is rewritten on a terminal; elsewhere, a plain line now and then."""

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self._label = label
        self._total = total
        self._stream = stream or sys.stderr
        self._is_live = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._shown_at = 0.0
        self.show(0, "", is_due=True)

    def show(self, done: int, detail: str, is_due: bool = False) -> None:
        now = time.monotonic()
        pause = LIVE_EVERY_SECONDS if self._is_live else PLAIN_EVERY_SECONDS
        if not is_due and now - self._shown_at < pause:
            return
        self._shown_at = now
        self._write(f"{self._label}  {bar(done, self._total)} {done:>7,} of {self._total:,}  {detail}".rstrip())

    def finish(self, detail: str) -> None:
        self.show(self._total, detail, is_due=True)
        if self._is_live:
            self._stream.write("\n")

    def _write(self, line: str) -> None:
        if self._is_live:
            line = line[: shutil.get_terminal_size().columns - 1]
            self._stream.write(f"\r\x1b[K{line}")
        else:
            self._stream.write(f"{line}\n")
        self._stream.flush()


def say(text: str = "") -> None:
    print(text, file=sys.stderr, flush=True)


def end_live_line() -> None:
    """Leave a half-drawn progress line behind, so that the next sentence begins on its own."""
    if sys.stderr.isatty():
        say()


def bar(part: float, whole: float, cells: int = BAR_CELLS) -> str:
    filled = round(cells * part / whole) if whole else cells
    return "█" * filled + "░" * (cells - filled)


def machine(worker_count: int) -> str:
    return f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores, {worker_count} workers"
