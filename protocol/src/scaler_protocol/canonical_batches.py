"""Columns as rows and rows as columns, for canonical JSON. Clear rather than fast: no hot path comes here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from scaler_protocol.columns import PROFILE, join_u16, join_u32, offsets, split_ids, split_u16, split_u32
from scaler_protocol.messages import (
    Buffer,
    Cancel,
    CancelReply,
    Dispatch,
    Holding,
    KeptResults,
    Recall,
    Release,
    Results,
    Returned,
    Submit,
    TaskBatch,
)

Json = dict[str, Any]
_PROFILE_NAMES = ("durationNanoseconds", "processorNanoseconds", "peakMemoryBytes")


@dataclass(frozen=True)
class Rows:
    """How one kind of record is expanded into rows, and how rows are taken out of a document and joined again."""

    expand: Callable[[Any], Json]
    join: Callable[[Json], Json]


def _cut(payload: Buffer, sizes: Sequence[int]) -> list[str]:
    return [bytes(payload[start:end]).hex() for start, end in pairwise(offsets(sizes))]


def _or_default(values: Sequence[int], default: int, count: int) -> Sequence[int]:
    return values or (default,) * count


def _joined(values: Sequence[int], default: int, join: Callable[[Sequence[int]], bytes]) -> bytes:
    """Empty where every item has the default. (BAT-1)"""
    return b"" if all(value == default for value in values) else join(values)


def _hex_ids(column: bytes) -> list[str]:
    return [item.hex() for item in split_ids(column)]


def _bytes_of(items: Sequence[str]) -> bytes:
    return bytes.fromhex("".join(items))


# ---------------------------------------------------------------- tasks


def _expand_tasks(batch: TaskBatch) -> Json:
    ids = _hex_ids(batch.ids)
    count = len(ids)
    part_counts = _or_default(split_u16(batch.part_counts), 1, count)
    sizes = (*split_u32(batch.part_sizes), *split_u32(batch.input_sizes))
    values = _cut(batch.payload, sizes)
    part_kinds = _or_default(batch.part_kinds, 0, sum(part_counts))
    parts = [{"kind": kind, "bytes": value} for kind, value in zip(part_kinds, values, strict=False)]
    input_ids = _hex_ids(batch.input_ids)
    input_values = values[len(parts) :]
    input_kinds = _or_default(batch.input_kinds, 0, len(input_ids))
    dependencies, awaited = _hex_ids(batch.dependencies), _hex_ids(batch.awaited)
    keys = _cut(batch.keys, batch.key_sizes or bytes(count))
    rows = zip(
        ids,
        _or_default(split_u16(batch.function_indexes), 0, count),
        pairwise(offsets(part_counts)),
        pairwise(offsets(_or_default(split_u16(batch.dependency_counts), 0, count))),
        pairwise(offsets(_or_default(split_u16(batch.awaited_counts), 0, count))),
        _or_default(batch.task_flags, 0, count),
        _or_default(split_u16(batch.attempts), 1, count),
        keys,
        strict=True,
    )
    return {
        "functions": _hex_ids(batch.functions),
        "tasks": [
            {
                "id": task_id,
                "functionIndex": function_index,
                "parts": parts[first_part:end_part],
                "dependencies": dependencies[slice(*needs)],
                **({"awaited": awaited[slice(*waits)]} if awaited else {}),
                "flags": flags,
                "attempt": attempt,
                **({"key": key} if key else {}),
            }
            for task_id, function_index, (first_part, end_part), needs, waits, flags, attempt, key in rows
        ],
        "inputs": [
            {"id": task_id, "kind": kind, "bytes": value}
            for task_id, kind, value in zip(input_ids, input_kinds, input_values, strict=True)
        ],
    }


def _join_tasks(document: Json) -> Json:
    functions, tasks, inputs = document.pop("functions"), document.pop("tasks"), document.pop("inputs", [])
    parts = [part for task in tasks for part in task["parts"]]
    return {
        "functions": _bytes_of(functions),
        "ids": _bytes_of([task["id"] for task in tasks]),
        "function_indexes": _joined([task["functionIndex"] for task in tasks], 0, join_u16),
        "part_counts": _joined([len(task["parts"]) for task in tasks], 1, join_u16),
        "part_kinds": _joined([part["kind"] for part in parts], 0, bytes),
        "part_sizes": join_u32([len(part["bytes"]) // 2 for part in parts]),
        "dependency_counts": _joined([len(task["dependencies"]) for task in tasks], 0, join_u16),
        "dependencies": _bytes_of([item for task in tasks for item in task["dependencies"]]),
        "awaited_counts": _joined([len(task.get("awaited", ())) for task in tasks], 0, join_u16),
        "awaited": _bytes_of([item for task in tasks for item in task.get("awaited", ())]),
        "task_flags": _joined([task["flags"] for task in tasks], 0, bytes),
        "attempts": _joined([task["attempt"] for task in tasks], 1, join_u16),
        "key_sizes": _joined([len(task.get("key", "")) // 2 for task in tasks], 0, bytes),
        "keys": _bytes_of([task.get("key", "") for task in tasks]),
        "input_ids": _bytes_of([item["id"] for item in inputs]),
        "input_kinds": _joined([item["kind"] for item in inputs], 0, bytes),
        "input_sizes": join_u32([len(item["bytes"]) // 2 for item in inputs]),
        "payload": _bytes_of([item["bytes"] for item in (*parts, *inputs)]),
    }


# ---------------------------------------------------------------- results


def _expand_results(batch: Results) -> Json:
    ids = _hex_ids(batch.ids)
    count = len(ids)
    profiles: list[Json | None] = [
        dict(zip(_PROFILE_NAMES, map(str, row), strict=True)) for row in PROFILE.iter_unpack(batch.profiles)
    ]
    rows = zip(
        ids,
        _or_default(split_u16(batch.attempts), 1, count),
        _or_default(batch.statuses, 0, count),
        _or_default(batch.kinds, 0, count),
        _cut(batch.payload, split_u32(batch.sizes)),
        profiles or [None] * count,
        strict=True,
    )
    names = ("id", "attempt", "status", "kind", "value", "profile")
    return {"results": [dict(zip(names, row, strict=True)) for row in rows]}


def _join_results(document: Json) -> Json:
    rows = document.pop("results")
    profiles = [row["profile"] for row in rows]
    return {
        "ids": _bytes_of([row["id"] for row in rows]),
        "attempts": _joined([row["attempt"] for row in rows], 1, join_u16),
        "statuses": _joined([row["status"] for row in rows], 0, bytes),
        "kinds": _joined([row["kind"] for row in rows], 0, bytes),
        "sizes": join_u32([len(row["value"]) // 2 for row in rows]),
        "payload": _bytes_of([row["value"] for row in rows]),
        "profiles": b"".join(
            PROFILE.pack(*(int(profile[name]) for name in _PROFILE_NAMES))
            for profile in profiles
            if profile is not None
        ),
    }


def _expand_kept(batch: KeptResults) -> Json:
    ids = _hex_ids(batch.ids)
    count = len(ids)
    rows = zip(
        ids,
        _or_default(batch.kinds, 0, count),
        _cut(batch.payload, split_u32(batch.sizes)),
        _or_default(batch.task_flags, 0, count),
        strict=True,
    )
    return {"results": [dict(zip(("id", "kind", "value", "flags"), row, strict=True)) for row in rows]}


def _join_kept(document: Json) -> Json:
    rows = document.pop("results")
    return {
        "ids": _bytes_of([row["id"] for row in rows]),
        "kinds": _joined([row["kind"] for row in rows], 0, bytes),
        "sizes": join_u32([len(row["value"]) // 2 for row in rows]),
        "task_flags": _joined([row["flags"] for row in rows], 0, bytes),
        "payload": _bytes_of([row["value"] for row in rows]),
    }


def _expand_holding(message: Holding) -> Json:
    ids = _hex_ids(message.ids)
    count = len(ids)
    rows = zip(
        ids,
        _or_default(split_u16(message.attempts), 1, count),
        _or_default(message.states, 0, count),
        _hex_ids(message.clients),
        strict=True,
    )
    return {"tasks": [dict(zip(("id", "attempt", "state", "client"), row, strict=True)) for row in rows]}


def _join_holding(document: Json) -> Json:
    rows = document.pop("tasks")
    return {
        "ids": _bytes_of([row["id"] for row in rows]),
        "attempts": _joined([row["attempt"] for row in rows], 1, join_u16),
        "states": _joined([row["state"] for row in rows], 0, bytes),
        "clients": _bytes_of([row["client"] for row in rows]),
    }


# ---------------------------------------------------------------- lists of ids


def _expand_ids(message: Cancel | Recall | Returned | Release) -> Json:
    return {"ids": _hex_ids(message.ids)}


def _join_ids(document: Json) -> Json:
    return {"ids": _bytes_of(document.pop("ids", []))}


def _expand_outcomes(reply: CancelReply) -> Json:
    ids = _hex_ids(reply.ids)
    outcomes = _or_default(reply.outcomes, 0, len(ids))
    return {"replies": [{"id": item, "outcome": outcome} for item, outcome in zip(ids, outcomes, strict=True)]}


def _join_outcomes(document: Json) -> Json:
    rows = document.pop("replies")
    return {
        "ids": _bytes_of([row["id"] for row in rows]),
        "outcomes": _joined([row["outcome"] for row in rows], 0, bytes),
    }


ROWS: dict[type, Rows] = {
    Submit: Rows(_expand_tasks, _join_tasks),
    Dispatch: Rows(_expand_tasks, _join_tasks),
    Results: Rows(_expand_results, _join_results),
    KeptResults: Rows(_expand_kept, _join_kept),
    Holding: Rows(_expand_holding, _join_holding),
    Cancel: Rows(_expand_ids, _join_ids),
    Recall: Rows(_expand_ids, _join_ids),
    Returned: Rows(_expand_ids, _join_ids),
    Release: Rows(_expand_ids, _join_ids),
    CancelReply: Rows(_expand_outcomes, _join_outcomes),
}

_NOT_COLUMNS = ("header", "payload", "is_graph_sealed")
_TASK_COLUMNS = tuple(field.name for field in fields(TaskBatch) if field.name not in _NOT_COLUMNS)
COLUMNS: dict[type, tuple[str, ...]] = {
    Submit: _TASK_COLUMNS,
    Dispatch: _TASK_COLUMNS,
    Results: ("ids", "attempts", "statuses", "kinds", "sizes", "profiles"),
    KeptResults: ("ids", "kinds", "sizes", "task_flags"),
    Holding: ("ids", "attempts", "states", "clients"),
    Cancel: ("ids",),
    Recall: ("ids",),
    Returned: ("ids",),
    Release: ("ids",),
    CancelReply: ("ids", "outcomes"),
}
"""What the rows stand for, and so does not appear by itself."""
