"""Reading graphs in both grammars, and putting them in order: by hand, and as a matrix."""

from __future__ import annotations

import collections
import graphlib
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.client.graph import plan as plan_module
from scaler.client.graph import sparse
from scaler.client.graph.nodes import Reader
from scaler.client.graph.plan import Plan, plan
from scaler.client.graph.sparse import sparse_plan

Planner = Callable[[Reader, Sequence[Any]], "Plan | None"]


@pytest.fixture(autouse=True)
def _matrices_from_the_first_node_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "SPARSE_NODES", 0)


def inc(value: int) -> int:
    return value + 1


def run(a_plan: Plan) -> dict[Any, Any]:
    """What the tasks of a plan return, in its order: an order that is none does not get far."""
    values: list[Any] = []
    begin = need = 0
    for function, count, need_count in zip(a_plan.functions, a_plan.counts, a_plan.need_counts, strict=True):
        links = a_plan.links[begin : begin + count]
        needs = a_plan.needs[need : need + need_count]
        assert sorted(needs) == sorted({link for link in links if link >= 0}), "each once"
        assert all(number < len(values) for number in needs), "after all it depends on"
        values.append(function(*[values[link] if link >= 0 else a_plan.values[~link] for link in links]))
        begin += count
        need += need_count
    uses = collections.Counter(~link for link in a_plan.links if link < 0)
    assert list(a_plan.uses) == [uses[index] for index in range(len(a_plan.values))]
    return {key: values[link] if link >= 0 else a_plan.values[~link] for key, link in a_plan.wanted.items()}


def got(graph: Any, *keys: Any) -> list[Any]:
    """Planned both ways, which must agree."""
    result = run(plan(Reader(graph), keys))
    matrix = sparse_plan(Reader(graph), keys)
    assert matrix is None or run(matrix) == result
    return [result[key] for key in keys]


# ---------------------------------------------------------------- our grammar


def test_data_of_any_kind_stays_what_it_is() -> None:
    graph = {"a": 1, "text": "a", "list": ["a", 2], "pair": ("a", 2), "function": inc, "b": (inc, "a"), "empty": ()}
    assert got(graph, *graph) == [1, "a", ["a", 2], ("a", 2), inc, 2, ()]
    assert not Reader(graph).is_dask


def test_arguments_may_be_calls_and_collections() -> None:
    graph = {
        "a": 1,
        "nested": (inc, (inc, (inc, "a"))),
        "sum": (sum, ["a", (inc, "a"), 5]),
        "tuple": (list, ("a", "text", 7)),
        "deep": (len, [["a", ["a"]], {"a", 5}, "not a key"]),
        "plain": (sum, [1, 2]),
        "dict": (sorted, {"a": 3}),
        "none": (dict,),
    }
    keys = ["nested", "sum", "tuple", "deep", "plain", "dict", "none"]
    assert got(graph, *keys) == [4, 8, [1, "text", 7], 3, 3, ["a"], {}]


def test_a_string_that_is_no_key_is_a_mistake_here() -> None:
    for node in ((inc, "missing"), (operator.add, "missing", 1), (sum, "missing", ["a"])):
        with pytest.raises(KeyError, match="node 'b' depends on 'missing', which is not in the graph"):
            got({"a": 1, "b": node}, "b")
    assert got({"a": 1, "b": (inc, "missing"), "c": (inc, "a")}, "c") == [2], "nobody needs b"


def test_a_node_that_is_nested_too_deeply_is_named() -> None:
    node: Any = "a"
    for _ in range(10_000):
        node = (inc, node)
    with pytest.raises(ValueError, match="node 'b' is nested too deeply"):
        got({"a": 1, "b": node}, "b")


# ---------------------------------------------------------------- Dask's grammar

Point = collections.namedtuple("Point", "x y")


