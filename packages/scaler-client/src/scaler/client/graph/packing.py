"""From a plan to the batches that are sent: columns from the start, for a graph may have millions of tasks. (BAT-2)

Every argument is a part of its own (SEPARATE), so that the result of another task is just its id, and a value that
many tasks use is serialized once. Everything here runs in the caller's thread: what cannot be serialized fails at the
line that wrote it, and nothing has been sent by then.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from scaler.client.calls import CallOptions, Calls
from scaler.client.core.outbox import BATCH_BYTES, BATCH_TASKS
from scaler.client.core.records import GraphBatch
from scaler.client.graph.plan import FIRST_DATA_LINK, LITERAL_LINK, Plan
from scaler.client.object_reference import ObjectReference
from scaler.client.parts import Part
from scaler_protocol import codes, columns, values
from scaler_protocol.expressions import Expression, Keyworded
from scaler_protocol.ids import GraphId, ObjectId, TaskId, new_object_id
from scaler_protocol.messages import Limits, Submit, TaskHeader

_SHARED_BYTES = 4 * 1024
"""Data that several tasks use, from this size on, is stored once instead of travelling with each of them."""
_INLINE_BYTES = 1024 * 1024
"""All inline arguments of one task together; what goes beyond is stored, so that a batch stays below its limit."""
_MOST_ARGUMENTS = 65_535
_TASK = bytes((codes.KIND_TASK,))


class Packed:
    """A graph as it leaves: its batches, and the objects that its tasks share."""

    def __init__(self, calls: Calls, plan: Plan, options: CallOptions) -> None:
        self.graph_id = GraphId(new_object_id())
        self.header = replace(calls.header(options), graph_id=self.graph_id, call_format=codes.CALL_SEPARATE)
        self.ids: list[TaskId] = calls.connection.new_task_ids(len(plan.functions))
        self._arguments = _Arguments(calls, plan)
        self._functions = _Functions(calls)
        self._plan = plan
        welcome = calls.connection.welcome
        self._limits = Limits() if welcome is None else welcome.limits
        wanted = sorted({link for link in plan.wanted.values() if link >= 0})
        try:
            self.batches = tuple(self._batches(wanted))
        except BaseException:
            calls.connection.release_later(tuple(self._arguments.objects))
            raise

    @property
    def objects(self) -> tuple[ObjectId, ...]:
        return tuple(self._arguments.objects)

    def _batches(self, wanted: Sequence[int]) -> Iterator[GraphBatch]:
        """Cut where a limit of the session is reached."""
        plan, ids = self._plan, self.ids
        ends = list(accumulate(plan.counts))
        batch = _Batch(self.header, ids)
        most_columns = self._limits.envelope_bytes // 2
        most_tasks = min(BATCH_TASKS, self._limits.batch_tasks)
        most_bytes = min(BATCH_BYTES, self._limits.payload_frame_bytes) - _INLINE_BYTES
        waiting = iter(wanted)
        next_wanted = next(waiting, -1)
        for number, function in enumerate(plan.functions):
            links = plan.links[ends[number] - plan.counts[number] : ends[number]]
            batch.add(number, self._functions.id_of(function), links, self._arguments)
            if number == next_wanted:
                batch.wanted.append((len(batch.functions) - 1, ids[number]))
                next_wanted = next(waiting, -1)
            is_full = len(batch.functions) >= most_tasks or batch.column_bytes >= most_columns
            if number + 1 < len(ids) and (is_full or batch.payload_bytes >= most_bytes):
                yield batch.packed(is_last=False)
                batch = _Batch(self.header, ids, number + 1)
        yield batch.packed(is_last=True)


class _Batch:
    """The columns of some tasks, while they grow."""

    def __init__(self, header: TaskHeader, ids: list[TaskId], first: int = 0) -> None:
        self._header = header
        self._ids = ids
        self._first = first
        self._table: dict[ObjectId, int] = {}
        #: of each task, its function's place in the table
        self.functions: list[int] = []
        self.wanted: list[tuple[int, TaskId]] = []
        self._pieces: list[Any] = []
        self._kinds: list[bytes] = []
        self._sizes: list[int] = []
        self._counts: list[int] = []
        self._dependencies: list[TaskId] = []
        self._dependency_counts: list[int] = []
        self.payload_bytes = 0
        self.column_bytes = 0

    def add(self, number: int, function: ObjectId, links: Sequence[int], arguments: _Arguments) -> None:
        ids, count = self._ids, len(links)
        if count > _MOST_ARGUMENTS:
            raise ValueError(
                f"a task of the graph takes {count} arguments and {_MOST_ARGUMENTS} is the most: merge in several steps"
            )
        self.functions.append(self._table.setdefault(function, len(self._table)))
        if count and min(links) >= 0:  # nothing but other tasks, as in most of a large graph
            self._pieces += [ids[link] for link in links]
            self._kinds.append(_TASK * count)
            self._sizes += [16] * count
            self.payload_bytes += 16 * count
        else:
            self._add_parts(arguments.parts(links, ids))
        self._counts.append(count)
        needed = [link for link in links if link >= 0] if count < 2 else dict.fromkeys(one for one in links if one >= 0)
        self._dependencies += [ids[link] for link in needed]
        self._dependency_counts.append(len(needed))
        self.column_bytes += 26 + 5 * count + 16 * len(needed)

    def _add_parts(self, parts: list[Part]) -> None:
        for part in parts:
            self._pieces += part.pieces
            self._sizes.append(part.size)
            self.payload_bytes += part.size
        self._kinds.append(bytes([part.kind for part in parts]))

    def packed(self, is_last: bool) -> GraphBatch:
        count = len(self.functions)
        flags = bytearray((codes.TASK_UNWANTED,)) * count
        for index, _ in self.wanted:
            flags[index] = 0
        message = Submit(
            header=self._header,
            functions=columns.join_ids(self._table),
            ids=columns.join_ids(self._ids[self._first : self._first + count]),
            payload=b"".join(self._pieces),
            part_sizes=columns.join_u32(self._sizes),
            function_indexes=columns.join_u16(self.functions) if len(self._table) > 1 else b"",
            part_counts=columns.join_u16(self._counts),
            part_kinds=b"".join(self._kinds),
            dependency_counts=columns.join_u16(self._dependency_counts) if self._dependencies else b"",
            dependencies=columns.join_ids(self._dependencies),
            task_flags=bytes(flags) if any(flags) else b"",
            is_graph_sealed=is_last,
        )
        return GraphBatch(message, tuple(self.wanted))


class _Functions:
    """The functions of one graph: each is looked at once, and forms that are equal are one."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        #: by identity; the plan keeps them alive
        self._known: dict[int, ObjectId] = {}
        self._forms: dict[Any, ObjectId] = {}

    def id_of(self, function: Callable[..., Any]) -> ObjectId:
        known = self._known.get(id(function))
        if known is None:
            known = self._known[id(function)] = self._made(function)
        return known

    def _made(self, function: Callable[..., Any]) -> ObjectId:
        if type(function) is not Expression and type(function) is not Keyworded:
            return self._calls.function_id(function)
        form: Any = function.form if type(function) is Expression else function
        try:
            known = self._forms.get(form)
        except TypeError:  # some function in it is not hashable
            return self._calls.function_id(function)
        if known is None:
            known = self._forms[form] = self._calls.function_id(function)
        return known


