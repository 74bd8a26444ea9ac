"""A bound on the answers to nonsense: an Error for every bad message would make us the flood (ERR-3)."""

from __future__ import annotations

_WINDOW_SECONDS = 1.0


class Limiter:
    """So many answers per socket and window, to so many sockets. What is beyond is the caller's to deal with."""

    __slots__ = ("_counts", "_keys", "_most", "_window_ends_at")

    def __init__(self, most: int, keys: int) -> None:
        self._most = most
        self._keys = keys  # bounds the memory that a crowd can take here
        self._counts: dict[bytes, int] = {}
        self._window_ends_at = 0.0

    def admits(self, key: bytes, now: float) -> bool:
        if now >= self._window_ends_at:
            self._counts.clear()
            self._window_ends_at = now + _WINDOW_SECONDS
        count = self._counts.get(key, 0)
        if count >= self._most or (count == 0 and len(self._counts) >= self._keys):
            return False
        self._counts[key] = count + 1
        return True
