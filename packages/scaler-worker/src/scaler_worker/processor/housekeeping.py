"""What a processor does for its memory between two tasks: collect garbage, and give free memory back."""

from __future__ import annotations

import gc
from collections.abc import Callable

import psutil

from scaler_protocol.process import memory_trim


class Housekeeping:
    def __init__(
        self, collect_seconds: float, trim_threshold_bytes: int, now: float, trim: Callable[[], None] | None = None
    ) -> None:
        self._collect_seconds = collect_seconds
        self._trim_threshold_bytes = trim_threshold_bytes
        self._collect_at = now + collect_seconds
        self._trim = trim or memory_trim()

    def is_due(self, now: float) -> bool:
        return now >= self._collect_at

    def collect(self, now: float) -> None:
        self._collect_at = now + self._collect_seconds
        gc.collect()
        try:
            is_large = psutil.Process().memory_info().rss >= self._trim_threshold_bytes
        except OSError:
            is_large = True  # tasks have left no descriptor to look
        if is_large:
            self._trim()
