"""Results as rows and as columns: taken apart where tasks need a look each, joined again before they leave (SCH-13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from scaler_protocol.codec import CodecError, decode_task_error, encode_task_error
from scaler_protocol.codes import (
    DEPENDENCY_FAILED,
    KIND_INLINE,
    KIND_NONE,
    KIND_OBJECT,
    STATUS_CANCELED,
    STATUS_FAILED,
    STATUS_REFUSED,
    STATUS_WORKER_LOST,
    WORKER_LOST,
)
from scaler_protocol.columns import PROFILE_BYTES, join_u16, join_u32, offsets, split_ids, split_u16, split_u32
from scaler_protocol.ids import ID_BYTES, STORED, ObjectId, TaskId
from scaler_protocol.messages import Buffer, Results, TaskError

#: One message to a client is not made larger than this by joining; a single worker's message may be.
MERGE_BYTES = 4 * 1024 * 1024


class Row(NamedTuple):
    task_id: TaskId
    attempt: int
    status: int
    kind: int
    value: Buffer
    profile: bytes


def stored_by(row: Row) -> ObjectId | None:
    """Returns the object that the row names: that of its value, or of an exception that was too large to ride along."""
    if row.kind == KIND_OBJECT:
        return ObjectId(bytes(row.value))
    value = bytes(row.value) if row.status == STATUS_FAILED else b""
    at = value.find(STORED)
    return None if at < 0 else ObjectId(value[at + len(STORED) :][:ID_BYTES])


def canceled_row(task_id: TaskId, attempt: int) -> Row:
    return Row(task_id, attempt, STATUS_CANCELED, KIND_NONE, b"", b"")


def lost_row(task_id: TaskId, attempt: int, lost: Sequence[str]) -> Row:
    """Returns the end of a task that is not tried again. `lost`: the workers that lost it, each with a reason."""
    message = f"{len(lost)} workers were lost while they held this task, so it is not tried again: {'; '.join(lost)}"
    error = TaskError(code=WORKER_LOST, type_name="WorkerDiedError", message=message, text=message, workers=tuple(lost))
    return Row(task_id, attempt, STATUS_WORKER_LOST, KIND_INLINE, encode_task_error(error), b"")


def refused_row(task_id: TaskId, attempt: int, error: TaskError) -> Row:
    return Row(task_id, attempt, STATUS_REFUSED, KIND_INLINE, encode_task_error(error), b"")


def row_of_dependent(row: Row) -> Row:
    """How a task ends that waited for the one that ended like this: the error keeps the story of its cause (SCH-19)."""
    if row.status == STATUS_CANCELED:
        return row._replace(profile=b"")
    error = replace(_error_of(row), code=DEPENDENCY_FAILED)
    return row._replace(status=STATUS_REFUSED, kind=KIND_INLINE, value=encode_task_error(error), profile=b"")


def _error_of(row: Row) -> TaskError:
    """A worker may send what is no TaskError; then its dependents are told at least that much."""
    try:
        return decode_task_error(bytes(row.value))
    except CodecError as error:
        return TaskError(
            code=DEPENDENCY_FAILED, message=f"a task it depends on failed, without a readable error: {error}"
        )


def rows(message: Results, wanted: Iterable[int] | None = None) -> Iterator[Row]:
    """All rows, or those with these numbers."""
    ids = split_ids(message.ids)
    attempts: Sequence[int] = split_u16(message.attempts) if message.attempts else (1,) * len(ids)
    statuses, kinds = message.statuses or bytes(len(ids)), message.kinds or bytes(len(ids))
    starts = offsets(split_u32(message.sizes))
    view, profiles = memoryview(message.payload), message.profiles
    for index in range(len(ids)) if wanted is None else wanted:
        profile = profiles[PROFILE_BYTES * index : PROFILE_BYTES * (index + 1)]
        value = view[starts[index] : starts[index + 1]]
        yield Row(TaskId(ids[index]), attempts[index], statuses[index], kinds[index], value, profile)


def parts(message: Results, most: int) -> Iterator[Results]:
    """The same rows, so many in a message."""
    count = len(message.ids) // ID_BYTES
    if count <= most:
        yield message
        return
    starts, view = offsets(split_u32(message.sizes)), memoryview(message.payload)
    for start in range(0, count, most):
        stop = min(start + most, count)
        yield Results(
            ids=message.ids[ID_BYTES * start : ID_BYTES * stop],
            attempts=message.attempts[2 * start : 2 * stop],
            statuses=message.statuses[start:stop],
            kinds=message.kinds[start:stop],
            sizes=message.sizes[4 * start : 4 * stop],
            profiles=message.profiles[PROFILE_BYTES * start : PROFILE_BYTES * stop],
            payload=view[starts[start] : starts[stop]],
        )


def pack(items: Sequence[Row]) -> Results:
    statuses, kinds = bytes(row.status for row in items), bytes(row.kind for row in items)
    has_profiles = any(row.profile for row in items)
    return Results(
        ids=b"".join([row.task_id for row in items]),
        attempts=join_u16([row.attempt for row in items]) if any(row.attempt != 1 for row in items) else b"",
        statuses=statuses if any(statuses) else b"",
        kinds=kinds if any(kinds) else b"",
        sizes=join_u32([len(row.value) for row in items]),
        profiles=b"".join([row.profile or bytes(PROFILE_BYTES) for row in items]) if has_profiles else b"",
        payload=b"".join([row.value for row in items]),
    )


def picked(message: Results, wanted: Iterable[int]) -> Results:
    """These rows of the message."""
    return pack(tuple(rows(message, wanted)))


def merge(messages: Sequence[Results], rows_limit: int, payload_limit: int) -> list[Results]:
    """The same rows in the same order in few messages. None has more rows or bytes than these, but for a row that is
    larger by itself; and none is made larger than `MERGE_BYTES` by joining."""
    groups: list[list[Results]] = []
    rows_left = bytes_left = 0
    for message in messages:
        for piece in _pieces(message, rows_limit, payload_limit):
            rows_left -= len(piece.ids) // ID_BYTES
            bytes_left -= len(piece.payload)
            if not groups or rows_left < 0 or bytes_left < 0:
                groups.append([])
                rows_left = rows_limit - len(piece.ids) // ID_BYTES
                bytes_left = min(MERGE_BYTES, payload_limit) - len(piece.payload)
            groups[-1].append(piece)
    return [group[0] if len(group) == 1 else _join(group) for group in groups]


def _pieces(message: Results, rows_limit: int, payload_limit: int) -> Sequence[Results]:
    if len(message.ids) <= ID_BYTES * rows_limit and len(message.payload) <= payload_limit:
        return (message,)
    groups: list[list[Row]] = []
    bytes_left = 0
    for row in rows(message):
        bytes_left -= len(row.value)
        if not groups or len(groups[-1]) == rows_limit or bytes_left < 0:
            groups.append([])
            bytes_left = payload_limit - len(row.value)
        groups[-1].append(row)
    return [pack(group) for group in groups]


def _join(group: Sequence[Results]) -> Results:
    return Results(
        ids=b"".join([item.ids for item in group]),
        attempts=_column(group, lambda item: item.attempts, b"\1\0"),
        statuses=_column(group, lambda item: item.statuses, b"\0"),
        kinds=_column(group, lambda item: item.kinds, b"\0"),
        sizes=b"".join([item.sizes for item in group]),
        profiles=_column(group, lambda item: item.profiles, bytes(PROFILE_BYTES)),
        payload=b"".join([item.payload for item in group]),
    )


def _column(group: Sequence[Results], column: Callable[[Results], bytes], default: bytes) -> bytes:
    columns = [column(item) for item in group]
    if not any(columns):
        return b""
    return b"".join([data or default * (len(item.sizes) // 4) for data, item in zip(columns, group, strict=True)])
