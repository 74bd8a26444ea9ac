"""Texts that take long to make. What makes them waits for the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.support.waiting import WAIT

from scaler.ui import costly
from scaler.ui.costly import MAKING_LIMIT, TEXTS_LIMIT, CostlyTexts


class Maker:
    def __init__(self, text: bytes = b"text") -> None:
        self.made_count = 0
        self.threads: set[int] = set()
        self.may_end = threading.Event()
        self.may_end.set()
        self._text = text

    def prepare(self) -> Callable[[], bytes]:
        return self._make

    def _make(self) -> bytes:
        assert self.may_end.wait(WAIT)
        self.made_count += 1
        self.threads.add(threading.get_ident())
        return self._text


def test_a_text_is_made_once_for_all_its_callers_and_not_in_the_loops_thread() -> None:
    async def run() -> None:
        texts, maker = CostlyTexts(), Maker()
        assert await asyncio.gather(*[texts.text("a", maker.prepare) for _ in range(5)]) == [b"text"] * 5
        assert await texts.text("a", maker.prepare) == b"text"
        assert maker.made_count == 1 and threading.get_ident() not in maker.threads

    asyncio.run(run())


def test_a_text_that_is_old_or_long_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        texts, maker = CostlyTexts(), Maker()
        monkeypatch.setattr(costly, "TEXT_BYTES", 3)
        for _ in range(2):
            await texts.text("long", maker.prepare)
        monkeypatch.setattr(costly, "TEXT_BYTES", 4)
        monkeypatch.setattr(costly, "KEPT_SECONDS", 0.0)
        for _ in range(2):
            await texts.text("old", maker.prepare)
        assert maker.made_count == 4

    asyncio.run(run())


def test_few_are_made_at_once() -> None:
    async def run() -> None:
        texts, maker = CostlyTexts(), Maker()
        maker.may_end.clear()
        asked = [asyncio.ensure_future(texts.text(str(number), maker.prepare)) for number in range(MAKING_LIMIT)]
        await asyncio.sleep(0)
        assert await texts.text("one more", maker.prepare) is None
        maker.may_end.set()
        assert await asyncio.gather(*asked) == [b"text"] * MAKING_LIMIT
        assert await texts.text("one more", maker.prepare) == b"text"

    asyncio.run(run())


def test_a_text_that_cannot_be_made_keeps_no_place() -> None:
    def fails() -> bytes:
        raise ValueError("no")

    async def run() -> None:
        texts = CostlyTexts()
        for _ in range(2 * MAKING_LIMIT):
            with pytest.raises(ValueError, match="no"):
                await texts.text("a", lambda: fails)

    asyncio.run(run())


def test_few_are_kept() -> None:
    """The oldest one goes."""

    async def run() -> None:
        texts, maker = CostlyTexts(), Maker()
        for number in range(TEXTS_LIMIT + 1):
            await texts.text(str(number), maker.prepare)
        await texts.text("1", maker.prepare)
        assert maker.made_count == TEXTS_LIMIT + 1
        await texts.text("0", maker.prepare)
        assert maker.made_count == TEXTS_LIMIT + 2

    asyncio.run(run())
