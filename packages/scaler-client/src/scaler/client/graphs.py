"""`get`: from a graph as the program writes it to tasks with dependencies. (CLI-11)

A graph is a dict. A value that is a tuple beginning with a callable is a task: the callable and its arguments, of which
those that are keys of the graph stand for these nodes' values. Everything else, callables too, is data.
"""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scaler.client.calls import CallOptions, Calls
from scaler.client.core.events import GraphSubmitted
from scaler.client.core.records import Submission
from scaler.client.future import ScalerFuture
from scaler.client.object_reference import ObjectReference
from scaler.client.parts import Part
from scaler_protocol import codes, values
from scaler_protocol.ids import GraphId, ObjectId, TaskId, new_object_id

_SHARED_BYTES = 4 * 1024
"""Data that several tasks use, from this size on, is stored once instead of travelling with each of them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What of a graph has to be done for some keys."""

    #: task nodes, each after all it depends on
    order: tuple[Hashable, ...]
    #: of each task node, the nodes its arguments stand for, in order and with repetitions
    arguments: dict[Hashable, tuple[Any, ...]]
    functions: dict[Hashable, Callable[..., Any]]
    #: data node -> value
    data: dict[Hashable, Any]
    #: data node -> how many tasks use it
    uses: dict[Hashable, int]


@dataclass(frozen=True, slots=True)
class Key:
    """An argument that stands for a node."""

    key: Hashable


def is_task(node: Any) -> bool:
    return type(node) is tuple and bool(node) and callable(node[0])


def plan(graph: Mapping[Any, Any], keys: Sequence[Hashable]) -> Plan:
    """Cull the graph to what `keys` need, and put it in order. KeyError, CycleError."""
    if len(set(keys)) != len(keys):
        doubled = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise KeyError(f"key {doubled!r} is asked for more than once")
    result = Plan((), {}, {}, {}, {})
    predecessors: dict[Hashable, set[Hashable]] = {}
    waiting = list(keys)
    for key in waiting:
        if key not in graph:
            raise KeyError(f"key {key!r} is not in the graph")
    while waiting:
        key = waiting.pop()
        if key in predecessors:
            continue
        predecessors[key] = set()
        if not is_task(graph[key]):
            result.data[key] = graph[key]
            continue
        result.functions[key] = graph[key][0]
        arguments = tuple(_argument(graph, key, argument) for argument in graph[key][1:])
        result.arguments[key] = arguments
        needed = {argument.key for argument in arguments if type(argument) is Key}
        predecessors[key] = needed
        for one in needed:
            result.uses[one] = result.uses.get(one, 0) + 1
        waiting += needed
    order = graphlib.TopologicalSorter(predecessors).static_order()
    return replace(result, order=tuple(key for key in order if key in result.functions))


def _argument(graph: Mapping[Any, Any], node: Hashable, argument: Any) -> Any:
    """A key of the graph stands for that node. Other strings can only be keys that are missing."""
    if isinstance(argument, Hashable) and _is_key(graph, argument):
        return Key(argument)
    if isinstance(argument, str):
        raise KeyError(f"node {node!r} depends on {argument!r}, which is not in the graph")
    return argument


def _is_key(graph: Mapping[Any, Any], argument: Any) -> bool:
    try:
        return argument in graph
    except TypeError:  # a tuple with something unhashable inside is an argument like any other
        return False


class GraphRun:
    """One graph on its way: the tasks of a plan."""

    def __init__(self, calls: Calls, a_plan: Plan, options: CallOptions) -> None:
        self._calls = calls
        self._plan = a_plan
        ids = calls.connection.new_task_ids(len(a_plan.order))
        self._ids: dict[Hashable, TaskId] = dict(zip(a_plan.order, ids, strict=True))
        self._graph_id = GraphId(new_object_id())
        self._header = replace(calls.header(options), graph_id=self._graph_id)
        self._shared: dict[Hashable, Part] = {}
        self._objects: list[ObjectId] = []

    def start(self, keys: Sequence[Hashable], deserialize: Callable[[Any], Any]) -> dict[Hashable, ScalerFuture]:
        """A future for each key, in their order. Those of data nodes are finished."""
        futures: dict[Hashable, ScalerFuture] = {}
        for key in keys:
            if key in self._ids:
                futures[key] = ScalerFuture(self._ids[key], self._calls.connection, deserialize, self._calls.serializer)
            else:
                futures[key] = ScalerFuture.finished(self._plan.data[key])
        submissions = tuple(self._submission(key, futures.get(key)) for key in self._plan.order)
        if submissions:
            event = GraphSubmitted(self._graph_id, submissions, tuple(self._objects))
            self._calls.connection.post(event, is_batch=True)
        return futures

    def _submission(self, key: Hashable, future: ScalerFuture | None) -> Submission:
        calls, arguments = self._calls, self._plan.arguments[key]
        function_id = calls.function_id(self._plan.functions[key])
        parts = self._separate(arguments) if calls.serializer is not None else self._packed(key, arguments)
        submission = calls.submission(self._header, function_id, self._ids[key], parts, future)
        dependencies = dict.fromkeys(
            self._ids[one.key] for one in arguments if type(one) is Key and one.key in self._ids
        )
        return submission._replace(dependencies=tuple(dependencies))

    def _packed(self, node: Hashable, arguments: tuple[Any, ...]) -> list[Part]:
        extra: list[Part] = []
        positions: dict[Hashable, int] = {}
        stand_ins = []
        for argument in arguments:
            value = argument
            if type(argument) is Key:
                if argument.key in positions:
                    stand_ins.append(values.PartReference(positions[argument.key]))
                    continue
                part = self._part(argument.key)
                if part is not None:
                    extra.append(part)
                    positions[argument.key] = len(extra)
                    stand_ins.append(values.PartReference(len(extra)))
                    continue
                value = self._plan.data[argument.key]
            elif type(argument) is ObjectReference:
                extra.append(self._calls.object_part(argument))
                value = values.PartReference(len(extra))
            stand_ins.append(value)
        try:
            pieces = values.dumps_call(tuple(stand_ins), {})
        except Exception as error:
            raise TypeError(f"the arguments of node {node!r} cannot be serialized: {error}") from error
        return [Part(pieces, values.size_of(pieces)), *extra]

    def _separate(self, arguments: tuple[Any, ...]) -> list[Part]:
        """With a serializer of the program's own every argument is a part of its own."""
        serializer = self._calls.serializer
        assert serializer is not None
        parts = []
        for argument in arguments:
            part = self._part(argument.key) if type(argument) is Key else None
            if part is None:
                value = self._plan.data[argument.key] if type(argument) is Key else argument
                data = serializer.serialize(value)
                part = Part((data,), len(data))
            parts.append(part)
        return parts

    def _part(self, key: Hashable) -> Part | None:
        """A node's value as a part of its own, or None when it is data that rides along with the call."""
        if key in self._ids:
            return Part.of_id(self._ids[key], codes.KIND_TASK)
        value = self._plan.data[key]
        if type(value) is ObjectReference:
            return self._calls.object_part(value)
        if self._plan.uses[key] < 2 or self._calls.serializer is not None:
            return None
        if key not in self._shared:
            pieces = values.dumps(value)
            size = values.size_of(pieces)
            part = Part(pieces, size)
            if size >= _SHARED_BYTES:
                self._objects.append(self._calls.connection.storage.put(pieces))
                part = Part.of_id(self._objects[-1], codes.KIND_OBJECT)
            self._shared[key] = part
        return self._shared[key] if self._shared[key].kind == codes.KIND_OBJECT else None
