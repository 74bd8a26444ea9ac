"""Submissions and batches of graphs cut to what one message may carry, without the tasks that have ended."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

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
        + len(message.dependencies) + len(message.task_flags)
    )  # fmt: skip
    return (
        len(message.ids) <= bounds.tasks * ID_BYTES
        and len(message.payload) <= bounds.payload_bytes
        and column_bytes <= bounds.column_bytes
    )


def cut_batch(batch: GraphBatch, bounds: Bounds) -> list[GraphBatch]:
    """The same tasks in batches that each fit; one that cannot fit is in a batch of its own."""
    message = batch.message
    count = len(message.ids) // ID_BYTES
    part_ends = [0, *accumulate(columns.split_u16(message.part_counts) if message.part_counts else [1] * count)]
    need_ends = [0, *accumulate(columns.split_u16(message.dependency_counts) or [0] * count)]
    byte_ends = [0, *accumulate(columns.split_u32(message.part_sizes))]
    weights = []
    for index in range(count):
        begin, end = part_ends[index], part_ends[index + 1]
        need_count = need_ends[index + 1] - need_ends[index]
        weights.append((byte_ends[end] - byte_ends[begin], TASK_BYTES + PART_BYTES * (end - begin) + 16 * need_count))
    pieces = []
    for begin, end in runs_of(weights, bounds):
        parts, needs = slice(part_ends[begin], part_ends[end]), slice(need_ends[begin], need_ends[end])
        piece = _piece(message, begin, end, parts, needs, slice(byte_ends[parts.start], byte_ends[parts.stop]))
        wanted = tuple([(index - begin, task_id) for index, task_id in batch.wanted if begin <= index < end])
        pieces.append(GraphBatch(piece, wanted))
    return pieces


def _piece(message: Submit, begin: int, end: int, parts: slice, needs: slice, payload: slice) -> Submit:
    functions, function_indexes = message.functions, b""
    if message.function_indexes:
        chosen = columns.split_u16(message.function_indexes[2 * begin : 2 * end])
        table = {index: place for place, index in enumerate(dict.fromkeys(chosen))}
        functions = b"".join([functions[ID_BYTES * index : ID_BYTES * (index + 1)] for index in table])
        function_indexes = columns.join_u16([table[index] for index in chosen]) if len(table) > 1 else b""
    return replace(
        message,
        functions=functions,
        function_indexes=function_indexes,
        ids=message.ids[ID_BYTES * begin : ID_BYTES * end],
        payload=memoryview(message.payload)[payload],
        part_counts=message.part_counts[2 * begin : 2 * end],
        part_kinds=message.part_kinds[parts],
        part_sizes=message.part_sizes[4 * parts.start : 4 * parts.stop],
        dependency_counts=message.dependency_counts[2 * begin : 2 * end],
        dependencies=message.dependencies[ID_BYTES * needs.start : ID_BYTES * needs.stop],
        task_flags=message.task_flags[begin:end],
        is_graph_sealed=message.is_graph_sealed and ID_BYTES * end == len(message.ids),
    )
