"""Submissions and batches of graphs cut to what one message may carry, without the tasks that have ended."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from typing import Any

from scaler.client.core.batching import ONE_PART_BYTES, PART_BYTES, TASK_BYTES, Bounds, runs_of
from scaler.client.core.records import GraphBatch, Submission
from scaler_protocol import columns
from scaler_protocol.ids import ID_BYTES, TaskId
from scaler_protocol.messages import Submit


def cut(submission: Submission, pending: Container[TaskId], bounds: Bounds) -> Iterator[Submission]:
    """The same tasks in submissions that each fit. Only tasks of one part each come in numbers."""
    assert not submission.part_counts and not submission.objects, "what comes in numbers has one part, and no object"
    keep = [index for index, task_id in enumerate(submission.ids) if task_id in pending]
    weights = [(submission.part_sizes[index], ONE_PART_BYTES) for index in keep]
    ends = list(accumulate(submission.part_sizes))
    for begin, end in runs_of(weights, bounds):
        yield _taken(submission, keep[begin:end], ends)


def narrowed(submission: Submission, pending: Container[TaskId]) -> Submission:
    """The same submission without the tasks that have ended."""
    assert not submission.part_counts and len(submission.part_sizes) == len(submission.ids)
    keep = [index for index, task_id in enumerate(submission.ids) if task_id in pending]
    return _taken(submission, keep, list(accumulate(submission.part_sizes)))


def _taken(submission: Submission, indexes: Sequence[int], ends: Sequence[int]) -> Submission:
    sizes = submission.part_sizes
    view = memoryview(submission.payload)
    first, last = indexes[0], indexes[-1]
    if last - first == len(indexes) - 1:  # neighbours: nothing is copied
        payload = view[ends[first] - sizes[first] : ends[last]]
    else:
        payload = memoryview(b"".join([view[ends[index] - sizes[index] : ends[index]] for index in indexes]))
    return submission._replace(
        ids=tuple([submission.ids[index] for index in indexes]),
        payload=payload,
        part_sizes=tuple([sizes[index] for index in indexes]),
        part_kinds=bytes([submission.part_kinds[index] for index in indexes]) if submission.part_kinds else b"",
    )


# ------------------------------------------------------------ graphs


def fits(message: Submit, bounds: Bounds) -> bool:
    """This batch of a graph needs no cutting."""
    column_bytes = (
        len(message.ids) + len(message.functions) + len(message.function_indexes) + len(message.part_counts)
        + len(message.part_kinds) + len(message.part_sizes) + len(message.dependency_counts)
        + len(message.dependencies) + len(message.task_flags) + len(message.key_sizes) + len(message.keys)
    )  # fmt: skip
    return (
        len(message.ids) <= bounds.tasks * ID_BYTES
        and len(message.payload) <= bounds.payload_bytes
        and column_bytes <= bounds.column_bytes
    )


class Layout:
    """Where the columns of each task of a batch begin, and, last, where they all end."""

    def __init__(self, message: Submit) -> None:
        count = len(message.ids) // ID_BYTES
        #: among all parts, among all dependencies, and where each part begins in the payload
        self.parts = [0, *accumulate(columns.split_u16(message.part_counts) if message.part_counts else [1] * count)]
        self.needs = [0, *accumulate(columns.split_u16(message.dependency_counts) or [0] * count)]
        self.bytes = [0, *accumulate(columns.split_u32(message.part_sizes))]
        self.keys = [0, *accumulate(message.key_sizes or bytes(count))]

    def weight(self, index: int) -> tuple[int, int]:
        """Of one task: the bytes of its payload and of its columns."""
        begin, end = self.parts[index], self.parts[index + 1]
        need_count = self.needs[index + 1] - self.needs[index]
        column_bytes = TASK_BYTES + PART_BYTES * (end - begin) + ID_BYTES * need_count
        return self.bytes[end] - self.bytes[begin], column_bytes + self.keys[index + 1] - self.keys[index]


def cut_batch(batch: GraphBatch, bounds: Bounds) -> list[GraphBatch]:
    """The same tasks in batches that each fit; one that cannot fit is in a batch of its own."""
    layout = Layout(batch.message)
    weights = [layout.weight(index) for index in range(len(layout.parts) - 1)]
    return [_picked(batch, [range(begin, end)], layout) for begin, end in runs_of(weights, bounds)]


def picked(batch: GraphBatch, indexes: Sequence[int]) -> GraphBatch:
    """Only these tasks of a batch, rising. It is sealed if the last of all is among them."""
    if len(indexes) == len(batch.message.ids) // ID_BYTES:
        return batch
    return _picked(batch, _runs(indexes), Layout(batch.message))


def _runs(indexes: Sequence[int]) -> list[range]:
    """As the fewest ranges."""
    breaks = [place for place in range(1, len(indexes)) if indexes[place] != indexes[place - 1] + 1]
    edges = pairwise([0, *breaks, len(indexes)])
    return [range(indexes[begin], indexes[end - 1] + 1) for begin, end in edges]


def _picked(batch: GraphBatch, runs: Sequence[range], layout: Layout) -> GraphBatch:
    message = batch.message
    part_runs = [range(layout.parts[run.start], layout.parts[run.stop]) for run in runs]
    need_runs = [range(layout.needs[run.start], layout.needs[run.stop]) for run in runs]
    byte_runs = [range(layout.bytes[run.start], layout.bytes[run.stop]) for run in part_runs]
    key_runs = [range(layout.keys[run.start], layout.keys[run.stop]) for run in runs]
    functions, function_indexes = message.functions, b""
    if message.function_indexes:
        chosen = columns.split_u16(bytes(_gathered(message.function_indexes, runs, 2)))
        table = {index: place for place, index in enumerate(dict.fromkeys(chosen))}
        functions = b"".join([functions[ID_BYTES * index : ID_BYTES * (index + 1)] for index in table])
        function_indexes = columns.join_u16([table[index] for index in chosen]) if len(table) > 1 else b""
    piece = replace(
        message,
        functions=functions,
        function_indexes=function_indexes,
        ids=_gathered(message.ids, runs, ID_BYTES),
        payload=_gathered(memoryview(message.payload), byte_runs, 1),
        part_counts=_gathered(message.part_counts, runs, 2),
        part_kinds=_gathered(message.part_kinds, part_runs, 1),
        part_sizes=_gathered(message.part_sizes, part_runs, 4),
        dependency_counts=_gathered(message.dependency_counts, runs, 2),
        dependencies=_gathered(message.dependencies, need_runs, ID_BYTES),
        task_flags=_gathered(message.task_flags, runs, 1),
        key_sizes=_gathered(message.key_sizes, runs, 1),
        keys=_gathered(message.keys, key_runs, 1),
        is_graph_sealed=message.is_graph_sealed and ID_BYTES * runs[-1].stop == len(message.ids),
    )
    return GraphBatch(piece, _wanted(batch, runs))


def _wanted(batch: GraphBatch, runs: Sequence[range]) -> tuple[tuple[int, TaskId], ...]:
    """Where they are in the piece."""
    if not batch.wanted:
        return ()
    place_of = {index: place for place, index in enumerate(chain.from_iterable(runs))}
    return tuple([(place_of[index], task_id) for index, task_id in batch.wanted if index in place_of])


def _gathered(column: Any, runs: Sequence[range], width: int) -> Any:
    """Bytes, or a view of one run of a view: nothing is copied then."""
    if len(runs) == 1:
        return column[width * runs[0].start : width * runs[0].stop]
    return b"".join([column[width * run.start : width * run.stop] for run in runs])
