"""What a task cost: duration, processor time of its thread, and peak memory above where it began (PROFILING).

Clients profile by default, so this is on the path of tiny tasks. The kernel's peak can be put back to what is used now,
with two system calls. They are saved if the peak has not moved since it was put back, and is at most `CLOSE_KIB` above
what was in use before the first task. Then what is used now is that close to the peak. A peak further up may belong to
memory that was freed since, such as the large argument of an earlier task. What the next task takes would stay below
such a peak, and would not be counted.
"""

from __future__ import annotations

import mmap
import time
from resource import RUSAGE_SELF, getrusage

from scaler_protocol.columns import PROFILE

_pack = PROFILE.pack
_CLEAR_PEAK = b"5"  # to /proc/self/clear_refs: "the peak is what I use now"

CLOSE_KIB = 8 * 1024
"""Memory below this that was freed since the peak is not worth the system calls."""

_seen_peak = -1  #: when it was last put back


class Profile:
    """Started just before the call; `finish` gives the packed columns of chapter BAT."""

    __slots__ = ("_cpu_ns", "_peak", "_started_ns")

    def __init__(self) -> None:
        global _seen_peak
        self._peak = getrusage(RUSAGE_SELF).ru_maxrss
        if self._peak != _seen_peak or self._peak > _LOW_KIB:
            _seen_peak = self._peak = _reset_peak()
        self._started_ns = time.perf_counter_ns()
        self._cpu_ns = time.thread_time_ns()

    def finish(self) -> bytes:
        cpu_ns = max(time.thread_time_ns() - self._cpu_ns, 0)  # a child that the call has forked begins at zero
        duration_ns = time.perf_counter_ns() - self._started_ns
        return _pack(duration_ns, cpu_ns, max(getrusage(RUSAGE_SELF).ru_maxrss - self._peak, 0) * 1024)


def _reset_peak() -> int:
    try:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:
            file.write(_CLEAR_PEAK)
    except OSError:
        pass  # forbidden in this container: then peaks are those of the processor's whole life
    return getrusage(RUSAGE_SELF).ru_maxrss


def _used_kib() -> int:
    """Not a peak: that of a new process can be inherited from the process that started it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE // 1024
    except OSError:
        return 0  # another system: no peak can be put back there


_LOW_KIB = _used_kib() + CLOSE_KIB  # this module is read by the process that forks the processors
