"""What a task cost: duration, processor time of its thread, and peak memory above where it began (PROFILING)."""

from __future__ import annotations

import resource
import time
from struct import Struct

_PROFILE = Struct("<QQQ")
_CLEAR_PEAK = b"5"  # to /proc/self/clear_refs: "the peak is what I use now"


class Profile:
    """Started just before the call; `finish` gives the packed columns of chapter BAT."""

    def __init__(self) -> None:
        self._start_bytes = _reset_peak()
        self._started_ns = time.perf_counter_ns()
        self._cpu_ns = time.thread_time_ns()

    def finish(self) -> bytes:
        cpu_ns = time.thread_time_ns() - self._cpu_ns
        duration_ns = time.perf_counter_ns() - self._started_ns
        return _PROFILE.pack(duration_ns, cpu_ns, max(0, _peak_bytes() - self._start_bytes))


def _reset_peak() -> int:
    try:
        with open("/proc/self/clear_refs", "wb") as file:
            file.write(_CLEAR_PEAK)
    except OSError:
        pass  # not Linux, or forbidden in this container: then the peak is that of the processor's whole life
    return _peak_bytes()


def _peak_bytes() -> int:
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