class _Arguments:
    """Arguments as parts. Literals are taken in the order of the plan."""

    def __init__(self, calls: Calls, plan: Plan) -> None:
        self._calls = calls
        self._plan = plan
        self._literals = iter(plan.literals)
        #: of data nodes that several tasks use
        self._shared: dict[int, Part] = {}
        #: large arguments, released when the graph has ended
        self.objects: list[ObjectId] = []

    def parts(self, links: Sequence[int], ids: list[TaskId]) -> list[Part]:
        parts: list[Part] = []
        inline_bytes = 0
        for link in links:
            if link >= 0:
                part = Part.of_id(ids[link], codes.KIND_TASK)
            elif link == LITERAL_LINK:
                part = self._stored(self._part(next(self._literals)), inline_bytes)
            else:
                part = self._stored(self._shared.get(link) or self._data_part(FIRST_DATA_LINK - link), inline_bytes)
            if part.kind == codes.KIND_INLINE:
                inline_bytes += part.size
            parts.append(part)
        return parts

    def _data_part(self, index: int) -> Part:
        part = self._part(self._plan.data[index])
        if self._plan.uses[index] > 1:
            if part.size >= _SHARED_BYTES and part.kind == codes.KIND_INLINE:
                part = self._put(part)
            self._shared[FIRST_DATA_LINK - index] = part
        return part

    def _part(self, value: Any) -> Part:
        if type(value) is ObjectReference:
            return self._calls.object_part(value)
        if isinstance(value, concurrent.futures.Future):
            value = value.result()
        if values.is_plain(value) and self._calls.serializer is None:
            pieces = values.dumps(value)
            return Part(pieces, values.size_of(pieces))
        try:
            return self._calls.value_part(value)
        except Exception as error:
            told = f"an argument of type {type(value).__name__}"
            raise TypeError(f"{told} in the graph cannot be serialized: {error}") from error

    def _stored(self, part: Part, inline_bytes: int) -> Part:
        limit = self._calls.connection.inline_bytes
        if part.kind != codes.KIND_INLINE or (part.size <= limit and inline_bytes + part.size <= _INLINE_BYTES):
            return part
        return self._put(part)

    def _put(self, part: Part) -> Part:
        self.objects.append(self._calls.connection.storage.put(part.pieces))
        return Part.of_id(self.objects[-1], codes.KIND_OBJECT)
