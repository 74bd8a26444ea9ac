"""A sample of the tasks that processors have finished, for monitors (MON-11).

Every k-th task is kept. When they become too many, every second one is dropped and k doubles: so what is kept is spread
evenly over the whole interval, whatever the tasks were and however many.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from scaler_protocol.codes import STATUS_CANCELED
from scaler_protocol.holding.tasks import Task
from scaler_worker.core.events import INTERRUPTED, TaskEnd
from scaler_worker.core.processors import Processor

_ROW = struct.Struct("<16s16sQQII")


class _Sample(NamedTuple):
    task: Task
    begun_at: float
    seconds: float
    process_id: int
    status: int


class Sampler:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.ended_count = 0
        self._stride = 1
        self._samples: list[_Sample] = []

    def note(self, processor: Processor, ends: Sequence[TaskEnd], now: float) -> None:
        """Before they leave the slice. They ran one after another, and the last has just ended."""
        count = min(len(ends), len(processor.slice))
        behind_seconds = 0.0
        chosen: list[_Sample] = []
        for index in range(count - 1, -1, -1):
            _, status, _, seconds, _, _ = ends[index]
            behind_seconds += seconds
            if self._is_due(index):
                task = processor.slice[index]
                chosen.append(_Sample(task, now - behind_seconds, seconds, processor.process_id, _status(task, status)))
        self.ended_count += count
        self._samples += reversed(chosen)
        self._thin_out()

    def _is_due(self, index: int) -> bool:
        """The index counts from the tasks that were noted before."""
        return (self.ended_count + index) % self._stride == 0

    def note_death(self, processor: Processor, task: Task, status: int, now: float) -> None:
        """It ended with its processor."""
        if self._is_due(0):
            seconds = max(0.0, now - processor.first_since)
            self._samples.append(_Sample(task, now - seconds, seconds, processor.process_id, status))
        self.ended_count += 1
        self._thin_out()

    def _thin_out(self) -> None:
        while len(self._samples) > self.limit:
            del self._samples[1::2]
            self._stride *= 2

    def take(self, now: float) -> tuple[int, bytes]:
        """How many have ended since the last time, and rows of some."""
        count, samples = self.ended_count, self._samples
        self.ended_count, self._samples = 0, []
        self._stride = max(1, self._stride // 2)
        return count, b"".join(_row(sample, now) for sample in samples)


def _row(sample: _Sample, now: float) -> bytes:
    task, begun_at, seconds, process_id, status = sample
    since = max(0, int((now - begun_at) * 1e6))
    return _ROW.pack(task.id, task.function, since, int(seconds * 1e6), process_id, status)


def _status(task: Task, status: int) -> int:
    if status != INTERRUPTED:
        return status
    return task.stop.status if task.stop is not None else STATUS_CANCELED
