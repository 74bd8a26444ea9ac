"""Reading the nodes of a graph, in the two grammars that programs write them in.

Ours is a dict with strings as keys. A value that is a tuple beginning with a callable is a task, and strings among its
arguments are keys: one that is missing is a mistake. Every other value is data and stays what it is.

Dask's is everything else: what has `__dask_graph__`, holds nodes of Dask's own, or has other keys than strings. There a
value that is a key is another name for that node, lists hold nodes, and strings that are no keys are just strings.

In both, arguments may be calls and collections with keys and further calls inside. A node is read as one call with a
flat row of arguments, each a literal or another node; what is nested becomes the form of an Expression.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from scaler_protocol import expressions
from scaler_protocol.expressions import Expression, Form, Keyworded


class Literal:
    """Stands in `Call.targets` for "no node: the argument itself"."""


LITERAL = Literal()


class Call(NamedTuple):
    """A task: a function over a row of arguments."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    #: of each argument, the key of the node whose value it is, or LITERAL; `arguments` itself when they all are keys
    targets: Sequence[Any]


class Data(NamedTuple):
    value: Any


class Alias(NamedTuple):
    """Another name for this node."""

    key: Hashable


Node = Call | Data | Alias

_COLLECTIONS: dict[type, Callable[..., Any]] = {
    list: expressions.as_list,
    tuple: expressions.as_tuple,
    set: expressions.as_set,
    frozenset: expressions.as_frozenset,
}


class Reader:
    """One graph. `is_dask` says which grammar it is written in."""

    def __init__(self, graph: Any) -> None:
        self.is_dask, self.graph = _opened(graph)
        self._spec = _task_spec() if self.is_dask else None
        self._node_type: type | tuple[()] = self._spec.GraphNode if self._spec else ()

    def read(self, key: Hashable) -> Node:
        node = self.graph[key]
        try:
            if type(node) is tuple and node and callable(node[0]):
                return self._call(key, node)
            return self._of_dask(node) if self.is_dask else Data(node)
        except RecursionError:
            raise ValueError(f"node {key!r} is nested too deeply: give its inner calls keys of their own") from None

    def is_key(self, value: Any) -> bool:
        try:
            return value in self.graph
        except TypeError:  # not hashable, or a tuple with something unhashable inside
            return False

    # ------------------------------------------------------------ tuples

    def _call(self, key: Hashable, node: tuple[Any, ...]) -> Call:
        function, *arguments = node
        graph = self.graph
        try:
            if all([argument in graph for argument in arguments]):  # noqa: C419 (a list is faster, for so few)
                return Call(function, arguments, arguments)
        except TypeError:  # some argument is not hashable
            pass
        targets: list[Any] = []
        for argument in arguments:
            if self.is_key(argument):
                targets.append(argument)
            elif type(argument) in _COLLECTIONS or self._is_special(argument):
                return self._nested(key, node)
            else:
                self._check(key, argument)
                targets.append(LITERAL)
        return Call(function, arguments, targets)

    def _check(self, key: Hashable, argument: Any) -> None:
        if type(argument) is str and not self.is_dask:
            raise KeyError(f"node {key!r} depends on {argument!r}, which is not in the graph")

    def _nested(self, key: Hashable, node: tuple[Any, ...]) -> Call:
        leaves = _Leaves()
        for argument in node[1:]:
            if not self.is_key(argument):
                self._check(key, argument)
        return leaves.call(node[0], [self._form(argument, leaves) for argument in node[1:]])

    def _form(self, value: Any, leaves: _Leaves) -> Form:
        if self.is_key(value):
            return leaves.add(value, value)
        if type(value) is tuple and value and callable(value[0]):
            return (value[0], *[self._form(one, leaves) for one in value[1:]])
        if isinstance(value, self._node_type) or self._is_reference(value):
            return self._node_form(value, leaves)
        make = _COLLECTIONS.get(type(value)) or (type(value) if _is_namedtuple(value) else None)
        if make is None:
            return leaves.add(value, LITERAL)
        begin = len(leaves.targets)
        forms = [self._form(one, leaves) for one in value]
        if all(type(one) is int and leaves.targets[one] is LITERAL for one in forms):
            # Nothing inside stands for anything: the collection travels as it is.
            leaves.forget(begin)
            return leaves.add(value, LITERAL)
        return (make, *forms)

    def _is_special(self, value: Any) -> bool:
        return isinstance(value, self._node_type) or _is_namedtuple(value) or self._is_reference(value)

    # ------------------------------------------------------------ Dask's grammar

    def _of_dask(self, node: Any) -> Node:
        if isinstance(node, self._node_type):
            return self._of_spec(node)
        if self.is_key(node):
            return Alias(node)
        leaves = _Leaves()
        form = self._form(node, leaves)
        if isinstance(form, tuple):
            return leaves.call(form[0], form[1:])
        target = leaves.targets[form]
        return Data(node) if target is LITERAL else Alias(target)

    def _of_spec(self, node: Any) -> Node:
        leaves = _Leaves()
        form = self._node_form(node, leaves)
        if isinstance(form, tuple):
            return leaves.call(form[0], form[1:])
        target = leaves.targets[form]
        return Data(leaves.arguments[form]) if target is LITERAL else Alias(target)

    def _is_reference(self, value: Any) -> bool:
        return self._spec is not None and isinstance(value, self._spec.TaskRef)

    def _node_form(self, node: Any, leaves: _Leaves) -> Form:
        """Of a node of Dask's own, or of something inside one, where nothing but nodes and references has a meaning."""
        spec = self._spec
        if spec is None:
            return leaves.add(node, LITERAL)
        kind = type(node)
        if isinstance(node, spec.TaskRef):
            return leaves.add(node, node.key)
        if kind is spec.Alias:
            return leaves.add(node, node.target)
        if kind is spec.DataNode:
            return leaves.add(node.value, LITERAL)
        make = _container(spec, kind)
        if make is None and kind is spec.Task:
            names = tuple(node.kwargs)
            make = Keyworded(node.func, names) if names else node.func
            return (make, *[self._node_form(one, leaves) for one in (*node.args, *node.kwargs.values())])
        if make is not None:
            return (make, *[self._node_form(one, leaves) for one in node.args])
        if not isinstance(node, spec.GraphNode):
            return leaves.add(node, LITERAL)
        # A kind of node that we do not know knows itself how to be called.
        keys = tuple(node.dependencies)
        about = [leaves.add(node, LITERAL), leaves.add(keys, LITERAL)]
        return (expressions.of_values, *about, *[leaves.add(key, key) for key in keys])


