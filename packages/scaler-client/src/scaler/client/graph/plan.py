"""What of a graph has to be done for some keys, and in which order. (SCH-16)

Everything is a number here: tasks are numbered in the order they will be submitted, each after all it depends on. A
graph of a million nodes is a few flat columns, not millions of small objects.
"""

from __future__ import annotations

import graphlib
from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scaler.client.graph.nodes import LITERAL, Alias, Call, Data, Reader

LITERAL_LINK = -1
"""Links: the number of a task; this for the next of the literals; from FIRST_DATA_LINK down, a data node."""
FIRST_DATA_LINK = -2


@dataclass(slots=True)
class Plan:
    #: of each task
    functions: list[Callable[..., Any]] = field(default_factory=list)
    #: of each task: how many arguments it has
    counts: array[int] = field(default_factory=lambda: array("q"))
    #: of each argument of each task, in order
    links: array[int] = field(default_factory=lambda: array("q"))
    #: the arguments that are no nodes, in order
    literals: list[Any] = field(default_factory=list)
    #: values of data nodes
    data: list[Any] = field(default_factory=list)
    #: of each data node: how many arguments it is
    uses: array[int] = field(default_factory=lambda: array("q"))
    #: the keys asked for -> their links
    wanted: dict[Hashable, int] = field(default_factory=dict)


def plan(reader: Reader, keys: Sequence[Hashable]) -> Plan:
    """Cull the graph to what `keys` need and put it in order. KeyError, CycleError.

    What a node needs comes right before it, so that it can run, and free its inputs, as early as possible.
    """
    planner = _Planner(reader)
    for key in keys:
        if not reader.is_key(key):
            raise KeyError(f"key {key!r} is not in the graph")
    for key in keys:
        planner.add(key)
    planner.plan.wanted = {key: planner.links[key] for key in keys}
    return planner.plan


class _Planner:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.plan = Plan()
        #: node -> link, of all nodes that are done
        self.links: dict[Hashable, int] = {}
        #: the nodes from the wanted one down to the current one: what each is, in that order
        self._path: dict[Hashable, Call | Alias] = {}

    def add(self, wanted: Hashable) -> None:
        """Depth first, without recursion: a chain may be longer than any stack."""
        links, path = self.links, self._path
        waiting = [wanted]
        while waiting:
            key = waiting[-1]
            if key in links:
                waiting.pop()
            elif key in path:  # all it needs is done
                self._finish(key, path.pop(key))
                waiting.pop()
            else:
                waiting += self._enter(key)

    def _enter(self, key: Hashable) -> list[Hashable]:
        """What has to be done before this node."""
        node = self._reader.read(key)
        if type(node) is Data:
            self.links[key] = FIRST_DATA_LINK - len(self.plan.data)
            self.plan.data.append(node.value)
            self.plan.uses.append(0)
            return []
        assert not isinstance(node, Data), "that was the only other kind"
        self._path[key] = node
        targets = (node.key,) if isinstance(node, Alias) else node.targets
        needed = [one for one in targets if one is not LITERAL and one not in self.links]
        for one in needed:
            if one in self._path:
                self._raise_cycle(one)
            if not self._reader.is_key(one):
                raise KeyError(f"node {key!r} depends on {one!r}, which is not in the graph")
        needed.reverse()
        return needed

    def _finish(self, key: Hashable, node: Call | Alias) -> None:
        if isinstance(node, Alias):
            self.links[key] = self.links[node.key]
            return
        plan, links = self.plan, self.links
        links[key] = len(plan.functions)
        plan.functions.append(node.function)
        plan.counts.append(len(node.targets))
        for argument, target in zip(node.arguments, node.targets, strict=True):
            if target is LITERAL:
                plan.links.append(LITERAL_LINK)
                plan.literals.append(argument)
            else:
                link = links[target]
                plan.links.append(link)
                if link < LITERAL_LINK:
                    plan.uses[FIRST_DATA_LINK - link] += 1

    def _raise_cycle(self, begin: Hashable) -> None:
        """As graphlib does: the cycle from a node back to it."""
        path = list(self._path)
        cycle = [*path[path.index(begin) :], begin]
        raise graphlib.CycleError("nodes are in a cycle", cycle)
