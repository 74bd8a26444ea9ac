"""How many bytes records for monitors have on the wire, at most: their lists are cut by that (MON-34).

All that one message lists together stays below the envelope limit of 4 MiB: 2 MiB of failures, 768 KiB of samples, and
512 KiB each of events and names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Reversible
from typing import TypeVar

from scaler_protocol.messages import ClusterEvent, FunctionName, SampleBlock, TaskFailure

FAILURE_BYTES = 2 * 1024 * 1024
BLOCK_BYTES = 768 * 1024
EVENT_BYTES = NAME_BYTES = 512 * 1024

T = TypeVar("T")


def size_of_text(text: str) -> int:
    """With its pointer, its end and what rounds it up to words."""
    return 16 + (len(text) if text.isascii() else len(text.encode(errors="replace")))


def size_of_texts(texts: Iterable[str]) -> int:
    return sum(map(size_of_text, texts))


def size_of_failure(failure: TaskFailure) -> int:
    texts = (failure.user, failure.worker, failure.type_name, failure.first_line, failure.text, failure.key)
    return 280 + size_of_texts(texts) + size_of_texts(failure.accounts)


def size_of_block(block: SampleBlock) -> int:
    return 96 + size_of_text(block.name) + len(block.samples)


def size_of_event(event: ClusterEvent) -> int:
    return 48 + size_of_texts((event.kind, event.subject, event.text))


def size_of_name(name: FunctionName) -> int:
    return 40 + size_of_text(name.name)


def last_that_fit(records: Reversible[T], size_of: Callable[[T], int], limit: int) -> tuple[T, ...]:
    """The last records that have at most so many bytes, in their order."""
    found: list[T] = []
    for record in reversed(records):
        limit -= size_of(record)
        if limit < 0:
            break
        found.append(record)
    return tuple(reversed(found))
