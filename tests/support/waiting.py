"""Waiting in tests: bounded, and saying what for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

WAIT = 20.0
"""No wait is expected to take noticeable time; this is when it counts as stuck."""


def eventually(is_true: Callable[[], bool], what: str) -> None:
    """For what another thread does and no event tells of; bounded."""
    end_at = time.monotonic() + WAIT
    tick = threading.Event()
    while not is_true():
        assert time.monotonic() < end_at, f"waited in vain until {what}"
        tick.wait(0.005)
