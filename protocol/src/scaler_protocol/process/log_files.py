"""A log file that several processes write to, and that turns over at midnight.

A cluster and its workers are given the same path. Each writes whole lines to the end of the file; the system keeps them
apart. The first to notice that a day is over gives the file its name of that day, with a hard link, which exactly one
process succeeds in making; the others find that another file has the name now, and open that one, as they do when a
tool such as logrotate has moved it.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
import time


class DailyFileHandler(logging.handlers.WatchedFileHandler):
    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8")
        self._day = _day(os.stat(self.baseFilename).st_mtime)

    def emit(self, record: logging.LogRecord) -> None:
        day = _day(record.created)
        if day > self._day:
            self._turn_over()
            self._day = day
        super().emit(record)  # looks first whether the file at the path is still the one that is open

    def _turn_over(self) -> None:
        try:
            written = _day(os.stat(self.baseFilename).st_mtime)
            if written <= self._day:  # else the file of today is there already
                os.link(self.baseFilename, f"{self.baseFilename}.{written}")
                os.unlink(self.baseFilename)
        except OSError:
            pass  # another process was faster; or links cannot be made here, and then the file simply goes on


def daily_file_handler(path: str) -> logging.Handler:
    """Windows moves no open files; there, commands that log do not share them either."""
    if sys.platform == "win32":
        return logging.handlers.TimedRotatingFileHandler(path, when="midnight", encoding="utf-8")
    return DailyFileHandler(path)


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))
