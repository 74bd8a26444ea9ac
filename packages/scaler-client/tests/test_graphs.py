"""Client.get, against a fake cluster on the real wire."""

from __future__ import annotations

import graphlib
import operator
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler_protocol import codes, columns


def fail(message: str) -> None:
    raise KeyError(message)


def inc(i: int) -> int:
    return i + 1


def add(a: int, b: int) -> int:
    return a + b


def minus(a: int, b: int) -> int:
    return a - b


SEED_GRAPH = {"a": 2, "b": 2, "c": (inc, "a"), "d": (add, "a", "b"), "e": (minus, "d", "c"), "f": add}


def test_the_graph_of_the_documents(client: Client) -> None:
    assert client.get(SEED_GRAPH, keys=["e"]) == {"e": 1}
    result = client.get(SEED_GRAPH, keys=["a", "b", "c", "d", "e", "f"])
    assert result == {"a": 2, "b": 2, "c": 3, "d": 4, "e": 1, "f": add}
    assert list(result) == ["a", "b", "c", "d", "e", "f"]


def test_only_what_is_needed_is_run_and_only_what_is_wanted_comes_back(client: Client, cluster: FakeCluster) -> None:
    client.get(SEED_GRAPH, keys=["c"])
    (submit,) = cluster.submits
    assert len(columns.split_ids(submit.ids)) == 1 and submit.is_graph_sealed and submit.header.graph_id
    client.get(SEED_GRAPH, keys=["e"])
    assert sorted(cluster.submits[-1].task_flags) == [0, codes.TASK_UNWANTED, codes.TASK_UNWANTED]


def test_any_hashable_key_and_any_literal(client: Client) -> None:
    graph = {("x", 0): 5, 1: (add, ("x", 0), 10), None: (len, [1, 2]), "doubled": (add, 1, 1)}
    assert client.get(graph, keys=[1, None, "doubled"]) == [15, 2, 30], "1 is a key"


def test_graphs_that_cannot_be(client: Client) -> None:
    with pytest.raises(KeyError, match="more than once"):
        client.get(SEED_GRAPH, keys=["a", "a"])
    with pytest.raises(KeyError, match="nope"):
        client.get(SEED_GRAPH, keys=["nope"])
    with pytest.raises(KeyError, match="missing"):
        client.get({"a": (inc, "missing")}, keys=["a"])
    with pytest.raises(graphlib.CycleError):
        client.get({"a": (inc, "b"), "b": (inc, "a")}, keys=["a"])
    assert client.get({}, keys=[]) == {}


def test_get_without_waiting_gives_futures(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    futures = client.get(SEED_GRAPH, keys=["a", "e"], block=False)
    assert futures["a"].done() and futures["a"].result() == 2 and not futures["e"].done()
    assert futures["a"].profiling_info().duration_s == 0
    cluster.release()
    assert futures["e"].result(WAIT) == 1


def test_a_failing_node_fails_what_depends_on_it(client: Client) -> None:
    graph = {"bad": (fail, "text"), "text": "oh", "after": (inc, "bad"), "good": (abs, -1)}
    with pytest.raises(KeyError):
        client.get(graph, keys=["bad", "good"])
    with pytest.raises(RuntimeError, match="depends on"):
        client.get(graph, keys=["after"])
    assert client.submit(abs, -1).result(WAIT) == 1


def test_data_that_many_nodes_use_is_stored_once(client: Client, cluster: FakeCluster) -> None:
    data = list(range(50_000))
    graph: dict[str, Any] = {"data": data, **{f"n{i}": (operator.getitem, "data", i) for i in range(20)}}
    assert client.get(graph, keys=["n3", "n19"]) == {"n3": 3, "n19": 19}
    assert sum(len(submit.payload) for submit in cluster.submits) < 10_000
    eventually(lambda: all(len(one) < 1000 for one in list(cluster.objects.values())), "it is released")


def test_a_dependency_used_twice(client: Client) -> None:
    assert client.get({"a": (inc, 1), "b": (add, "a", "a")}, keys=["b"]) == {"b": 4}
