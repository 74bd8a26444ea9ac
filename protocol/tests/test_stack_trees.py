"""Trees of calls: what is added comes out at the other end, in as many bytes as it may take."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler_protocol.ids import ObjectId
from scaler_protocol.stack_trees import (
    DEPTH_MAX,
    OTHER,
    OTHERS,
    Frame,
    Node,
    StackTrees,
    function_ids,
    total_microseconds,
)

F, G = ObjectId(b"f" * 16), ObjectId(b"g" * 16)
A, B, C = (("a", "x.py", 1), ("b", "y.py", 20), ("größe", "y.py", 300))

frames = st.tuples(st.text(max_size=6), st.text(max_size=6), st.integers(0, 2**32 - 1))
stacks = st.lists(
    st.tuples(st.sampled_from((F, G)), st.lists(frames, min_size=1, max_size=4), st.integers(0, 10**6)), max_size=20
)


def plain(node: Node) -> object:
    return node.microseconds, {frame: plain(child) for frame, child in node.children.items()}


def shape(trees: StackTrees) -> object:
    return {function: plain(root) for function, root in trees.functions.items()}


def filled(*added: tuple[ObjectId, list[Frame], int]) -> StackTrees:
    trees = StackTrees()
    for one in added:
        trees.add(*one)
    return trees


def total(trees: StackTrees) -> int:
    return sum(map(total_microseconds, trees.functions.values()))


def read(data: bytes) -> StackTrees:
    trees = StackTrees()
    trees.merge(data)
    return trees


def test_what_is_taken_and_merged_is_the_same() -> None:
    trees = filled((F, [A, B], 3), (F, [A], 4), (F, [A, C], 5), (G, [B], 6), (F, [A, B], 10))
    before = shape(trees)
    data = trees.take(1_000)
    assert not trees and shape(read(data)) == before
    assert sorted(function_ids(data)) == [F, G]


def test_trees_of_two_processes_add_up() -> None:
    trees = StackTrees()
    for _ in range(2):
        trees.merge(filled((F, [A, B], 3), (F, [A], 4)).take(1_000))
    assert shape(trees) == {F: (0, {A: (8, {B: (6, {})})})}


def test_what_takes_least_is_left_out_first_and_stays_in_the_sum() -> None:
    trees = filled(
        (F, [A, B], 1_000), *((F, [A, C, (f"small {n}", "z.py", n)], 1) for n in range(100)), (F, [A, C], 50)
    )
    data = trees.take(200)
    assert len(data) <= 200
    assert shape(read(data)) == {F: (0, {A: (0, {B: (1_000, {}), C: (50, {OTHER: (100, {})})})})}


def test_functions_for_which_there_is_no_room_are_told_together() -> None:
    functions = [ObjectId(bytes([number]) * 16) for number in range(1, 100)]
    trees = filled(*((function, [A], 10 + number) for number, function in enumerate(functions)))
    before = total(trees)
    found = read(trees.take(500))
    assert total(found) == before
    assert OTHERS in found.functions and functions[-1] in found.functions and functions[0] not in found.functions


def test_more_nodes_than_there_may_be_are_counted_below_the_last_call() -> None:
    trees = StackTrees(nodes_max=4)
    for number in range(50):
        trees.add(F, [A, (f"call {number}", "x.py", number), B], 1)
    trees.add(G, [A, B], 7)
    assert total(trees) == 57
    assert plain(trees.functions[F]) == (
        0, {A: (0, {("call 0", "x.py", 0): (0, {B: (1, {})}), OTHER: (49, {})})}
    )  # fmt: skip
    assert plain(trees.functions[OTHERS]) == (0, {OTHER: (7, {})})


@given(stacks, st.integers(0, 400))
def test_no_time_is_lost_and_the_bound_holds(added: list[tuple[ObjectId, list[Frame], int]], bytes_max: int) -> None:
    trees = filled(*added)
    before = total(trees)
    data = trees.take(bytes_max)
    assert len(data) <= bytes_max
    assert total(read(data)) == (before if data else 0)
    assert bool(data) or not added or bytes_max < 100


def test_long_names_are_cut_between_two_characters() -> None:
    (frame,) = read(filled((F, [("ö" * 100, "x.py", 1)], 1)).take(1_000)).functions[F].children
    assert frame[0] == "ö" * 60


def deep(calls: int) -> bytes:
    """Trees that no process of ours makes."""
    trees = filled((F, [("f", "x.py", number) for number in range(calls)], 1))
    return trees.take(1 << 20)


@pytest.mark.parametrize(
    "data",
    (
        b"x",
        filled((F, [A], 1)).take(100)[:-1],
        filled((F, [A], 1)).take(100) + b"x",
        F + b"\x08\0\0\0\0\0\x01\0" + b"\x02\0\0\0\x01\0\0\0",  # no such parent
        F + b"\x08\0\0\0\0\0\x01\0" + b"\0\0\0\0\x01\0\0\0",  # no such frame
        F + b"\x06\0\0\0\x01\0\0\0" + b"\x01\0\0\0\x05\0",  # a name that is longer than what follows
        deep(DEPTH_MAX + 1),
    ),
)
def test_what_is_no_tree_is_refused_and_changes_nothing(data: bytes) -> None:
    trees = filled((G, [B], 6))
    before = shape(trees)
    with pytest.raises(ValueError, match="tree of calls"):
        trees.merge(data)
    assert shape(trees) == before


def test_any_bytes_are_trees_or_are_refused() -> None:
    whole = filled((F, [A, B], 3), (G, [C], 4)).take(1_000)
    draw = random.Random(7)
    for _ in range(2_000):
        data = bytearray(whole)
        data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            StackTrees().merge(bytes(data))
        except ValueError:
            pass
