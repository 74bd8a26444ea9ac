"""A bound on log lines that peers cause. Without it, any program that can send a Hello could fill a disk with them."""

from __future__ import annotations

import logging

BURST_LINES = 1000
"""How many may be written at once: when a large cluster starts, all its peers cause a line."""
LINES_PER_SECOND = 20.0


class LineBudget:
    """A token bucket. Lines that are left out are counted, and the count is logged before the next line."""

    __slots__ = ("_left", "_left_out", "_looked_at", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = float(BURST_LINES)
        self._looked_at: float | None = None
        self._left_out = 0

    def admits(self, now: float) -> bool:
        passed = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        self._left = min(BURST_LINES, self._left + passed * LINES_PER_SECOND)
        if self._left < 1.0:
            self._left_out += 1
            return False
        self._left -= 1.0
        if self._left_out:
            logging.warning(
                "%s: %d lines about peers were left out here, because more than %g came each second",
                self._name, self._left_out, LINES_PER_SECOND,
            )  # fmt: skip
            self._left_out = 0
        return True
