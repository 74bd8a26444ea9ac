"""Arguments of many calls on their way to the storage at once."""

from __future__ import annotations

from typing import Any

import pytest

from scaler.client.submitting.pipeline import LENGTH, Pipeline
from scaler_protocol.ids import ObjectId


class Put:
    def __init__(self, *, is_done: bool = False, error: Exception | None = None) -> None:
        self.is_done = is_done
        self.error = error

    def finish(self) -> None:
        self.is_done = True
        if self.error is not None:
            raise self.error


class Call:
    def __init__(self, number: int) -> None:
        self.objects = (ObjectId(bytes([number]) * 16),)


class Story:
    def __init__(self) -> None:
        self.posted: list[Any] = []
        self.released: list[ObjectId] = []
        self.pipeline = Pipeline(self.posted.extend, self.released.extend)
        self.calls = [Call(number) for number in range(20)]

    def add(self, number: int, *puts: Put) -> None:
        self.pipeline.add(self.calls[number], puts)  # type: ignore[arg-type]

    def numbers(self) -> list[int]:
        return [self.calls.index(call) for call in self.posted]


def test_calls_leave_in_order_when_their_own_objects_are_there() -> None:
    story, first, second = Story(), Put(), Put()
    story.add(0, first, second)
    first.is_done = True
    story.add(1, Put(is_done=True))
    assert story.numbers() == []
    second.is_done = True
    story.add(2)
    assert story.numbers() == [0, 1, 2]


def test_only_so_many_wait() -> None:
    story = Story()
    for number in range(LENGTH + 2):
        story.add(number, Put())
    assert story.numbers() == [0, 1]
    story.pipeline.finish()
    assert story.numbers() == list(range(LENGTH + 2))


def test_what_cannot_be_stored_is_told_and_what_follows_is_not_called() -> None:
    story = Story()
    story.add(0, Put())
    story.add(1, Put(error=MemoryError("full")))
    story.add(2, Put())
    with pytest.raises(MemoryError, match="full"):
        story.pipeline.finish()
    story.pipeline.abandon()
    assert story.numbers() == [0] and story.released == [*story.calls[1].objects, *story.calls[2].objects]
    story.pipeline.finish()
    assert story.numbers() == [0]