def test_other_keys_than_strings_make_it_dasks() -> None:
    graph = {
        ("x", 0): 1,
        ("x", 1): (inc, ("x", 0)),
        "alias": ("x", 1),
        "second": "alias",
        "list": [("x", 0), [("x", 1)], "text"],
        "text": "just a string",
        "upper": (str.upper, "no key"),
        3: (Point, ("x", 0), Point(("x", 1), "no key")),
    }
    keys = [("x", 1), "alias", "second", "list", "upper", 3]
    expected = [2, 2, 2, [1, [2], "just a string"], "NO KEY", Point(1, Point(2, "no key"))]
    assert got(graph, *keys) == expected


def test_what_has_a_dask_graph_is_dasks() -> None:
    class Collection:
        def __dask_graph__(self) -> dict[str, Any]:
            return {"a": 1, "b": "a", "c": (operator.add, "b", "b"), "d": (str.upper, "no key")}

    assert got(Collection(), "b", "c", "d") == [1, 2, "NO KEY"]
    with pytest.raises(TypeError, match="a graph is a dict"):
        Reader([("a", 1)])


def test_aliases_in_a_circle() -> None:
    with pytest.raises(graphlib.CycleError):
        got({1: 2, 2: 1}, 1)
    assert got({1: "one", "one": "two", "two": (inc, 5)}, 1, "two") == [6, 6]


def test_nodes_of_dasks_own() -> None:
    spec = pytest.importorskip("dask._task_spec")
    ref = spec.TaskRef

    class Unknown(spec.GraphNode):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.key, self._dependencies = "unknown", frozenset(("a",))

        def __call__(self, values: dict[str, int]) -> int:
            return -values["a"]

    graph = {
        "a": spec.DataNode("a", 1),
        "b": spec.Task("b", inc, ref("a")),
        "c": spec.Alias("c", "b"),
        "words": spec.Task("words", sorted, ["c", "a"], reverse=True),
        "nested": spec.Task("nested", operator.add, spec.Task(None, inc, ref("b")), 10),
        "collections": spec.List(ref("a"), spec.Tuple(ref("b"), 3), spec.Dict({"k": ref("c")}), spec.Set(ref("a"))),
        "fused": spec.Task.fuse(spec.Task("f1", inc, ref("a")), spec.Task("fused", inc, ref("f1"))),
        "unknown": Unknown(),
        "within": spec.Task("within", max, Unknown(), 0),
        "old": (max, ["a", ("inc", "b")], [0]),
    }
    keys = ["c", "words", "nested", "collections", "fused", "unknown", "within"]
    assert got(graph, *keys) == [2, ["c", "a"], 13, [1, (2, 3), {"k": 2}, {1}], 3, -1, 0]
    assert got(graph, "old") == [[1, ("inc", 2)]]
    with pytest.raises(KeyError, match="node 'x' depends on 'gone'"):
        got({"x": spec.Task("x", inc, ref("gone"))}, "x")


# ---------------------------------------------------------------- order


def test_a_chain_longer_than_any_stack() -> None:
    count = 5 * sys.getrecursionlimit()
    chain = {"0": 0, **{str(number): (inc, str(number - 1)) for number in range(1, count)}}
    last = str(count - 1)
    assert run(plan(Reader(chain), [last])) == {last: count - 1}
    backwards = dict(reversed(chain.items()))
    assert run(plan(Reader(backwards), [last])) == {last: count - 1}
    assert sparse_plan(Reader(backwards), [last]) is None, "too deep for levels"
    matrix = sparse_plan(Reader(chain), [last])
    assert matrix is not None and run(matrix) == {last: count - 1}, "in order as it is written"


def test_circles_are_shown_when_they_are_needed() -> None:
    graph = {"a": (inc, "b"), "b": (operator.add, "c", "d"), "c": (inc, "a"), "d": 1, "e": (inc, "d"), "s": (inc, "s")}
    with pytest.raises(graphlib.CycleError) as caught:
        got(graph, "a")
    assert caught.value.args[1] in (["a", "b", "c", "a"], ["b", "c", "a", "b"], ["c", "a", "b", "c"])
    with pytest.raises(graphlib.CycleError):
        got(graph, "s")
    assert got(graph, "e") == [2]


