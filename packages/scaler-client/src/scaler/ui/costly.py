"""Texts that take long to make, such as a flame graph: made in a thread, few at a time, each for all its
callers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

MAKING_LIMIT = 2
"""So many texts may be in the making at once."""
TEXTS_LIMIT = 16
TEXT_BYTES = 1024 * 1024
"""A longer text is not kept: the next caller has it made again."""
KEPT_SECONDS = 2.0


class _Kept(NamedTuple):
    made_at: float
    text: bytes


class CostlyTexts:
    """Of the loop's thread. Each text has a name that says all on which it depends, but for the time."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}  #: the oldest first
        self._making: dict[str, asyncio.Future[bytes]] = {}

    async def text(self, name: str, prepare: Callable[[], Callable[[], bytes]]) -> bytes | None:
        """At most KEPT_SECONDS old. None: too many others are in the making. `prepare` is called in the loop's
        thread; what it returns makes the text in another one."""
        kept = self._kept.get(name)
        if kept is not None and time.monotonic() - kept.made_at < KEPT_SECONDS:
            return kept.text
        making = self._making.get(name)
        if making is None:
            if len(self._making) >= MAKING_LIMIT:
                return None
            making = self._making[name] = asyncio.ensure_future(self._make(name, prepare))
        return await asyncio.shield(making)

    async def _make(self, name: str, prepare: Callable[[], Callable[[], bytes]]) -> bytes:
        try:
            text = await asyncio.to_thread(prepare())
        finally:
            del self._making[name]
        self._kept.pop(name, None)
        if len(text) <= TEXT_BYTES:
            if len(self._kept) >= TEXTS_LIMIT:
                del self._kept[next(iter(self._kept))]
            self._kept[name] = _Kept(time.monotonic(), text)
        return text
