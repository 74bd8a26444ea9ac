"""How long a part of a program takes, in the log."""

from __future__ import annotations

import logging
import time


class ScopedLogger:
    """`with ScopedLogger("loading"): …` logs a line at the beginning, and one at the end with the time it took."""

    def __init__(self, message: str, logging_level: int = logging.INFO) -> None:
        self.message = message
        self.logging_level = logging_level
        self.timer = 0.0

    def begin(self) -> None:
        self.timer = time.perf_counter()
        logging.log(self.logging_level, "beginning %s", self.message)

    def done(self) -> None:
        logging.log(self.logging_level, "completed %s in %.3f seconds", self.message, time.perf_counter() - self.timer)

    def __enter__(self) -> ScopedLogger:
        self.begin()
        return self

    def __exit__(self, *exception: object) -> None:
        self.done()
