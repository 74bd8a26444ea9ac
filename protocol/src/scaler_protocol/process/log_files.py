"""A log file that several processes write to, that is rotated at midnight, and that may be on a full disk.

A cluster and its workers are given the same path. Each process appends whole lines; the system keeps the lines apart.
The first process that writes on a new day gives the file its name of the day before, with a hard link, which exactly
one process succeeds in making. The other processes find that another file has the name now, and open that file, as
they do when a tool such as logrotate has moved it.

A line that cannot be written is dropped: a full disk must not stop the process that logs. Standard error says so once
in a while. When lines can be written again, a line in the file tells how many are missing there.
"""

from __future__ import annotations

import errno
import logging
import logging.handlers
import os
import stat
import sys
import time

TELL_SECONDS = 60.0
"""Standard error is told at most this often that a file cannot be written: a disk may be full and not, in turns."""

_MODE = 0o644
"""Set whatever the umask is: no other user may write lines into the log of this process."""

_FULL = frozenset((errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)))


class DailyFileHandler(logging.Handler):
    """OSError from the constructor if the file cannot be opened, unless the disk is full: that may pass.

    With `opens_late` the file is opened, and made, for the first line.
    """

    def __init__(self, path: str, *, opens_late: bool = False) -> None:
        super().__init__()
        self.path = os.path.abspath(path)
        self._descriptor = -1
        self._place = (0, 0)  #: device and inode of the open file
        self._day = ""  #: when the open file was last written
        self._is_cut = False  #: the last line in the file has no end
        self._lost_count = 0
        self._told_at: float | None = None
        if not opens_late:
            try:
                self._open()
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                self._tell(error)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - arguments that do not fit their message: said as logging says it
            self.handleError(record)
            return
        try:
            self._find_file(_day(record.created))
            if self._lost_count:
                self._append(self.format(_lost(self._lost_count)))
                self._lost_count = 0
            self._append(line)
        except OSError as error:
            self._lost_count += 1
            self._tell(error)

    def close(self) -> None:
        self.acquire()
        try:
            self._close_file()
        finally:
            self.release()
        super().close()

    def _find_file(self, day: str) -> None:
        """Open the file that belongs at the path now, on this day."""
        if self._descriptor >= 0 and day > self._day:
            self._turn_over()
            self._day = day
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            found = None
        if self._descriptor < 0 or found is None or (found.st_dev, found.st_ino) != self._place:
            self._open()
            if day > self._day:  # an old file that is opened late
                self._find_file(day)

    def _open(self) -> None:
        self._close_file()
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        found = os.fstat(self._descriptor)
        self._place = (found.st_dev, found.st_ino)
        self._day = _day(found.st_mtime)

    def _close_file(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _turn_over(self) -> None:
        try:
            found = os.stat(self.path)
            written = _day(found.st_mtime)
            if written <= self._day and stat.S_ISREG(found.st_mode):  # else the file of today is there already
                os.link(self.path, f"{self.path}.{written}")
                os.unlink(self.path)
        except OSError:
            pass  # another process was faster; or links cannot be made here, and then the file simply goes on

    def _append(self, line: str) -> None:
        rest = memoryview((("\n" if self._is_cut else "") + line + "\n").encode(errors="backslashreplace"))
        size = len(rest)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        finally:
            # A full disk may take half of a line. The next line shall not be appended to that half.
            self._is_cut = (self._is_cut and len(rest) == size) or 0 < len(rest) < size

    def _tell(self, error: OSError) -> None:
        now = time.monotonic()
        if self._told_at is not None and now - self._told_at < TELL_SECONDS:
            return
        self._told_at = now
        try:
            sys.stderr.write(f"cannot log to {self.path}: {error.strerror}; lines are dropped until then\n")
        except (OSError, ValueError, AttributeError):
            pass  # standard error is closed, gone, or on the same disk


def daily_file_handler(path: str, *, opens_late: bool = False) -> logging.Handler:
    """Windows moves no open files; there, commands that log do not share them either."""
    if sys.platform == "win32":
        return logging.handlers.TimedRotatingFileHandler(path, when="midnight", encoding="utf-8", delay=opens_late)
    return DailyFileHandler(path, opens_late=opens_late)


def _lost(count: int) -> logging.LogRecord:
    lines = "1 line is" if count == 1 else f"{count} lines are"
    text = f"{lines} missing here: the file could not be written"
    return logging.LogRecord("scaler.log_files", logging.WARNING, "", 0, text, (), None)


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
