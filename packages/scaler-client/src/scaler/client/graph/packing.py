"""From a plan to the batches that are sent: columns from the start, for a graph may have millions of tasks. (BAT-2)

Every argument is a part of its own (SEPARATE), so that the result of another task is just its id, and a value that
many tasks use is serialized once. Everything here runs in the caller's thread: what cannot be serialized fails at the
line that wrote it, and nothing has been sent by then.
"""

from __future__ import annotations

import concurrent.futures
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from scaler.client.core.batching import PART_BYTES, TASK_BYTES, bounds_of
from scaler.client.core.records import GraphBatch
from scaler.client.futures.interrupts import pass_on
from scaler.client.graph.plan import Plan
from scaler.client.object_reference import ObjectReference
from scaler.client.objects.functions import StoredFunction
from scaler.client.objects.puts import Puts
from scaler.client.submitting.calls import Calls
from scaler.client.submitting.options import CallOptions
from scaler.client.submitting.parts import Part
from scaler.client.submitting.signatures import check_calls
from scaler_protocol import codes, columns, values
from scaler_protocol.code_tag import CODE_TAG
from scaler_protocol.expressions import Expression, Keyworded
from scaler_protocol.ids import ID_BYTES, GraphId, ObjectId, TaskId, new_object_id
from scaler_protocol.messages import Limits, Submit

_SHARED_BYTES = 4 * 1024
"""Data that several tasks use, from this size on, is stored once instead of travelling with each of them."""
_MOST_ARGUMENTS = 65_535
_KEY_HEAD, _KEY_TAIL = 40, 21
"""Of a longer key, which is cut in the middle: the keys of one of Dask's collections differ at their ends."""


