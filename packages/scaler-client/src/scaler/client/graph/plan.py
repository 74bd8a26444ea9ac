"""What of a graph has to be done for some keys, and in which order. (SCH-16)

Everything is a number here. Tasks are numbered in the order they will be submitted, each after all it depends on. A
*link* says what an argument is: the number of a task, or, below zero, a value: `values[~link]`. So a graph of a million
nodes is a few flat columns, not millions of small objects.
"""

from __future__ import annotations

import graphlib
from array import array
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field
from typing import Any

from scaler.client.graph.nodes import LITERAL, Alias, Call, Data, Reader
from scaler_protocol.records import dataclass

KEYS_MAX, DASK_KEYS_MAX = 10_000, 3_000
"""So many tasks of a graph have a key for watchers, which draw 1,000. Dask's keys are long tuples, and cost more."""


def numbers(items: Iterable[int] = ()) -> array[int]:
    """A column: four bytes each."""
    return array("i", items)


@dataclass(slots=True)
class Plan:
    #: of each task
    functions: list[Callable[..., Any]] = field(default_factory=list)
    #: of each task: how many arguments it has
    counts: array[int] = field(default_factory=numbers)
    #: of each argument of each task, in order
    links: array[int] = field(default_factory=numbers)
    #: of each task: on how many others it depends
    need_counts: array[int] = field(default_factory=numbers)
    #: these, each once
    needs: array[int] = field(default_factory=numbers)
    #: literals, and what data nodes hold
    values: list[Any] = field(default_factory=list)
    #: of each value: how many arguments it is
    uses: array[int] = field(default_factory=numbers)
    #: of the first tasks: what the program calls them
    keys: list[Hashable] = field(default_factory=list)
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
    planner.plan.keys = _first_keys(planner.links, keys_max(reader))
    return planner.plan


def keys_max(reader: Reader) -> int:
    return DASK_KEYS_MAX if reader.is_dask else KEYS_MAX


def _first_keys(links: dict[Hashable, int], most: int) -> list[Hashable]:
    """Of the first tasks, in their order. Links of data and aliases are in between, and are no next number."""
    keys: list[Hashable] = []
    for key, link in links.items():
        if len(keys) == most:
            break
        if link == len(keys):
            keys.append(key)
    return keys


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
        if isinstance(node, Data):
            self.links[key] = self._value(node.value)
            return []
        self._path[key] = node
        links, path = self.links, self._path
        targets = (node.key,) if isinstance(node, Alias) else node.targets
        needed = [one for one in targets if one is not LITERAL and one not in links]
        for one in needed:
            if one in path:
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
        if node.arguments is node.targets:
            row = [links[target] for target in node.targets]
        else:
            pairs = zip(node.arguments, node.targets, strict=True)
            row = [self._value(one) if target is LITERAL else links[target] for one, target in pairs]
        needs = []
        for link in row:
            if link >= 0:
                needs.append(link)
            else:
                plan.uses[~link] += 1
        if len(needs) > 1:
            needs = list(dict.fromkeys(needs))
        links[key] = len(plan.functions)
        plan.functions.append(node.function)
        plan.counts.append(len(row))
        plan.links.extend(row)
        plan.need_counts.append(len(needs))
        plan.needs.extend(needs)

    def _value(self, value: Any) -> int:
        values = self.plan.values
        values.append(value)
        self.plan.uses.append(0)
        return -len(values)

    def _raise_cycle(self, begin: Hashable) -> None:
        """As graphlib does: the cycle from a node back to it."""
        path = list(self._path)
        cycle = [*path[path.index(begin) :], begin]
        raise graphlib.CycleError("nodes are in a cycle", cycle)