def test_what_depends_comes_right_after_what_it_needs() -> None:
    """Not all leaves first: their results would all be kept until the sums begin."""
    graph: dict[str, Any] = {f"leaf{number}": (inc, number) for number in range(4)}
    graph |= {"left": (max, "leaf0", "leaf1"), "right": (max, "leaf2", "leaf3"), "top": (max, "left", "right")}
    assert plan(Reader(graph), ["top"]).functions == [inc, inc, max, inc, inc, max, max]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[Any, Any], list[Any]]:
    """Acyclic, listed in any order, in either grammar; and some keys of it."""
    names: list[Any] = [f"n{number}" for number in range(draw(st.integers(1, 25)))]
    if draw(st.booleans()):
        names = [(name, 0) for name in names]
    graph: dict[Any, Any] = {}
    for number, name in enumerate(names):
        earlier = st.sampled_from(names[:number]) if number else st.integers(0, 9)
        argument = earlier | st.integers(100, 109)
        if draw(st.booleans()):
            argument |= st.lists(earlier, max_size=3).map(lambda found: (max, [0, *found]))
        kind = draw(st.sampled_from(["data", "task", "task", "task"]))
        graph[name] = number if kind == "data" else (max, 0, 1000, *draw(st.lists(argument, max_size=4)))
    order = draw(st.permutations(names)) if draw(st.booleans()) else names
    return {name: graph[name] for name in order}, draw(st.lists(st.sampled_from(names), min_size=1, unique=True))


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_both_ways_agree(case: tuple[dict[Any, Any], list[Any]]) -> None:
    graph, keys = case
    result = run(plan(Reader(graph), keys))
    matrix = sparse_plan(Reader(graph), keys)
    if matrix is None:
        assert not plan(Reader(graph), list(graph)).functions, "nothing else is beyond it"
    else:
        assert run(matrix) == result
        one_by_one = plan(Reader(graph), keys)
        assert len(matrix.functions) == len(one_by_one.functions), "only what is needed"
        assert set(matrix.keys) == set(one_by_one.keys) and len(matrix.keys) == len(matrix.functions)
        assert all(matrix.keys[link] == key for key, link in matrix.wanted.items() if link >= 0)


WITH_OTHER_NAMES = {
    ("x", 0): 5, "one": (inc, ("x", 0)), "other": "one", "two": (max, "other", 7), "three": (inc, "two")
}  # fmt: skip


def test_the_first_tasks_have_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither data nor another name of a node is a task."""
    assert plan(Reader(WITH_OTHER_NAMES), ["other", "three"]).keys == ["one", "two", "three"]
    monkeypatch.setattr(plan_module, "DASK_KEYS_MAX", 2)
    assert plan(Reader(WITH_OTHER_NAMES), ["three"]).keys == ["one", "two"]


def test_the_first_tasks_have_keys_by_matrices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = sparse_plan(Reader(WITH_OTHER_NAMES), ["other", "three"])
    assert matrix is not None and matrix.keys[1:] == ["two", "three"] and matrix.keys[0] in ("one", "other")
    monkeypatch.setattr(plan_module, "DASK_KEYS_MAX", 2)
    matrix = sparse_plan(Reader(WITH_OTHER_NAMES), ["three"])
    assert matrix is not None and len(matrix.keys) == 2


def test_small_graphs_do_not_load_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "SPARSE_NODES", 3)
    assert sparse_plan(Reader({"a": 1, "b": (inc, "a")}), ["b"]) is None
    assert sparse_plan(Reader({"a": 1, "b": (inc, "a"), "c": (inc, "b")}), ["c"]) is not None


def test_without_it_the_other_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphblas", None)
    assert sparse_plan(Reader({"a": 1, "b": (inc, "a")}), ["b"]) is None
