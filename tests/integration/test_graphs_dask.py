"""Dask's collections, computed by a cluster: `scheduler=client` is all that a program changes."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import pytest

from scaler import Client
from tests.support import graph_tasks
from tests.support.clusters import RealCluster
from tests.support.processes import Stage

dask = pytest.importorskip("dask")
numpy = pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    cluster = RealCluster(module_stage, 2)
    yield cluster
    cluster.wait_until_empty()


def test_delayed(client: Client) -> None:
    increment, add = dask.delayed(graph_tasks.increment), dask.delayed(operator.add)
    total = add(increment(1), increment(increment(2)))
    assert total.compute(scheduler=client) == 6
    words = dask.delayed(sorted)([increment(5), increment(1)], reverse=True)
    many = {"total": total, "list": [increment(i) for i in range(20)], "words": words}
    expected = {"total": 6, "list": list(range(1, 21)), "words": [6, 2]}
    assert dask.compute(many, 7, total, scheduler=client) == (expected, 7, 6)
    local = 10  # what travels by value
    assert dask.delayed(lambda value: value + local)(increment(1)).compute(scheduler=client) == 12
    assert dask.delayed("text").upper().compute(scheduler=client) == "TEXT"


def test_a_failure_of_delayed(client: Client) -> None:
    bad = dask.delayed(graph_tasks.fail_when_noted)("/", "the reason")
    with pytest.raises(ValueError, match="the reason"):
        dask.delayed(operator.add)(bad, 1).compute(scheduler=client)


def test_as_the_default_and_persisted(client: Client) -> None:
    value = dask.delayed(graph_tasks.increment)(1)
    with dask.config.set(scheduler=client):
        (kept,) = dask.persist(value)
        assert dask.compute(kept, value) == (2, 2)
    assert value.compute(scheduler=client, priority=5, retries=1) == 2


def test_arrays(client: Client) -> None:
    array = pytest.importorskip("dask.array")
    numbers = numpy.arange(10_000, dtype=float).reshape(100, 100)
    lazy = array.from_array(numbers, chunks=(30, 40))
    assert lazy.sum().compute(scheduler=client) == numbers.sum()
    numpy.testing.assert_allclose((lazy @ lazy.T).compute(scheduler=client), numbers @ numbers.T)
    product = (lazy[::2, 5:] * 2 + 1).rechunk((7, 9)).max(axis=0)
    numpy.testing.assert_array_equal(product.compute(scheduler=client), (numbers[::2, 5:] * 2 + 1).max(axis=0))
    result = lazy.compute(scheduler=client)
    result[0, 0] = 5  # it is ours to change


def test_bags(client: Client) -> None:
    bag = pytest.importorskip("dask.bag")
    words = bag.from_sequence(["a", "bb", "ccc", "bb"] * 25, npartitions=5)
    assert words.map(len).sum().compute(scheduler=client) == 200
    assert dict(words.frequencies().compute(scheduler=client)) == {"a": 25, "bb": 50, "ccc": 25}
    assert sorted(words.filter(lambda word: len(word) == 1).compute(scheduler=client)) == ["a"] * 25
    assert words.fold(lambda a, b: max(a, b), max).compute(scheduler=client) == "ccc"
    assert sorted(words.foldby(len, lambda n, _: n + 1, 0, operator.add, 0).compute(scheduler=client)) == [
        (1, 25),
        (2, 50),
        (3, 25),
    ]


@pytest.fixture
def _shuffle_by_tasks() -> Iterator[None]:
    """Dask's other way goes through files of one machine, and leaves them there."""
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        yield


@pytest.mark.usefixtures("_shuffle_by_tasks")
def test_dataframes(client: Client) -> None:
    pandas = pytest.importorskip("pandas")
    dataframe = pytest.importorskip("dask.dataframe")
    frame = pandas.DataFrame({"key": [number % 3 for number in range(60)], "value": range(60), "word": ["x", "y"] * 30})
    lazy = dataframe.from_pandas(frame, npartitions=4)
    pandas.testing.assert_series_equal(
        lazy.groupby("key").value.sum().compute(scheduler=client), frame.groupby("key").value.sum()
    )
    assert lazy.value.mean().compute(scheduler=client) == frame.value.mean()
    both = lazy.merge(lazy[lazy.value > 50], on="value").compute(scheduler=client)
    assert sorted(both.value) == list(range(51, 60))
    ordered = lazy.sort_values("value", ascending=False).compute(scheduler=client)
    assert list(ordered.value) == list(reversed(range(60)))
    shuffled = lazy.set_index("key").map_partitions(len).compute(scheduler=client)
    assert shuffled.sum() == 60
    assert lazy.word.nunique().compute(scheduler=client) == 2


def test_graphs_as_data(client: Client) -> None:
    """The scheduler protocol of Dask: a graph of any kind, and keys in any shape."""
    spec = pytest.importorskip("dask._task_spec")
    graph: dict[Any, Any] = {
        "x": spec.DataNode("x", 1),
        ("y", 0): spec.Task(("y", 0), operator.add, spec.TaskRef("x"), 10),
        ("y", 1): (operator.mul, ("y", 0), 2),
        "z": spec.Alias("z", ("y", 1)),
        "all": (sum, [("y", 0), ("y", 1), "x"]),
        "name": (str.upper, "not a key"),
    }
    assert client.get(graph, ["z", ["all", [("y", 0)]], "name"]) == [22, [34, [11]], "NOT A KEY"]
    assert client.get(graph, "all") == 34
    layers = pytest.importorskip("dask.highlevelgraph").HighLevelGraph.from_collections("layer", graph, [])
    assert client.get(layers, ["z"]) == [22]
    value = dask.delayed(graph_tasks.increment)(1)
    assert client.get(value, value.__dask_keys__()) == [2]
