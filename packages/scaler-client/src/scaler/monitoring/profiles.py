"""Where the time of running tasks went in the last minutes, of all workers together: what StackSamples told, merged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import StackSamples
from scaler_protocol.stack_trees import OTHERS, Frame, Node, StackTrees, total_microseconds

SLOT_SECONDS = 10.0
SLOTS_KEPT = 60
SLOT_BYTES = 64 * 1024
NODES_SHOWN = 4_000
NAMES_KEPT = 10_000
SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"

Json = dict[str, Any]


class _Slot(NamedTuple):
    begun_at: float
    trees: bytes
    functions: frozenset[ObjectId]


class Profile:
    """What was told is kept in slots of some seconds, each within a bound, so that a window of time can be chosen."""

    def __init__(self) -> None:
        self._slots: deque[_Slot] = deque(maxlen=SLOTS_KEPT)
        self._open = StackTrees()
        self._opened_at = 0.0
        self._names: dict[ObjectId, str] = {}
        #: the last publication, for what it says of the workers
        self.told: StackSamples | None = None
        self.heard_at = 0.0

    def take(self, message: StackSamples, at: float) -> None:
        """`at`: seconds of the epoch. Blocks that are no trees are left out: they are foreign."""
        if self._open and at - self._opened_at >= SLOT_SECONDS:
            functions = frozenset(self._open.functions)
            self._slots.append(_Slot(self._opened_at, self._open.take(SLOT_BYTES), functions))
        if not self._open:
            self._opened_at = at
        for block in message.blocks:
            try:
                self._open.merge(block.stack_samples)
            except ValueError:
                continue
        for named in message.function_names:
            if len(self._names) < NAMES_KEPT or named.function_id in self._names:
                self._names[named.function_id] = named.name
        self.told, self.heard_at = message, at

    def window(self, seconds: float, at: float) -> StackTrees:
        """What was told in the last so many seconds, to the precision of a slot."""
        return merged(self.parts(seconds, at))

    def parts(self, seconds: float, at: float) -> list[bytes]:
        """The trees of `window`, which `merged` makes of them in any thread."""
        open_bytes = self._open.take(SLOT_BYTES)
        self._open.merge(open_bytes)
        return [open_bytes, *(slot.trees for slot in self._slots if slot.begun_at >= at - seconds - SLOT_SECONDS)]

    def has(self, name: str) -> bool:
        """Whether a function of this name is in any slot."""
        return any(
            self.name_of(function) == name
            for functions in (self._open.functions, *(slot.functions for slot in self._slots))
            for function in functions
        )

    def name_of(self, function: ObjectId) -> str:
        return "(other functions)" if function == OTHERS else self._names.get(function) or function.hex()[:8]


def merged(parts: list[bytes]) -> StackTrees:
    trees = StackTrees()
    for part in parts:
        trees.merge(part)
    return trees


class Stack(NamedTuple):
    """Calls under way, the first one first, and the time that was spent just there."""

    function: str
    path: tuple[Frame, ...]
    microseconds: int


def stacks_of(profile: Profile, trees: StackTrees, function: str = "") -> Iterator[Stack]:
    """Of all functions, or of those of this name."""
    for function_id, root in trees.functions.items():
        name = profile.name_of(function_id)
        if function and name != function:
            continue
        places: list[tuple[Node, tuple[Frame, ...]]] = [(root, ())]
        while places:
            node, path = places.pop()
            if node.microseconds:
                yield Stack(name, path, node.microseconds)
            places += [(child, (*path, frame)) for frame, child in node.children.items()]


def flame(profile: Profile, trees: StackTrees, function: str = "") -> Json:
    """What a flame graph of these trees is drawn from. `nodes` are rows of parent (0: none, else the
    number of a node before it), frame, and microseconds in that call itself; the first calls are functions of tasks."""
    totals: dict[str, int] = {}
    for function_id, root in trees.functions.items():
        name = profile.name_of(function_id)
        totals[name] = totals.get(name, 0) + total_microseconds(root)
    drawn = StackTrees(NODES_SHOWN)
    for stack in stacks_of(profile, trees, function):
        drawn.add(OTHERS, ((stack.function, "", 0), *stack.path), stack.microseconds)
    numbers: dict[Frame, int] = {}
    rows: list[tuple[int, int, int]] = []
    places = [(drawn.functions[OTHERS], 0)] if drawn else []
    while places:
        node, parent = places.pop()
        for frame, child in node.children.items():
            rows.append((parent, numbers.setdefault(frame, len(numbers)), child.microseconds))
            places.append((child, len(rows)))
    told = profile.told
    return {
        "functions": sorted(totals.items(), key=lambda one: -one[1]),
        "frames": list(numbers),
        "nodes": rows,
        "hidden": told is not None and told.is_hidden,
        "sampled": told.sampled_count if told else 0,
        "able": told.able_count if told else 0,
        "workers": told.worker_count if told else 0,
        "heard": told is not None,
    }


def speedscope(profile: Profile, trees: StackTrees, title: str, function: str = "") -> Json:
    """For https://www.speedscope.app: one profile of all functions, and one of each function."""
    numbers: dict[Frame, int] = {}
    by_function: dict[str, list[Stack]] = {}
    for stack in stacks_of(profile, trees, function):
        by_function.setdefault(stack.function, []).append(stack)
    weights = {name: sum(stack.microseconds for stack in stacks) for name, stacks in by_function.items()}
    names = sorted(by_function, key=lambda name: -weights[name])
    profiles = [_sampled("all functions", [stack for name in names for stack in by_function[name]], numbers)]
    profiles += [_sampled(name, by_function[name], numbers) for name in names]
    return {
        "$schema": SPEEDSCOPE_SCHEMA,
        "name": title,
        "exporter": "scaler",
        "activeProfileIndex": 0,
        "shared": {"frames": [_speedscope_frame(frame) for frame in numbers]},
        "profiles": profiles,
    }


def _sampled(name: str, stacks: list[Stack], numbers: dict[Frame, int]) -> Json:
    samples = [
        [numbers.setdefault(frame, len(numbers)) for frame in ((stack.function, "", 0), *stack.path)]
        for stack in stacks
    ]
    weights = [stack.microseconds for stack in stacks]
    return {
        "type": "sampled",
        "name": name,
        "unit": "microseconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }


def _speedscope_frame(frame: Frame) -> Json:
    name, file, line = frame
    told: Json = {"name": name}
    if file:
        told["file"] = file
    if line:
        told["line"] = line
    return told
