"""Where the time of functions goes: trees of calls, and how they travel in `WorkerStatus.stackSamples` (WRK-61).

A processor adds the stacks that it has sampled, an agent merges the trees of its processors, and a watcher merges those
of the workers: all of them with this class. A tree has at most `nodes_max` nodes. When there are more, the time of
further calls is counted in a node named "(other)" below the last call that has a node, so the sum stays right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from struct import Struct
from typing import NamedTuple

from scaler_protocol.ids import ID_BYTES, ObjectId

Frame = tuple[str, str, int]
"""Name of a function, base name of its file, line of its definition."""

OTHER: Frame = ("(other)", "", 0)
"""Calls that have no node of their own."""
OTHERS = ObjectId(bytes(ID_BYTES))
"""All functions of tasks that have no tree of their own."""

NODES_MAX = 4_096
DEPTH_MAX = 256
NAME_BYTES = 120
_MOST = 2**32 - 1

_FUNCTION = Struct("<16sIHH")
_FRAME = Struct("<IBB")
_NODE = Struct("<HHI")
_FRAME_RESERVE = _FRAME.size + len(OTHER[0])
_FUNCTION_RESERVE = _FUNCTION.size + _FRAME_RESERVE + _NODE.size
_NODE_RESERVE = 2 * _NODE.size  # with the node of the calls below it that are left out


class Node:
    __slots__ = ("children", "is_other", "microseconds")

    def __init__(self, *, is_other: bool = False) -> None:
        self.microseconds = 0  #: in this call itself, without the calls below it
        self.children: dict[Frame, Node] = {}
        self.is_other = is_other


class StackTrees:
    """One tree for each function of tasks; the children of its root are the first calls."""

    def __init__(self, nodes_max: int = NODES_MAX) -> None:
        self._nodes_max = nodes_max
        self._node_count = 0
        self.functions: dict[ObjectId, Node] = {}

    def __bool__(self) -> bool:
        return bool(self.functions)

    def add(self, function: ObjectId, path: Iterable[Frame], microseconds: int) -> None:
        """A stack, the first call first, in which so much time was spent."""
        node = self._root(function)
        for frame in path:
            node = self._child(node, frame)
        node.microseconds += microseconds

    def merge(self, data: bytes) -> None:
        """What `take` of other trees has returned. Raises ValueError, and then nothing has changed."""
        for block in list(_read(data)):
            places = [self._root(block.function)]
            for parent, frame, microseconds in block.nodes:
                node = self._child(places[parent], block.frames[frame])
                node.microseconds += microseconds
                places.append(node)

    def take(self, bytes_max: int) -> bytes:
        """All trees in at most so many bytes, calls that took most before others. The trees are empty afterwards."""
        functions, self.functions, self._node_count = self.functions, {}, 0
        return _packed(functions, bytes_max) if functions else b""

    def _root(self, function: ObjectId) -> Node:
        root = self.functions.get(function)
        if root is None:
            if self._node_count >= self._nodes_max:
                function = OTHERS
            root = self.functions.setdefault(function, Node())
            self._node_count += 1
        return root

    def _child(self, parent: Node, frame: Frame) -> Node:
        if parent.is_other:
            return parent
        child = parent.children.get(frame)
        if child is None:
            frame = OTHER if self._node_count >= self._nodes_max else frame
            child = parent.children.setdefault(frame, Node(is_other=frame == OTHER))
            self._node_count += 1
        return child


def function_ids(data: bytes) -> list[ObjectId]:
    """Of the functions in `WorkerStatus.stackSamples`. Raises ValueError if the bytes are no such trees."""
    return [ObjectId(function) for function, _, _, _, _ in _heads(data)]


def total_microseconds(node: Node) -> int:
    """With the calls below."""
    total, nodes = 0, [node]
    while nodes:
        one = nodes.pop()
        total += one.microseconds
        nodes += one.children.values()
    return total


# ------------------------------------------------------------ writing


class _Written:
    """What is written of one tree."""

    def __init__(self) -> None:
        self.frames: dict[Frame, int] = {}
        self.frame_bytes = bytearray()
        self.node_bytes = bytearray()
        self.node_count = 0
        self.left_out: dict[int, int] = {}  #: by parent, microseconds of calls that are left out

    def add(self, parent: int, frame: Frame, microseconds: int) -> int:
        """The number of the node, from 1."""
        if frame not in self.frames:
            self.frames[frame] = len(self.frames)
            self.frame_bytes += _frame_bytes(frame)
        self.node_bytes += _NODE.pack(parent, self.frames[frame], min(_MOST, microseconds))
        self.node_count += 1
        return self.node_count

    def block(self, function: ObjectId) -> bytes:
        for parent, microseconds in self.left_out.items():
            self.add(parent, OTHER, microseconds)
        body = bytes(self.frame_bytes + self.node_bytes)
        return _FUNCTION.pack(function, len(body), len(self.frames), self.node_count) + body


class _Candidate(NamedTuple):
    rank: tuple[int, int]  #: the most time first
    written: _Written
    parent: int
    frame: Frame
    node: Node


def _packed(functions: dict[ObjectId, Node], bytes_max: int) -> bytes:
    """Nodes are written from the roots on, the one with the most time first, while there is room: so whatever is left
    out took less than what is written."""
    totals = _totals(functions.values())
    order = count()
    room = bytes_max - _FUNCTION_RESERVE  # for the functions that are left out
    written: dict[ObjectId, _Written] = {}
    left_out = 0
    heap: list[_Candidate] = []

    def add_children(node: Node, parent: int, target: _Written) -> None:
        for frame, child in node.children.items():
            heappush(heap, _Candidate((-totals[id(child)], next(order)), target, parent, frame, child))

    for function in sorted(functions, key=lambda one: -totals[id(functions[one])]):
        if function == OTHERS or room < _FUNCTION_RESERVE:
            left_out += totals[id(functions[function])]
            continue
        room -= _FUNCTION_RESERVE
        written[function] = _Written()
        add_children(functions[function], 0, written[function])
    while heap:
        (rank, _), target, parent, frame, node = heappop(heap)
        size = _NODE_RESERVE + (0 if frame in target.frames else len(_frame_bytes(frame)))
        if size > room or frame == OTHER or target.node_count >= 2**15:
            target.left_out[parent] = target.left_out.get(parent, 0) - rank
            continue
        room -= size
        add_children(node, target.add(parent, frame, node.microseconds), target)
    blocks = [one.block(function) for function, one in written.items()]
    if left_out and bytes_max >= _FUNCTION_RESERVE:
        rest = _Written()
        rest.left_out[0] = left_out
        blocks.append(rest.block(OTHERS))
    return b"".join(blocks)


def _totals(roots: Iterable[Node]) -> dict[int, int]:
    """By the identity of each node, its time with that of the calls below."""
    in_order: list[Node] = list(roots)
    for node in in_order:
        in_order += node.children.values()  # the list grows while it is read: parents are before their children
    totals: dict[int, int] = {}
    for node in reversed(in_order):
        totals[id(node)] = node.microseconds + sum([totals[id(child)] for child in node.children.values()])
    return totals


def _frame_bytes(frame: Frame) -> bytes:
    name, file = _text(frame[0]), _text(frame[1])
    return _FRAME.pack(min(_MOST, max(0, frame[2])), len(name), len(file)) + name + file


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    return data if len(data) <= NAME_BYTES else data[:NAME_BYTES].decode("utf-8", "ignore").encode()


# ------------------------------------------------------------ reading


class _Block(NamedTuple):
    function: ObjectId
    frames: list[Frame]
    nodes: list[tuple[int, int, int]]


def _heads(data: bytes) -> Iterator[tuple[bytes, int, int, int, int]]:
    """Of each tree: function, where what follows begins and ends, count of frames and of nodes."""
    at = 0
    while at < len(data):
        if len(data) - at < _FUNCTION.size:
            raise ValueError("a tree of calls has no head")
        function, size, frames, nodes = _FUNCTION.unpack_from(data, at)
        at += _FUNCTION.size
        if size > len(data) - at or size < frames * _FRAME.size + nodes * _NODE.size:
            raise ValueError("a tree of calls is not as long as it says")
        yield function, at, at + size, frames, nodes
        at += size


def _read(data: bytes) -> Iterator[_Block]:
    for function, begin, end, frame_count, node_count in _heads(data):
        nodes_at = end - node_count * _NODE.size
        frames = _frames(data, begin, nodes_at, frame_count)
        nodes = list(_NODE.iter_unpack(data[nodes_at:end]))
        depths = [0]
        for number, (parent, frame, _) in enumerate(nodes):
            if parent > number or frame >= frame_count or depths[parent] >= DEPTH_MAX:
                raise ValueError("a tree of calls names what does not exist, or is too deep")
            depths.append(depths[parent] + 1)
        yield _Block(ObjectId(function), frames, nodes)


def _frames(data: bytes, at: int, end: int, frame_count: int) -> list[Frame]:
    frames: list[Frame] = []
    for _ in range(frame_count):
        if at + _FRAME.size > end:
            break
        line, name_bytes, file_bytes = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        name, file = data[at : at + name_bytes], data[at + name_bytes : at + name_bytes + file_bytes]
        at += name_bytes + file_bytes
        frames.append((name.decode("utf-8", "replace"), file.decode("utf-8", "replace"), line))
    if at != end or len(frames) != frame_count:
        raise ValueError("the frames of a tree of calls are not as long as it says")
    return frames
