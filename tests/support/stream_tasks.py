"""Generators that tests have workers run."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

from tests.support.tasks import note, wait_for_file


def numbers(count: int) -> Generator[int, None, str]:
    yield from range(count)
    return f"{count} numbers"


def noted(log: str, count: int) -> Iterator[int]:
    """Leaves a line before each value, and one when it ends."""
    note(log, f"begun {os.getpid()}")
    try:
        for number in range(count):
            note(log, f"value {number}")
            yield number
    finally:
        note(log, "ended")


def gated(log: str, gate: str, count: int) -> Iterator[int]:
    """Goes on behind its values when there is a file of this name."""
    note(log, f"begun {os.getpid()}")
    try:
        yield from range(count)
        note(log, "waits")
        wait_for_file(gate)
        yield count
    finally:
        note(log, "ended")


def failing(count: int) -> Iterator[int]:
    yield from range(count)
    raise KeyError("behind the values")


def dying(count: int) -> Iterator[int]:
    yield from range(count)
    os._exit(3)


def sleeping(log: str) -> Iterator[int]:
    """Is in the middle of its own code when it is canceled."""
    try:
        yield 0
        note(log, "sleeps")
        time.sleep(600)
    finally:
        note(log, "ended")


def blocks(count: int, size: int) -> Iterator[bytes]:
    for number in range(count):
        yield bytes([number]) * size


def unserializable() -> Iterator[Any]:
    yield 1
    yield lambda: os.sep
    yield Unserializable()


class Unserializable:
    def __reduce__(self) -> Any:
        raise ValueError("not this one")


async def asynchronous() -> AsyncIterator[int]:
    yield 1


def with_window(window: int, count: int) -> Iterator[int]:
    """Has a parameter of the name of an option."""
    for _ in range(count):
        yield window


def values_in_a_loop(client: Any, count: int) -> list[int]:
    """An event loop inside a task: this one lends its place while it waits."""

    async def work() -> list[int]:
        values = [value async for value in client.imap(abs, range(-count, 0), window=3)]
        return [*values, *[value async for value in client.stream(numbers, 2)], await client.submit(abs, -9)]

    return asyncio.run(work())


def sum_of_stream(client: Any, count: int) -> int:
    """A stream inside a task: this one lends its place while it waits."""
    return sum(client.stream(numbers, count, window=2))
