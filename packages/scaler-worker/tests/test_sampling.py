"""Samples of tasks: spread over the interval, honest about how many there were (MON-11)."""

from __future__ import annotations

import struct
from collections import deque
from itertools import pairwise

import pytest
from tests.support.holder_story import OPENED, SCHEDULER, task_id
from tests.support.worker_story import TINY, Story

from scaler_protocol.codes import STATUS_CANCELED, STATUS_FAILED, STATUS_PROCESSOR_DIED, STATUS_SUCCESS
from scaler_protocol.holding.tasks import Task
from scaler_protocol.messages import SampleTasks, TaskHeader
from scaler_protocol.session import Lost
from scaler_worker.core.events import INTERRUPTED, TaskEnd
from scaler_worker.core.processors import Processor
from scaler_worker.core.sampling import Sampler

ROW = struct.Struct("<16s16sQQII")


def processor_with(*numbers: int) -> Processor:
    tasks = deque(Task(task_id(number), 1, TaskHeader(), TINY, b"", 0.0) for number in numbers)
    return Processor(1, 0.0, process_id=77, slice=tasks)


def end(seconds: float = 0.001, status: int = STATUS_SUCCESS) -> TaskEnd:
    return 1, status, 0, seconds, b"", b""


def rows(sampler: Sampler, now: float) -> tuple[int, list[tuple[int, ...]]]:
    count, data = sampler.take(now)
    found = [ROW.unpack_from(data, at) for at in range(0, len(data), ROW.size)]
    return count, [(int.from_bytes(row[0], "big"), *row[2:]) for row in found]


def test_what_ran_when() -> None:
    sampler = Sampler(10)
    sampler.note(processor_with(1, 2, 3), [end(0.5), end(0.25, STATUS_FAILED), end(0.125, INTERRUPTED)], now=10.0)
    count, found = rows(sampler, now=11.0)
    assert count == 3
    assert found == [
        (1, 1_875_000, 500_000, 77, STATUS_SUCCESS),
        (2, 1_375_000, 250_000, 77, STATUS_FAILED),
        (3, 1_125_000, 125_000, 77, STATUS_CANCELED),
    ]
    assert rows(sampler, now=12.0) == (0, [])


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
@pytest.mark.parametrize("batch", [1, 3, 64])
def test_they_are_spread_evenly_and_counted_in_full(limit: int, batch: int) -> None:
    sampler = Sampler(limit)
    numbers = list(range(960))
    for first in range(0, len(numbers), batch):
        chosen = numbers[first : first + batch]
        sampler.note(processor_with(*chosen), [end()] * len(chosen), now=1.0)
    count, found = rows(sampler, now=1.0)
    assert count == 960
    assert limit / 2 <= len(found) <= limit
    taken = [row[0] for row in found]
    gaps = {after - before for before, after in pairwise(taken)}
    assert len(gaps) <= 1, "every k-th"


def test_one_that_ends_with_its_processor() -> None:
    sampler = Sampler(10)
    processor = processor_with()
    processor.first_since = 3.0
    task = Task(task_id(9), 1, TaskHeader(), TINY, b"", 0.0)
    sampler.note_death(processor, task, STATUS_PROCESSOR_DIED, now=5.0)
    assert rows(sampler, now=5.0) == (1, [(9, 2_000_000, 2_000_000, 77, STATUS_PROCESSOR_DIED)])


def test_an_agent_samples_from_when_it_is_asked_until_it_is_told_not_to() -> None:
    story = Story()
    story.event(OPENED)
    assert story.core.tables.sampler is None
    story.receive(SampleTasks(5))
    sampler = story.core.tables.sampler
    assert sampler is not None and sampler.limit == 5
    story.receive(SampleTasks(0))
    assert story.core.tables.sampler is None
    story.receive(SampleTasks(5))
    story.step(Lost(SCHEDULER, 0, "gone", False))
    assert story.core.tables.sampler is None
