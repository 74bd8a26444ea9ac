"""Arguments of many calls on their way to the storage at once."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.client.submitting.pipeline import LENGTH, Pipeline


class Put:
    """All puts of one call."""

    def __init__(self, *, is_done: bool = False, error: Exception | None = None) -> None:
        self.is_released = self.is_handed_over = False
        self.is_done = is_done
        self.error = error

    def finish(self) -> None:
        self.is_done = True
        if self.error is not None:
            raise self.error

    def hand_over(self) -> None:
        self.is_handed_over = True

    def release(self) -> None:
        self.is_released = True


class Call:
    """A submission."""


class Story:
    def __init__(self) -> None:
        self.posted: list[Any] = []
        self.pipeline = Pipeline(self.posted.extend)
        self.calls = [Call() for _ in range(20)]

    def add(self, number: int, puts: Put) -> None:
        self.pipeline.add(self.calls[number], puts)  # type: ignore[arg-type]

    def numbers(self) -> list[int]:
        return [self.calls.index(call) for call in self.posted]


def test_calls_leave_in_order_when_their_own_objects_are_there() -> None:
    story, first = Story(), Put()
    story.add(0, first)
    story.add(1, Put(is_done=True))
    assert story.numbers() == []
    first.is_done = True
    story.add(2, Put(is_done=True))
    assert story.numbers() == [0, 1, 2]


def test_only_so_many_wait() -> None:
    story = Story()
    for number in range(LENGTH + 2):
        story.add(number, Put())
    assert story.numbers() == [0, 1]
    story.pipeline.finish()
    assert story.numbers() == list(range(LENGTH + 2))


def test_what_cannot_be_stored_is_told_and_what_follows_is_not_called() -> None:
    story, puts = Story(), [Put(), Put(error=MemoryError("full")), Put()]
    for number, put in enumerate(puts):
        story.add(number, put)
    with pytest.raises(MemoryError, match="full"):
        story.pipeline.finish()
    story.pipeline.abandon()
    assert story.numbers() == [0]
    assert [put.is_handed_over for put in puts] == [True, False, False]
    assert [put.is_released for put in puts] == [False, True, True]
    story.pipeline.finish()
    assert story.numbers() == [0]