class Packed:
    """A graph as it leaves: its batches, and the objects that its tasks share."""

    def __init__(self, calls: Calls, plan: Plan, options: CallOptions) -> None:
        if max(plan.counts) > _MOST_ARGUMENTS:
            told = f"a node of the graph has {max(plan.counts)} arguments, and a task takes {_MOST_ARGUMENTS} at most"
            raise ValueError(f"{told}: merge them in several steps")
        check_calls(plan.functions, plan.counts)
        self.graph_id = GraphId(new_object_id())
        self.header = replace(
            calls.header(options, has_code=False, code_set=calls.code_set),
            graph_id=self.graph_id,
            call_format=codes.CALL_SEPARATE,
        )
        self._code_set = calls.code_set
        self.ids: list[TaskId] = calls.connection.new_task_ids(len(plan.functions))
        self._plan = plan
        self._starts = list(accumulate(plan.counts, initial=0))
        self._need_starts = list(accumulate(plan.need_counts, initial=0))
        self._keys = [_key_text(key) for key in plan.keys]
        self._key_starts = list(accumulate(map(len, self._keys), initial=0))
        self._wanted = sorted({link for link in plan.wanted.values() if link >= 0})
        self._functions = _Functions(calls)
        self._arguments = _Arguments(calls, plan)
        welcome = calls.connection.welcome
        self._bounds = bounds_of(Limits() if welcome is None else welcome.limits)
        try:
            batches = tuple(self._batches())
        except BaseException:
            self.puts.release()
            raise
        if self._functions.has_code or self._arguments.has_code:
            # Of all of it: a batch has one header, and nodes of one kind may depend on those of the other in turns.
            self.header = replace(self.header, code_tag=CODE_TAG)
            batches = tuple([GraphBatch(replace(one.message, header=self.header), one.wanted) for one in batches])
        self.batches = batches

    @property
    def kept(self) -> tuple[object, ...]:
        return (*self._functions.kept, *self._arguments.kept, self._code_set, self.puts)

    @property
    def inputs(self) -> frozenset[TaskId]:
        """Wanted nodes on which others depend."""
        if len(self._wanted) < 2:  # what one wanted node does not need is not in the plan
            return frozenset()
        return frozenset([self.ids[number] for number in set(self._wanted).intersection(self._plan.needs)])

    @property
    def objects(self) -> tuple[ObjectId, ...]:
        return tuple(self.puts.ids)

    @property
    def puts(self) -> Puts:
        return self._arguments.puts

    def _batches(self) -> Iterator[GraphBatch]:
        count = len(self.ids)
        begin = 0
        while begin < count:
            end, pieces, sizes, kinds = self._parts(begin, self._end(begin))
            yield self._batch(begin, end, pieces, sizes, kinds)
            begin = end

    def _end(self, begin: int) -> int:
        """As many tasks as the limits of an envelope allow; at least one."""
        end = min(begin + self._bounds.tasks, len(self.ids))
        while end - begin > 1 and self._column_bytes(begin, end) > self._bounds.column_bytes:
            end = begin + (end - begin) // 2
        if end - begin == 1 and self._column_bytes(begin, end) > self._bounds.column_bytes:
            told = f"a node of the graph has {self._plan.counts[begin]:,} arguments"
            raise ValueError(f"{told}, more than the scheduler's messages carry: merge them in several steps")
        return end

    def _column_bytes(self, begin: int, end: int) -> int:
        starts, needs, keys = self._starts, self._need_starts, self._key_starts
        return (
            TASK_BYTES * (end - begin)
            + PART_BYTES * (starts[end] - starts[begin])
            + ID_BYTES * (needs[end] - needs[begin])
            + keys[min(end, len(keys) - 1)]
            - keys[min(begin, len(keys) - 1)]
        )

    def _parts(self, begin: int, end: int) -> tuple[int, list[Any], list[int], bytearray]:
        """The arguments of these tasks, or of fewer when that is as much as one payload may have."""
        ids, starts, arguments = self.ids, self._starts, self._arguments
        most_bytes = self._bounds.payload_bytes
        pieces: list[Any] = []
        links = self._plan.links[starts[begin] : starts[end]]
        kinds = bytearray((codes.KIND_TASK,)) * len(links)
        sizes = [ID_BYTES] * len(links)
        payload_bytes = ID_BYTES * len(links)
        for position, link in enumerate(links):
            if link >= 0:
                pieces.append(ids[link])
                continue
            part = arguments.part(~link)
            pieces.append(values.join(part.pieces))
            kinds[position] = part.kind
            sizes[position] = part.size
            payload_bytes += part.size - ID_BYTES
            if payload_bytes > most_bytes:
                task = bisect_right(starts, starts[begin] + position) - 1
                if task > begin:
                    kept = starts[task] - starts[begin]
                    arguments.forget(keep=[~one for one in links[kept : position + 1] if one < 0])
                    return task, pieces[:kept], sizes[:kept], kinds[:kept]
                part = arguments.put(part)
                (pieces[-1],) = part.pieces
                kinds[position] = part.kind
                payload_bytes += ID_BYTES - sizes[position]
                sizes[position] = ID_BYTES
        arguments.forget()
        return end, pieces, sizes, kinds

    def _batch(self, begin: int, end: int, pieces: list[Any], sizes: list[int], kinds: bytearray) -> GraphBatch:
        plan, ids = self._plan, self.ids
        table: dict[ObjectId, int] = {}
        functions = [table.setdefault(one, len(table)) for one in map(self._functions.id_of, plan.functions[begin:end])]
        needs = plan.needs[self._need_starts[begin] : self._need_starts[end]]
        wanted = self._wanted[bisect_left(self._wanted, begin) : bisect_left(self._wanted, end)]
        keys = self._keys[begin:end]
        flags = bytearray((codes.TASK_UNWANTED,)) * (end - begin)
        for number in wanted:
            flags[number - begin] = 0
        message = Submit(
            header=self.header,
            functions=columns.join_ids(table),
            ids=columns.join_ids(ids[begin:end]),
            payload=b"".join(pieces),
            part_sizes=columns.join_u32(sizes),
            function_indexes=columns.join_u16(functions) if len(table) > 1 else b"",
            part_counts=columns.join_u16(plan.counts[begin:end]),
            part_kinds=bytes(kinds),
            dependency_counts=columns.join_u16(plan.need_counts[begin:end]) if needs else b"",
            dependencies=columns.join_ids([ids[number] for number in needs]),
            task_flags=bytes(flags) if any(flags) else b"",
            key_sizes=bytes(map(len, keys)).ljust(end - begin, b"\0") if any(keys) else b"",
            keys=b"".join(keys),
            is_graph_sealed=end == len(ids),
        )
        return GraphBatch(message, tuple([(number - begin, ids[number]) for number in wanted]))


