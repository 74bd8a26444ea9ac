"""Cuts and joins the columns of a batch: runs of neighbouring tasks, and the results that travel with a Dispatch."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise

from scaler_protocol.columns import join_u16, split_ids, split_u16
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import TaskBatch

Indexes = range | list[int]


def starts_of(sizes: Sequence[int]) -> Sequence[int]:
    """Where each of these begins and, last, where they all end. Packed: they stay as long as a task of a graph waits,
    and a list of as many numbers takes five times the memory."""
    return array("Q", accumulate(sizes, initial=0))


def task_ids(column: bytes) -> tuple[TaskId, ...]:
    return split_ids(column)  # type: ignore[return-value]


def without_repeats(batch: TaskBatch) -> TaskBatch:
    """A task may name another several times; from here on each stands once."""
    every = task_ids(batch.dependencies)
    if len(set(every)) == len(every):
        return batch
    own = [dict.fromkeys(every[start:stop]) for start, stop in pairwise(starts_of(split_u16(batch.dependency_counts)))]
    if sum(map(len, own)) == len(every):
        return batch  # only different tasks name the same
    return replace(
        batch,
        dependency_counts=join_u16([len(ids) for ids in own]),
        dependencies=b"".join(chain.from_iterable(own)),
    )


class Inputs:
    """The results of dependencies that travel with a Dispatch: ids, kinds and values, each task's result once."""

    __slots__ = ("ids", "kinds", "values")

    def __init__(self) -> None:
        self.ids: list[TaskId] = []
        self.kinds: list[int] = []
        self.values: list[bytes] = []

    @property
    def payload_bytes(self) -> int:
        return sum(map(len, self.values))

    @property
    def envelope_bytes(self) -> int:
        """An id, a kind, a size for each."""
        return (ID_BYTES + 1 + 4) * len(self.ids)


def contiguous(indexes: Sequence[int]) -> list[range]:
    """At least one index, as the fewest ranges that name the same in the same order."""
    if isinstance(indexes, range):
        return [indexes]
    runs: list[range] = []
    start = stop = indexes[0]
    for index in indexes:
        if index != stop:
            runs.append(range(start, stop))
            start = index
        stop = index + 1
    runs.append(range(start, stop))
    return runs


def gather(column: bytes, runs: Sequence[range], width: int) -> bytes:
    if not column:
        return b""
    if len(runs) == 1:
        return column[width * runs[0].start : width * runs[0].stop]
    return b"".join([column[width * run.start : width * run.stop] for run in runs])
