"""A bound on the answers to nonsense: an Error for every bad message would make us the flood (ERR-3)."""

from __future__ import annotations

_WINDOW_SECONDS = 1.0
_PER_KEY = 8
#: Sockets that get answers within one window. It bounds the memory a crowd of strangers can take here.
_KEYS = 4096


class Limiter:
    """So many answers per socket and window; what is beyond is counted by the caller and not answered."""

    __slots__ = ("_counts", "_window_ends_at")

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._window_ends_at = 0.0

    def admits(self, key: bytes, now: float) -> bool:
        if now >= self._window_ends_at:
            self._counts.clear()
            self._window_ends_at = now + _WINDOW_SECONDS
        count = self._counts.get(key, 0)
        if count >= _PER_KEY or (count == 0 and len(self._counts) >= _KEYS):
            return False
        self._counts[key] = count + 1
        return True
