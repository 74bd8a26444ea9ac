"""What a task cost: duration, processor time of its thread, and peak memory above where it began (PROFILING).

Clients profile by default, so this is on the path of tiny tasks. The kernel's peak can be put back to what is used now,
which costs as much as ten tiny tasks; so that is done only when the peak has moved since we last looked. Otherwise what
is used now is close enough below the peak that the difference is nobody's memory.
"""

from __future__ import annotations

import time
from resource import RUSAGE_SELF, getrusage
from struct import Struct

_pack = Struct("<QQQ").pack
_CLEAR_PEAK = b"5"  # to /proc/self/clear_refs: "the peak is what I use now"

_seen_peak = -1  #: when the last profile began or ended


class Profile:
    """Started just before the call; `finish` gives the packed columns of chapter BAT."""

    __slots__ = ("_cpu_ns", "_peak", "_started_ns")

    def __init__(self) -> None:
        global _seen_peak
        self._peak = getrusage(RUSAGE_SELF).ru_maxrss
        if self._peak != _seen_peak:
            _seen_peak = self._peak = _reset_peak()
        self._started_ns = time.perf_counter_ns()
        self._cpu_ns = time.thread_time_ns()

    def finish(self) -> bytes:
        cpu_ns = time.thread_time_ns() - self._cpu_ns
        duration_ns = time.perf_counter_ns() - self._started_ns
        return _pack(duration_ns, cpu_ns, max(getrusage(RUSAGE_SELF).ru_maxrss - self._peak, 0) * 1024)


def _reset_peak() -> int:
    try:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:
            file.write(_CLEAR_PEAK)
    except OSError:
        pass  # forbidden in this container: then peaks are those of the processor's whole life
    return getrusage(RUSAGE_SELF).ru_maxrss
