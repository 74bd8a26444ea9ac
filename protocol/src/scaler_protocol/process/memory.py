"""Giving memory that was freed back to the system."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable


def memory_trim() -> Callable[[], None]:
    """malloc_trim where the C library has it; other systems return memory by themselves or not at all."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    try:
        malloc_trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:  # musl
        return lambda: None
    return lambda: malloc_trim(0)