class _Leaves:
    """The arguments that a nested node comes down to."""

    def __init__(self) -> None:
        self.arguments: list[Any] = []
        self.targets: list[Any] = []

    def add(self, argument: Any, target: Any) -> int:
        self.arguments.append(argument)
        self.targets.append(target)
        return len(self.targets) - 1

    def forget(self, begin: int) -> None:
        del self.arguments[begin:], self.targets[begin:]

    def call(self, function: Callable[..., Any], forms: Sequence[Form]) -> Call:
        """Leaves are numbered in the order of the forms, so that a call without another in it needs no Expression."""
        is_flat = all(isinstance(one, int) for one in forms)
        return Call(function if is_flat else Expression((function, *forms)), self.arguments, self.targets)


def _opened(graph: Any) -> tuple[bool, Mapping[Any, Any]]:
    """Whether this is a graph of Dask's grammar, and its nodes."""
    if hasattr(graph, "__dask_graph__"):
        graph = graph.__dask_graph__()
        return True, graph.to_dict() if hasattr(graph, "to_dict") else graph
    if not isinstance(graph, Mapping):
        raise TypeError(f"a graph is a dict, or something with __dask_graph__, not {type(graph).__name__}")
    if type(graph).__module__.partition(".")[0] == "dask":
        return True, dict(graph)
    spec = _task_spec()
    is_dask = not all(type(key) is str for key in graph)
    is_dask = is_dask or (spec is not None and any(isinstance(node, spec.GraphNode) for node in graph.values()))
    return is_dask, graph


def _task_spec() -> Any:
    """Dask's own kinds of nodes. A program that has some has imported them."""
    return sys.modules.get("dask._task_spec")


def _container(spec: Any, kind: type) -> Callable[..., Any] | None:
    if kind is spec.List:
        return expressions.as_list
    if kind is spec.Tuple:
        return expressions.as_tuple
    if kind is spec.Set:
        return expressions.as_set
    return expressions.as_dict if kind is spec.Dict else None


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and type(value) is not tuple and hasattr(value, "_fields")
