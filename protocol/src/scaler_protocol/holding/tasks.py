"""A task as this worker holds it, and how a Dispatch becomes tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat
from operator import attrgetter

from scaler_protocol.codes import KIND_INLINE, KIND_OBJECT, KIND_TASK
from scaler_protocol.columns import offsets, split_ids, split_u16, split_u32
from scaler_protocol.ids import ID_BYTES, ObjectId, TaskId
from scaler_protocol.messages import Dispatch, TaskHeader
from scaler_protocol.records import dataclass

Part = tuple[int, bytes]
"""Kind and bytes. A TASK part has become the kind, INLINE or OBJECT, and bytes of its input by then, unless it names a
task that is awaited (WRK-23)."""

Parts = bytes | tuple[Part, ...]
"""`bytes` when there is exactly one INLINE part: almost every task, and the only form the hot path knows."""


@dataclass(slots=True)
class StopOrder:
    """Why a task must end before it is done, and who waits to hear of it."""

    status: int
    grace_seconds: float
    reply_count: int = 0  #: how many Cancel messages named the task: each is answered once (CAN-1)
    memory_bytes: int = 0  #: what its processor had when it was stopped for that; zero: stopped for another reason


@dataclass(slots=True, eq=False)
class Task:
    """Held from its dispatch to its end: in the queue while `processor` is None, else in that processor's slice."""

    id: TaskId
    attempt: int
    header: TaskHeader
    function: ObjectId
    parts: Parts
    queued_at: float
    processor: int | None = None
    number: int = 0  #: its place in the sequence of everything this processor was ever handed, from 1
    estimate_seconds: float = 0.0
    stop: StopOrder | None = None
    #: tasks held here that must succeed before it may begin (WRK-23); None when there are none, or none any more
    awaits: set[TaskId] | None = None

    @property
    def part_bytes(self) -> int:
        return len(self.parts) if isinstance(self.parts, bytes) else sum(len(part) for _, part in self.parts)


def tasks_of(dispatch: Dispatch, now: float) -> list[Task]:
    """The tasks of a batch, in order. The codec has checked that the columns agree (BAT-2)."""
    header = dispatch.header
    if len(dispatch.ids) == ID_BYTES and len(dispatch.functions) == ID_BYTES and not any(_columns_of_some(dispatch)):
        return [Task(TaskId(dispatch.ids), 1, header, ObjectId(dispatch.functions), bytes(dispatch.payload), now)]
    ids = split_ids(dispatch.ids)
    attempts: Iterable[int] = split_u16(dispatch.attempts) if dispatch.attempts else repeat(1)
    rows = zip(ids, attempts, _functions(dispatch), _parts(dispatch), strict=False)
    tasks = [Task(TaskId(id_), attempt, header, function, parts, now) for id_, attempt, function, parts in rows]
    if dispatch.awaited_counts:
        awaited = split_ids(dispatch.awaited)
        for task, (start, end) in zip(tasks, pairwise(offsets(split_u16(dispatch.awaited_counts))), strict=True):
            if end > start:
                task.awaits = set(map(TaskId, awaited[start:end]))
    return tasks


#: without them a task is the first try of a call of one inline part, and awaits nothing
_columns_of_some = attrgetter("attempts", "part_counts", "part_kinds", "awaited_counts")


def _functions(dispatch: Dispatch) -> Iterable[ObjectId]:
    functions = [ObjectId(function) for function in split_ids(dispatch.functions)]
    if not dispatch.function_indexes:
        return repeat(functions[0])
    return [functions[index] for index in split_u16(dispatch.function_indexes)]


def _parts(dispatch: Dispatch) -> Iterable[Parts]:
    if not dispatch.part_counts and not dispatch.part_kinds:
        ends = offsets(split_u32(dispatch.part_sizes))
        payload = bytes(dispatch.payload)
        return [payload[start:end] for start, end in pairwise(ends)]
    return _mixed_parts(dispatch)


def _mixed_parts(dispatch: Dispatch) -> Iterator[Parts]:
    sizes = split_u32(dispatch.part_sizes)
    cuts = offsets(sizes + split_u32(dispatch.input_sizes))
    payload = bytes(dispatch.payload)
    values = [payload[start:end] for start, end in pairwise(cuts)]
    kinds = dispatch.part_kinds or bytes(len(sizes))
    inputs = _inputs(dispatch, values[len(sizes) :])
    counts: Iterable[int] = split_u16(dispatch.part_counts) if dispatch.part_counts else repeat(1, len(sizes))
    position = 0
    for count in counts:
        parts = tuple(
            inputs.get(values[index], (KIND_TASK, values[index]))
            if kinds[index] == KIND_TASK
            else (kinds[index], values[index])
            for index in range(position, position + count)
        )
        position += count
        yield parts[0][1] if count == 1 and parts[0][0] == KIND_INLINE else parts


def _inputs(dispatch: Dispatch, values: list[bytes]) -> dict[bytes, Part]:
    """The results of earlier tasks that TASK parts refer to, by task id."""
    ids = split_ids(dispatch.input_ids)
    kinds = dispatch.input_kinds or bytes(len(ids))
    return {
        task_id: (KIND_OBJECT if kind == KIND_OBJECT else KIND_INLINE, value)
        for task_id, kind, value in zip(ids, kinds, values, strict=True)
    }
