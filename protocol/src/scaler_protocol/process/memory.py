"""Giving memory that was freed back to the system.

Measured with glibc 2.36: chunks of 8 MiB are mapped by themselves and unmapped when freed. Those of 1 MiB are mapped
the first time only; after the first one was freed, malloc keeps such sizes in its arenas, and of 300 MiB released
252 stayed with the process until malloc_trim, which gave back all of it in 11 ms. A fixed M_MMAP_THRESHOLD would do
the same for 1 MiB but not for smaller frames. So: trim, but only some time after much was freed, and never often.

What a process counts is not all that it frees: after a flood of bad messages nothing was stored, and 380 of 395 MiB
were free inside of malloc. So the process also looks at itself now and then.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

MUCH_BYTES = 32 * 1024 * 1024
DELAY_SECONDS = 1.0
MEASURE_SECONDS = 10.0

Measure = Callable[[], tuple[int, int]]
"""Returns the bytes of this process that are in memory, and those of them that malloc has given out."""


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    ]  # fmt: skip


def memory_measure() -> Measure:
    """Returns a measure, of nothing where the C library is not glibc 2.33 or newer."""
    if not sys.platform.startswith("linux"):
        return lambda: (0, 0)
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return lambda: (0, 0)
    mallinfo.restype = _MallocInfo
    page_bytes = os.sysconf("SC_PAGE_SIZE")

    def measure() -> tuple[int, int]:
        with open("/proc/self/statm", "rb") as file:
            resident = int(file.read().split()[1]) * page_bytes
        found = mallinfo()
        return resident, found.uordblks + found.hblkhd

    return measure


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
    """Looks at the bytes in use at every wake-up and trims at most once in DELAY_SECONDS. Once in MEASURE_SECONDS it
    looks at the process: more than twice what malloc has given out, and much more than after the last trim, is too
    much. (What Python's own arenas have is in neither figure of malloc, and a trim does not change it.)"""

    def __init__(self, trim: Callable[[], None] | None = None, measure: Measure | None = None) -> None:
        self._trim = trim or memory_trim()
        self._measure = measure or memory_measure()
        self._measure_at = 0.0
        #: what was in memory after the last trim, or at the first look
        self._least_bytes: int | None = None
        #: the most that was in use since the last trim
        self._peak_bytes = 0
        self._due_at: float | None = None

    def look(self, used_bytes: int, now: float) -> None:
        if now >= self._measure_at:
            self._measure_at = now + MEASURE_SECONDS
            self._look_at_process()
        if self._due_at is not None and now >= self._due_at:
            self._trim()
            self._peak_bytes = used_bytes
            self._due_at = None
        self._peak_bytes = max(self._peak_bytes, used_bytes)
        if self._due_at is None and self._peak_bytes - used_bytes >= MUCH_BYTES:
            # Later, because what was just deleted may still be on its way to a reader.
            self._due_at = now + DELAY_SECONDS

    def _look_at_process(self) -> None:
        try:
            resident, given = self._measure()
            if self._least_bytes is None:
                self._least_bytes = resident
            if resident > 2 * given and resident >= self._least_bytes + MUCH_BYTES:
                self._trim()
                self._least_bytes = self._measure()[0]
        except OSError:
            pass  # no descriptor is left: the next look may find one

    def next_deadline(self) -> float | None:
        return self._due_at
