"""Says once when a loop of `submit` serializes a large function anew for each call, and what makes it large.

A function whose globals or object may have changed is serialized for each call, because a call sees the state at its
submit. With a large table among them, a loop takes seconds that a `map` does not. A worker reads such a function anew
for each call either way (decision 0025): only a value that it makes itself is read once.
"""

from __future__ import annotations

import logging
from typing import Any

from scaler.client.futures.interrupts import pass_on
from scaler_protocol import values, waits

_log = logging.getLogger("scaler")

LARGE_BYTES = 64 * 1024
"""Functions from this size on, serialized, are counted. Smaller ones cost little even in a long loop."""
REPEATED_BYTES = 32 * 1024 * 1024
"""So much of one function, without its first time, is worth a line."""
MOST_FUNCTIONS = 64


class Repeats:
    """Safe in any thread."""

    def __init__(self) -> None:
        self._lock = waits.RLock()
        #: name of a function -> how often it was serialized and its bytes without the first time
        self._counts: dict[str, tuple[int, int]] = {}
        self._is_told = False

    def has_to_tell(self, name: str, size: int) -> int:
        """Counts a function of at least LARGE_BYTES. Returns how often it was serialized if that has to be told now,
        else 0."""
        with self._lock:
            count, repeated = self._counts.pop(name, (0, -size))
            self._counts[name] = count + 1, repeated + size
            if len(self._counts) > MOST_FUNCTIONS:
                self._counts.pop(next(iter(self._counts)))
            if self._is_told or repeated + size < REPEATED_BYTES:
                return 0
            self._is_told = True
            return count + 1


def tell(name: str, function: Any, count: int, size: int) -> None:
    place, bytes_count = _largest_part(function)
    _log.warning(
        "the function %s was serialized %d times for single calls, %.1f MiB each time, because %s (%.1f MiB) may have "
        "changed between them. Each of these calls is also read anew by its worker. map() serializes the function once "
        "for many calls; send_object() sends the value once, if you pass the reference as an argument; with "
        "scaler.worker_state() the workers make it once, and no call sends or reads it",
        *(name, count, size / 2**20, place, bytes_count / 2**20),
    )


def _largest_part(function: Any) -> tuple[str, int]:
    from scaler_protocol import unpicklable  # once in a program, and in most never

    found = "what it refers to", 0
    for part in unpicklable.parts_of(function):
        if not part.kind:
            continue
        try:
            size = values.size_of(values.dumps(part.value))
        except Exception as error:  # noqa: BLE001  # the function itself has just been serialized
            pass_on(error)
            continue
        if size > found[1]:
            found = f"{part.kind} {part.name} of {part.owner}", size
    return found
