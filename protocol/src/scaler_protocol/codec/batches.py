"""What must hold of a batch before its columns may be trusted (BAT-2 and its neighbours).

All of it runs in C loops (`len`, `sum`, `max`, `set`, `translate`), under 100 ns a task. Only batches with parts of
kind TASK, which are rare, are walked task by task. Unknown kinds and statuses are refused: these sets are closed,
because a guess of how to cut bytes does harm. (EVO-4)
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import accumulate, compress, filterfalse, islice, pairwise
from typing import NoReturn

from scaler_protocol import codes
from scaler_protocol.codec.errors import CodecError
from scaler_protocol.columns import PROFILE_BYTES, TASK_KEY_BYTES, offsets, split_ids, split_u16, split_u32
from scaler_protocol.ids import ID_BYTES
from scaler_protocol.messages import Dispatch, Holding, KeptResults, Limits, Results, Submit, TaskBatch

FUNCTIONS_MAX = 65_535
PART_KINDS = bytes((codes.KIND_INLINE, codes.KIND_OBJECT, codes.KIND_TASK))
INPUT_KINDS = bytes((codes.KIND_INLINE, codes.KIND_OBJECT))
RESULT_KINDS = bytes((codes.KIND_INLINE, codes.KIND_OBJECT, codes.KIND_NONE))
STATUSES = bytes(range(codes.STATUS_SUCCESS, codes.STATUS_REFUSED + 1))
_ID_SIZES = frozenset((ID_BYTES,))
_IS_NONE = bytes(kind == codes.KIND_NONE for kind in range(256))
_IS_OBJECT = bytes(kind == codes.KIND_OBJECT for kind in range(256))


def check_submit(batch: Submit, limits: Limits) -> None:
    for name in ("attempts", "input_ids", "input_kinds", "input_sizes", "awaited_counts", "awaited"):
        if getattr(batch, name):
            refuse(f"{name} is a column of Dispatch, not of Submit", "BAT-5")
    count, sizes = _check_tasks(batch, limits)
    _check_payload(batch, sum(sizes))
    _check_named("dependencies", batch.dependencies, "dependencyCounts", batch.dependency_counts, count)
    if batch.key_sizes or batch.keys:
        _check_keys(batch, count)
    if codes.KIND_TASK in batch.part_kinds:
        named = _named(batch.dependencies, batch.dependency_counts, count)
        if (index := _wrong_task_part(batch, sizes, named)) is not None:
            refuse(f"task {index} of the batch has a TASK part that is not among its dependencies", "SCH-30")


def check_dispatch(batch: Dispatch, limits: Limits) -> None:
    if batch.dependency_counts or batch.dependencies:
        refuse("dependencies are columns of Submit, not of Dispatch", "BAT-5")
    if batch.key_sizes or batch.keys:
        refuse("keys are columns of Submit, not of Dispatch", "BAT-5")
    if not batch.header.client:
        refuse("header.client is empty; a Dispatch names the client whose tasks it carries", "SCH-3")
    count, sizes = _check_tasks(batch, limits)
    check_attempts(batch.attempts, count)
    inputs = check_unique("inputIds", batch.input_ids)
    check_kinds("inputKinds", batch.input_kinds, INPUT_KINDS, len(inputs))
    input_sizes = check_sizes("inputSizes", batch.input_sizes, batch.input_kinds, len(inputs))
    _check_payload(batch, sum(sizes) + sum(input_sizes))
    _check_named("awaited", batch.awaited, "awaitedCounts", batch.awaited_counts, count)
    if codes.KIND_TASK in batch.part_kinds and not inputs.issuperset(task_parts(batch, sizes)):
        named = _named(batch.awaited, batch.awaited_counts, count)
        if (index := _wrong_task_part(batch, sizes, named, inputs)) is not None:
            refuse(f"task {index} of the batch has a TASK part that is neither awaited nor among inputIds", "BAT-9")


def _check_tasks(batch: TaskBatch, limits: Limits) -> tuple[int, tuple[int, ...]]:
    """The columns that both directions have. The count of tasks, and the sizes of their parts."""
    count = check_ids(batch.ids, limits)
    function_count = len(batch.functions) // ID_BYTES
    expect_length("functions", batch.functions, ID_BYTES, function_count)
    if not 1 <= function_count <= FUNCTIONS_MAX:
        refuse(f"functions lists {function_count}; there must be 1 to {FUNCTIONS_MAX}", "BAT-1")
    if batch.function_indexes:
        expect_length("functionIndexes", batch.function_indexes, 2, count)
        highest = max(split_u16(batch.function_indexes))
        if highest >= function_count:
            refuse(f"function index {highest} is outside the table of {function_count} functions", "BAT-2")
    if batch.task_flags:
        expect_length("taskFlags", batch.task_flags, 1, count)
    part_count = _check_part_counts(batch, count)
    check_kinds("partKinds", batch.part_kinds, PART_KINDS, part_count)
    return count, check_sizes("partSizes", batch.part_sizes, batch.part_kinds, part_count)


def _check_part_counts(batch: TaskBatch, count: int) -> int:
    header = batch.header
    least = max(len(header.keywords), 1 if header.call_format == codes.CALL_PACKED else 0)
    fewest, part_count = 1, count
    if batch.part_counts:
        expect_length("partCounts", batch.part_counts, 2, count)
        counts = split_u16(batch.part_counts)
        fewest, part_count = min(counts), sum(counts)
    if fewest < least:
        refuse(f"a task has {fewest} parts; its call format and keywords need at least {least}", "BAT-7")
    return part_count


def _check_payload(batch: TaskBatch | Results | KeptResults, expected: int) -> None:
    if len(batch.payload) != expected:
        refuse(f"the sizes add up to {expected} bytes, but the payload has {len(batch.payload)}", "BAT-2")


def _check_keys(batch: Submit, count: int) -> None:
    expect_length("keySizes", batch.key_sizes, 1, count)
    if sum(batch.key_sizes) != len(batch.keys):
        refuse(f"keySizes add up to {sum(batch.key_sizes)} bytes, but the keys have {len(batch.keys)}", "BAT-2")
    if max(batch.key_sizes) > TASK_KEY_BYTES:
        refuse(f"a key of {max(batch.key_sizes)} bytes; there may be {TASK_KEY_BYTES}", "BAT-13")


def task_parts(batch: TaskBatch, sizes: tuple[int, ...]) -> list[bytes]:
    """The task ids that the TASK parts hold, in order."""
    starts = [*compress(accumulate(sizes, initial=0), batch.part_kinds.translate(_IS_NONE))]
    return [*map(bytes, map(batch.payload.__getitem__, map(slice, starts, map(ID_BYTES.__add__, starts))))]


def _check_named(name: str, ids: bytes, counts_name: str, counts: bytes, count: int) -> None:
    """A column of ids, of which each task has its own number."""
    if counts:
        expect_length(counts_name, counts, 2, count)
    expect_length(name, ids, ID_BYTES, sum(split_u16(counts)))


def _named(ids: bytes, counts: bytes, count: int) -> list[frozenset[bytes]]:
    """Such a column, task by task. In sets: a task may name as many as a batch has room for, and have as many parts."""
    every = split_ids(ids)
    return [frozenset(every[start:end]) for start, end in pairwise(offsets(split_u16(counts) or (0,) * count))]


def _wrong_task_part(
    batch: TaskBatch, sizes: tuple[int, ...], named: Sequence[frozenset[bytes]], shared: Container[bytes] = ()
) -> int | None:
    """The first task with a TASK part that is neither among what is named for it nor among what all share."""
    parts = iter(task_parts(batch, sizes))
    first = 0
    for index, part_count in enumerate(split_u16(batch.part_counts) or (1,) * len(named)):
        references = batch.part_kinds.count(codes.KIND_TASK, first, first + part_count)
        first += part_count
        if not named[index].issuperset(filterfalse(shared.__contains__, islice(parts, references))):
            return index
    return None


def check_results(batch: Results, limits: Limits) -> None:
    count = check_ids(batch.ids, limits)
    check_attempts(batch.attempts, count)
    check_kinds("statuses", batch.statuses, STATUSES, count)
    check_kinds("kinds", batch.kinds, RESULT_KINDS, count)
    sizes = check_sizes("sizes", batch.sizes, batch.kinds.translate(_IS_OBJECT), count)
    _check_payload(batch, sum(sizes))
    if batch.profiles:
        expect_length("profiles", batch.profiles, PROFILE_BYTES, count)
    if codes.KIND_NONE in batch.kinds:
        _check_absent_values(batch, sizes)


def _check_absent_values(batch: Results, sizes: tuple[int, ...]) -> None:
    is_none = batch.kinds.translate(_IS_NONE)
    if any(compress(sizes, is_none)):
        refuse("a result of kind NONE has bytes in the payload", "BAT-2")
    statuses = batch.statuses or bytes(len(sizes))
    if codes.STATUS_SUCCESS in bytes(compress(statuses, is_none)):
        refuse("a success has no value, not even an empty one", "BAT-11")


def check_kept(batch: KeptResults, limits: Limits) -> None:
    count = check_ids(batch.ids, limits)
    check_kinds("kinds", batch.kinds, INPUT_KINDS, count)
    _check_payload(batch, sum(check_sizes("sizes", batch.sizes, batch.kinds, count)))
    expect_length("taskFlags", batch.task_flags or bytes(count), 1, count)


def check_holding(message: Holding, limits: Limits) -> None:
    """May be empty. How many there can be is bounded by the size of the envelope. (FRM-4)"""
    count = len(check_unique("ids", message.ids))
    check_attempts(message.attempts, count)
    expect_length("states", message.states or bytes(count), 1, count)
    expect_length("clients", message.clients, ID_BYTES, count)
    if message.grants or message.grant_sizes:
        expect_length("grantSizes", message.grant_sizes, 1, len(set(split_ids(message.clients))))
        if sum(message.grant_sizes) != len(message.grants):
            refuse(f"grantSizes add up to {sum(message.grant_sizes)} and not to {len(message.grants)} bytes", "BAT-2")


# ---------------------------------------------------------------- columns


def check_ids(ids: bytes, limits: Limits) -> int:
    count = len(ids) // ID_BYTES
    if count > limits.batch_tasks:
        text = f"the batch has {count} tasks, more than the limit of {limits.batch_tasks}"
        raise CodecError(codes.TOO_LARGE, text, "BAT-4")
    if not check_unique("ids", ids):
        refuse("a batch without tasks", "BAT-1")
    return count


def check_unique(name: str, column: bytes) -> set[bytes]:
    count = len(column) // ID_BYTES
    expect_length(name, column, ID_BYTES, count)
    unique = set(split_ids(column))
    if len(unique) != count:
        refuse(f"{name} holds an id twice", "BAT-2")
    return unique


def check_attempts(attempts: bytes, count: int) -> None:
    if attempts:
        expect_length("attempts", attempts, 2, count)
        if 0 in split_u16(attempts):
            refuse("an attempt is 0; they are counted from 1", "BAT-2")


def check_kinds(name: str, kinds: bytes, known: bytes, count: int) -> None:
    if kinds:
        expect_length(name, kinds, 1, count)
        unknown = kinds.translate(None, known)
        if unknown:
            refuse(f"{name} holds {unknown[0]}, which version 1 does not know", "BAT-2")


def check_sizes(name: str, column: bytes, is_id: bytes, count: int) -> tuple[int, ...]:
    """The sizes; sixteen where `is_id` is not zero."""
    expect_length(name, column, 4, count)
    sizes = split_u32(column)
    if is_id and not _ID_SIZES.issuperset(compress(sizes, is_id)):
        refuse(f"{name} gives an id a size other than {ID_BYTES}", "BAT-8")
    return sizes


def expect_length(name: str, column: bytes, item_bytes: int, count: int) -> None:
    expected = item_bytes * count
    if len(column) != expected:
        refuse(f"column {name} has {len(column)} bytes; {count} items of {item_bytes} are {expected}", "BAT-2")


def refuse(text: str, clause: str) -> NoReturn:
    raise CodecError(codes.BAD_BATCH, f"{text}; nothing of the batch was accepted", clause)
