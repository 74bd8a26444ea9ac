"""Samples of tasks as a watcher has them: rows of bytes taken apart, on the watcher's clock."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from scaler.monitoring.endings import status_name
from scaler_protocol.messages import TaskSamples

_ROW = struct.Struct("<16s16sQQII")


class TaskRun(NamedTuple):
    """One task that ended."""

    task_id: str
    function: str
    worker: str
    process_id: int
    begun_at: float  #: seconds of the epoch, by the watcher's clock
    seconds: float
    status: str
    #: begin and length, one after the other, of the times in which it waited for tasks of its own
    blocked: tuple[float, ...] = ()


def runs(message: TaskSamples, heard_at: float) -> Iterator[TaskRun]:
    """`heard_at`: seconds of the epoch."""
    names = {one.function_id: one.name for one in message.function_names}
    for block in message.blocks:
        made_at = heard_at - block.age_seconds
        whole = len(block.samples) - len(block.samples) % _ROW.size  # a newer scheduler may say more, never less
        for task_id, function, since, duration, process_id, status in _ROW.iter_unpack(block.samples[:whole]):
            yield TaskRun(
                task_id.hex(),
                names.get(function) or function.hex()[:8],
                block.name,
                process_id,
                made_at - since / 1e6,
                duration / 1e6,
                status_name(status),
            )


def ended_count(message: TaskSamples) -> int:
    return sum(block.ended_count for block in message.blocks)
