"""Columns to rows and back (chapter 08). Reading is strict; writing fills every column that is not all default, and
cases overwrite columns of the body where they want them wrong."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from .codes import CODES
from .envelope import Message, Unreadable

Part = tuple[int, bytes]

_OF_DISPATCH = ("attempts", "inputIds", "awaitedCounts")
_OF_SUBMIT = ("dependencyCounts", "dependencies", "keySizes")


@dataclass(frozen=True, slots=True)
class Task:
    id: bytes
    function: bytes
    parts: tuple[Part, ...] = ()
    dependencies: tuple[bytes, ...] = ()
    flags: int = 0
    attempt: int = 1
    key: bytes = b""
    header: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[bytes, Part] = field(default_factory=dict)
    awaited: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    id: bytes
    attempt: int = 1
    status: int = 0
    kind: int = 0
    value: bytes = b""
    profile: tuple[int, int, int] | None = None


class Cutter:
    """Takes columns apart; a column that is too short or too long is the sender's fault."""

    def __init__(self, body: Mapping[str, Any], what: str) -> None:
        self._body = body
        self._what = what

    def numbers(self, name: str, letter: str, count: int, default: int | None) -> list[int]:
        column = self._body[name]
        if not column and default is not None:
            return [default] * count
        size = struct.calcsize(f"<{letter}")
        if len(column) != size * count:
            raise self.wrong(f"{name} has {len(column)} bytes and must have {size * count}")
        return list(struct.unpack(f"<{count}{letter}", column))

    def ids(self, name: str, count: int | None = None) -> list[bytes]:
        column = self._body[name]
        if len(column) % 16 or (count is not None and len(column) != 16 * count):
            raise self.wrong(f"{name} has {len(column)} bytes")
        return [column[at : at + 16] for at in range(0, len(column), 16)]

    def pieces(self, name: str, sizes: Sequence[int]) -> list[bytes]:
        column = self._body[name]
        if len(column) != sum(sizes):
            raise self.wrong(f"{name} has {len(column)} bytes and must have {sum(sizes)}")
        ends = accumulate(sizes)
        return [column[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def wrong(self, text: str) -> Unreadable:
        return Unreadable("BAT-2", f"{self._what}: {text}")


def read_tasks(message: Message) -> list[Task]:
    cut = Cutter(message.body, message.kind)
    ids, functions = cut.ids("ids"), cut.ids("functions")
    count = len(ids)
    if not ids or not functions or len(set(ids)) != count:
        raise cut.wrong(f"{count} ids, of which {len(set(ids))} differ, and {len(functions)} functions")
    indexes = cut.numbers("functionIndexes", "H", count, 0)
    part_counts = cut.numbers("partCounts", "H", count, 1)
    total = sum(part_counts)
    part_kinds = cut.numbers("partKinds", "B", total, 0)
    part_sizes = cut.numbers("partSizes", "I", total, None)
    dependency_counts = cut.numbers("dependencyCounts", "H", count, 0)
    dependencies = iter(cut.ids("dependencies", sum(dependency_counts)))
    awaited_counts = cut.numbers("awaitedCounts", "H", count, 0)
    awaited = iter(cut.ids("awaited", sum(awaited_counts)))
    flags = cut.numbers("taskFlags", "B", count, 0)
    attempts = cut.numbers("attempts", "H", count, 1)
    keys = cut.pieces("keys", cut.numbers("keySizes", "B", count, 0))
    input_ids = cut.ids("inputIds")
    input_kinds = cut.numbers("inputKinds", "B", len(input_ids), 0)
    input_sizes = cut.numbers("inputSizes", "I", len(input_ids), None)
    if max(indexes) >= len(functions) or 0 in attempts or {*part_kinds, *input_kinds} - {0, 1, 2}:
        raise cut.wrong("a function index, an attempt or a kind is out of its range")
    if sum(part_sizes) + sum(input_sizes) != len(message.payload[0]):
        raise cut.wrong(f"sizes add up to {sum(part_sizes) + sum(input_sizes)}, not {len(message.payload[0])}")
    _check_tasks(message, part_kinds, part_sizes, part_counts)
    parts = _pieces(message.payload[0], part_kinds, part_sizes)
    values = list(_pieces(message.payload[0][sum(part_sizes) :], input_kinds, input_sizes))
    inputs = dict(zip(input_ids, values, strict=True))
    tasks = [
        Task(
            id=ids[row],
            function=functions[indexes[row]],
            parts=tuple(next(parts) for _ in range(part_counts[row])),
            dependencies=tuple(next(dependencies) for _ in range(dependency_counts[row])),
            flags=flags[row],
            attempt=attempts[row],
            key=keys[row],
            header=message["header"],
            inputs=inputs,
            awaited=tuple(next(awaited) for _ in range(awaited_counts[row])),
        )
        for row in range(count)
    ]
    _check_references(message.kind, tasks, inputs)
    return tasks


def _check_tasks(message: Message, kinds: Sequence[int], sizes: Sequence[int], counts: Sequence[int]) -> None:
    """What a batch may say, beyond how long its columns are."""
    what, header = message.kind, message["header"]
    for name in _OF_DISPATCH if what == "submit" else _OF_SUBMIT:
        if message[name]:
            raise Unreadable("BAT-3", f"{what}: {name} is a column of the other direction")
    if any(kind != CODES.KIND_INLINE and size != 16 for kind, size in zip(kinds, sizes, strict=True)):
        raise Unreadable("BAT-8", f"{what}: an OBJECT or TASK part has another size than 16")
    least = max(len(header["keywords"]), 1 if header["callFormat"] == CODES.CALL_PACKED else 0)
    if min(counts) < least:
        raise Unreadable("BAT-7", f"{what}: a task has {min(counts)} parts, and its call needs {least}")


def _check_references(what: str, tasks: Sequence[Task], inputs: Mapping[bytes, Part]) -> None:
    """TASK parts are among the dependencies of a Submit; but for what is awaited, exactly the inputs of a Dispatch."""
    named = {
        value for task in tasks for kind, value in task.parts if kind == CODES.KIND_TASK and value not in task.awaited
    }
    if what == "submit":
        for task in tasks:
            if any(kind == CODES.KIND_TASK and value not in task.dependencies for kind, value in task.parts):
                raise Unreadable("SCH-30", f"{what}: a TASK part is not among the dependencies of its task")
    elif named != inputs.keys():
        raise Unreadable("BAT-9", f"{what}: TASK parts name {len(named)} tasks, and there are {len(inputs)} inputs")


def _pieces(payload: bytes, kinds: Sequence[int], sizes: Sequence[int]) -> Iterator[Part]:
    at = 0
    for kind, size in zip(kinds, sizes, strict=True):
        yield kind, payload[at : at + size]
        at += size


def write_tasks(tasks: Sequence[Task], header: Mapping[str, Any] | None = None, **columns: Any) -> dict[str, Any]:
    """The body and, under `payload`, the payload frame of a batch. `columns` overrides what it would be."""
    functions = list(dict.fromkeys(task.function for task in tasks))
    parts = [part for task in tasks for part in task.parts]
    inputs = {name: value for task in tasks for name, value in task.inputs.items()}
    count = len(tasks)
    body: dict[str, Any] = {
        "header": dict(header or {}),
        "functions": b"".join(functions),
        "ids": b"".join(task.id for task in tasks),
        "functionIndexes": _pack("H", [functions.index(task.function) for task in tasks], 0),
        "partCounts": _pack("H", [len(task.parts) for task in tasks], 1),
        "partKinds": _pack("B", [kind for kind, _ in parts], 0),
        "partSizes": struct.pack(f"<{len(parts)}I", *(len(value) for _, value in parts)),
        "dependencyCounts": _pack("H", [len(task.dependencies) for task in tasks], 0),
        "dependencies": b"".join(name for task in tasks for name in task.dependencies),
        "awaitedCounts": _pack("H", [len(task.awaited) for task in tasks], 0),
        "awaited": b"".join(name for task in tasks for name in task.awaited),
        "taskFlags": _pack("B", [task.flags for task in tasks], 0),
        "attempts": _pack("H", [task.attempt for task in tasks], 1),
        "keySizes": _pack("B", [len(task.key) for task in tasks], 0),
        "keys": b"".join(task.key for task in tasks),
        "inputIds": b"".join(inputs),
        "inputKinds": _pack("B", [kind for kind, _ in inputs.values()], 0),
        "inputSizes": struct.pack(f"<{len(inputs)}I", *(len(value) for _, value in inputs.values())),
        "payload": b"".join(value for _, value in [*parts, *inputs.values()]),
    }
    assert count < 1 << 20
    return {**body, **columns}


def read_results(message: Message) -> list[Result]:
    cut = Cutter(message.body, "results")
    ids = cut.ids("ids")
    count = len(ids)
    attempts = cut.numbers("attempts", "H", count, 1)
    statuses = cut.numbers("statuses", "B", count, 0)
    kinds = cut.numbers("kinds", "B", count, 0)
    sizes = cut.numbers("sizes", "I", count, None)
    if not ids or len(set(ids)) != count or 0 in attempts or sum(sizes) != len(message.payload[0]):
        raise cut.wrong(f"{count} ids, sizes that add up to {sum(sizes)}, a payload of {len(message.payload[0])}")
    if max(statuses) > CODES.STATUS_REFUSED or max(kinds) > CODES.KIND_NONE:
        raise cut.wrong("a status or kind that version 1 does not know")
    if any(kind == CODES.KIND_OBJECT and size != 16 for kind, size in zip(kinds, sizes, strict=True)):
        raise Unreadable("BAT-8", "results: the id of an object has another size than 16")
    for kind, status, size in zip(kinds, statuses, sizes, strict=True):
        if kind == CODES.KIND_NONE and (status == CODES.STATUS_SUCCESS or size):
            raise Unreadable("BAT-11", "results: NONE stands with SUCCESS, or with bytes")
        if status != CODES.STATUS_SUCCESS and kind == CODES.KIND_OBJECT:
            raise Unreadable("BAT-10", "results: the value of what is no success is an object")
    profiles = cut.numbers("profiles", "Q", 3 * count, None) if message["profiles"] else []
    values = [value for _, value in _pieces(message.payload[0], kinds, sizes)]
    return [
        Result(
            id=ids[row],
            attempt=attempts[row],
            status=statuses[row],
            kind=kinds[row],
            value=values[row],
            profile=(profiles[3 * row], profiles[3 * row + 1], profiles[3 * row + 2]) if profiles else None,
        )
        for row in range(count)
    ]


def write_results(results: Sequence[Result], **columns: Any) -> dict[str, Any]:
    body = {
        "ids": b"".join(result.id for result in results),
        "attempts": _pack("H", [result.attempt for result in results], 1),
        "statuses": _pack("B", [result.status for result in results], 0),
        "kinds": _pack("B", [result.kind for result in results], 0),
        "sizes": struct.pack(f"<{len(results)}I", *(len(result.value) for result in results)),
        "profiles": b"".join(struct.pack("<3Q", *(result.profile or (0, 0, 0))) for result in results)
        if any(result.profile for result in results)
        else b"",
        "payload": b"".join(result.value for result in results),
    }
    return {**body, **columns}


@dataclass(frozen=True, slots=True)
class KeptResult:
    id: bytes
    kind: int = 0
    value: bytes = b""
    flags: int = 0


def read_kept(message: Message) -> list[KeptResult]:
    cut = Cutter(message.body, "keptResults")
    ids = cut.ids("ids")
    count = len(ids)
    kinds = cut.numbers("kinds", "B", count, 0)
    sizes = cut.numbers("sizes", "I", count, None)
    flags = cut.numbers("taskFlags", "B", count, 0)
    if not ids or len(set(ids)) != count or sum(sizes) != len(message.payload[0]):
        raise cut.wrong(f"{count} ids, sizes that add up to {sum(sizes)}, a payload of {len(message.payload[0])}")
    if max(kinds) > CODES.KIND_OBJECT:
        raise cut.wrong("a kind that is neither INLINE nor OBJECT")
    if any(kind == CODES.KIND_OBJECT and size != 16 for kind, size in zip(kinds, sizes, strict=True)):
        raise Unreadable("BAT-8", "keptResults: the id of an object has another size than 16")
    values = [value for _, value in _pieces(message.payload[0], kinds, sizes)]
    return [KeptResult(*row) for row in zip(ids, kinds, values, flags, strict=True)]


def write_kept(graph_id: bytes, results: Sequence[KeptResult], **columns: Any) -> dict[str, Any]:
    body = {
        "graphId": graph_id,
        "ids": b"".join(result.id for result in results),
        "kinds": _pack("B", [result.kind for result in results], 0),
        "sizes": struct.pack(f"<{len(results)}I", *(len(result.value) for result in results)),
        "taskFlags": _pack("B", [result.flags for result in results], 0),
        "payload": b"".join(result.value for result in results),
    }
    return {**body, **columns}


def _pack(letter: str, values: Sequence[int], default: int) -> bytes:
    if all(value == default for value in values):
        return b""
    return struct.pack(f"<{len(values)}{letter}", *values)