def _key_text(key: Hashable) -> bytes:
    """What people see of it. Dask's keys may be tuples."""
    try:
        found = str(key).encode(errors="replace")
    except Exception as error:  # noqa: BLE001 whatever a class of the program raises
        pass_on(error)
        return b""
    if len(found) <= columns.TASK_KEY_BYTES:
        return found
    head, tail = found[:_KEY_HEAD].decode(errors="ignore"), found[-_KEY_TAIL:].decode(errors="ignore")
    return f"{head}…{tail}".encode()


class _Functions:
    """The functions of one graph: each is looked at once, and forms that are equal are one."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        #: by identity; the plan keeps them alive
        self._known: dict[int, StoredFunction] = {}
        self._forms: dict[Any, StoredFunction] = {}
        #: only our version of Python can read one of them (CLI-15)
        self.has_code = False

    @property
    def kept(self) -> Iterable[StoredFunction]:
        return self._known.values()

    def id_of(self, function: Callable[..., Any]) -> ObjectId:
        known = self._known.get(id(function))
        if known is None:
            known = self._known[id(function)] = self._made(function)
            self.has_code = self.has_code or known.has_code
        return known.object_id

    def _made(self, function: Callable[..., Any]) -> StoredFunction:
        if type(function) is not Expression and type(function) is not Keyworded:
            return self._calls.function(function)
        form: Any = function.form if type(function) is Expression else function
        try:
            known = self._forms.get(form)
        except TypeError:  # some function in it is not hashable
            return self._calls.function(function)
        if known is None:
            known = self._forms[form] = self._calls.function(function)
        return known


class _Arguments:
    """The values of a plan as parts."""

    def __init__(self, calls: Calls, plan: Plan) -> None:
        self._calls = calls
        self._plan = plan
        #: of values that are several arguments
        self._shared: dict[int, Part] = {}
        #: of the batch in work
        self._recent: dict[int, Part] = {}
        #: large arguments, released when the graph has ended
        self.puts = calls.connection.storage.puts()
        #: references, and what else must live until then
        self.kept: list[object] = []
        #: only our version of Python can read one of them (CLI-15)
        self.has_code = False

    def part(self, index: int) -> Part:
        found = self._shared.get(index) or self._recent.get(index)
        if found is not None:
            return found
        part = self._part(self._plan.values[index])
        self.kept += part.kept
        self.has_code = self.has_code or part.has_code
        is_shared = self._plan.uses[index] > 1
        if part.kind == codes.KIND_INLINE:
            most_bytes = self._calls.connection.inline_bytes
            if part.size > most_bytes or (is_shared and part.size >= _SHARED_BYTES):
                part = self.put(part)
        (self._shared if is_shared else self._recent)[index] = part
        return part

    def put(self, part: Part) -> Part:
        if part.kind != codes.KIND_INLINE:
            return part
        object_id = self.puts.start(part.pieces)
        self.puts.finish()
        return Part.of_id(object_id, codes.KIND_OBJECT)

    def forget(self, keep: Sequence[int] = ()) -> None:
        """A batch is done. What was made for a task that did not fit any more is kept for the next."""
        recent = self._recent
        self._recent = {index: recent[index] for index in keep if index in recent}

    def _part(self, value: Any) -> Part:
        if type(value) is ObjectReference:
            return self._calls.object_part(value)
        if isinstance(value, concurrent.futures.Future):
            value = value.result()
        try:
            return self._calls.value_part(value)
        except Exception as error:
            pass_on(error)
            told = f"an argument of type {type(value).__name__}"
            reason = self._calls.reason_of(value, error)
            raise TypeError(f"{told} in the graph cannot be serialized: {reason}") from error
