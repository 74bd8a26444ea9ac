"""Client.get, against a fake cluster on the real wire."""

from __future__ import annotations

import concurrent.futures
import graphlib
import operator
import pickle
from itertools import pairwise
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client, Serializer
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
    with pytest.raises(KeyError, match="oh"):
        client.get(graph, keys=["after"])
    futures = client.get(graph, keys=["after", "bad", "text"], block=False)
    assert repr(futures["after"].exception(WAIT)) == repr(futures["bad"].exception(WAIT)) == "KeyError('oh')"
    assert futures["text"].result() == "oh"
    assert client.submit(abs, -1).result(WAIT) == 1


def test_data_that_many_nodes_use_is_stored_once(client: Client, cluster: FakeCluster) -> None:
    data = list(range(50_000))
    graph: dict[str, Any] = {"data": data, **{f"n{i}": (operator.getitem, "data", i) for i in range(20)}}
    assert client.get(graph, keys=["n3", "n19"]) == {"n3": 3, "n19": 19}
    assert sum(len(submit.payload) for submit in cluster.submits) < 10_000
    eventually(lambda: all(len(one) < 1000 for one in list(cluster.objects.values())), "it is released")


def test_a_dependency_used_twice(client: Client) -> None:
    assert client.get({"a": (inc, 1), "b": (add, "a", "a")}, keys=["b"]) == {"b": 4}


def test_the_first_failure_ends_all_that_is_unfinished(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    futures = client.get({"a": (inc, 1), "b": (inc, "a"), "c": (inc, 2)}, keys=["b", "c"], block=False)
    eventually(lambda: cluster.held_count() == 3, "it is there")
    cluster.do(lambda: cluster.fail_held(0, ValueError("the first")))
    assert [repr(future.exception(WAIT)) for future in futures.values()] == ["ValueError('the first')"] * 2
    eventually(lambda: bool(cluster.cancels), "the rest is canceled")
    assert len(columns.split_ids(cluster.cancels[0].ids)) == 3


def test_a_wait_that_is_over_ends_the_graph(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    with pytest.raises(concurrent.futures.TimeoutError, match="has not ended within"):
        client.get({"a": (abs, -1), "b": (abs, "a")}, ["b"], timeout=1.0)  # which is long enough to send it
    eventually(lambda: "0 unfinished" in repr(client), "nothing of the graph is left")


def test_a_graphs_functions_may_be_said_to_have_changed(client: Client, cluster: FakeCluster) -> None:
    for _ in range(2):
        assert client.get({"a": (abs, -1)}, ["a"], reserialize=True) == {"a": 1}
    assert len(cluster.objects) == 1, "they had not"


def test_canceling_one_cancels_the_graph(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    futures = client.get({"a": (inc, 1), "b": (inc, "a"), "c": (inc, 2), "d": 5}, keys=["b", "c", "d"], block=False)
    assert futures["c"].cancel()
    assert futures["b"].cancelled() and not futures["d"].cancelled() and futures["d"].result() == 5
    eventually(lambda: cluster.held_count() == 0, "the cluster was told")


def test_one_key_and_nested_keys(client: Client) -> None:
    assert client.get(SEED_GRAPH, "e") == 1
    assert client.get(SEED_GRAPH, [["e", "d"], "c"]) == [[1, 4], 3]
    assert client.get(SEED_GRAPH, ("c", "d")) == {"c": 3, "d": 4}
    assert client.get({("x", 0): (inc, 1)}, ("x", 0)) == 2
    assert client.get({("x", 0): (inc, 1), 5: "text"}, [[("x", 0), 5], 5, []]) == [[2, "text"], "text", []]
    (future,), same = client.get({7: (inc, 1), 8: 7}, [[7], 8], block=False)
    assert future.result(WAIT) == 2 and same is future


def test_references_futures_and_a_serializer_of_its_own(client: Client, cluster: FakeCluster) -> None:
    reference = client.send_object([5, 6, 7])
    future = client.submit(abs, -1)
    graph = {"list": reference, "index": future, "a": (operator.getitem, "list", "index"), "b": (len, reference)}
    assert client.get(graph, ["a", "b"]) == {"a": 6, "b": 3}
    with Client(cluster.address, serializer=Tagged()) as other:
        assert other.get({"x": 5, "a": (inc, "x"), "b": (add, "a", 1), "c": (inc, (inc, "b"))}, ["b", "c"]) == {
            "b": 7,
            "c": 9,
        }


class Tagged(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return b"T" + pickle.dumps(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        assert payload[:1] == b"T"
        return pickle.loads(payload[1:])


def test_options_are_those_of_every_node(client: Client, cluster: FakeCluster) -> None:
    client.get(SEED_GRAPH, ["e"], capabilities={"gpu": 1}, priority=3, retries=2)
    header = cluster.submits[-1].header
    assert [(one.name, one.amount) for one in header.capabilities] == [("gpu", 1)]
    assert (header.priority, header.retries) == (3, 2)
    with pytest.raises(ValueError, match="retries"):
        client.get(SEED_GRAPH, ["e"], retries=-1)


def test_what_cannot_be_serialized_fails_at_its_line(client: Client, cluster: FakeCluster) -> None:
    with pytest.raises(TypeError, match="an argument of type generator in the graph cannot be serialized"):
        client.get({"x": (inc, 1), "a": (add, "x", (one for one in "abc"))}, ["a"])
    with pytest.raises(ValueError, match="merge them in several steps"):
        client.get({"all": (max, *range(70_000))}, ["all"])
    assert not cluster.submits


def test_large_arguments_are_stored_and_released(client: Client, cluster: FakeCluster) -> None:
    large = bytes(100_000)
    graph = {"large": large, "a": (len, "large"), "b": (len, large), "many": (count_all, *[bytes(60_000)] * 200)}
    assert client.get(graph, ["a", "b", "many"]) == {"a": 100_000, "b": 100_000, "many": 12_000_000}
    assert all(len(submit.payload) < 9_000_000 for submit in cluster.submits)
    eventually(lambda: all(len(one) < 10_000 for one in list(cluster.objects.values())), "they are released")


def count_all(*parts: bytes) -> int:
    return sum(map(len, parts))


def test_batches_are_cut_at_the_limits(client: Client, cluster: FakeCluster) -> None:
    chain = {"0": 0, **{str(number): (inc, str(number - 1)) for number in range(1, 20_001)}}
    assert client.get(chain, ["20000", "100"]) == {"20000": 20_000, "100": 100}
    assert [len(submit.ids) // 16 for submit in cluster.submits] == [8192, 8192, 3616]
    assert [submit.is_graph_sealed for submit in cluster.submits] == [False, False, True]
    wide = {str(number): (len, bytes(50_000)) for number in range(400)}
    assert client.get(wide, list(wide)) == dict.fromkeys(wide, 50_000)
    assert 2 < len(cluster.submits) - 3 < 6 and max(len(one.payload) for one in cluster.submits) < 9_000_000


def sent_keys(cluster: FakeCluster) -> list[bytes]:
    """Of the tasks of the last graph, which came in one batch."""
    message = cluster.submits[-1]
    return [message.keys[start:end] for start, end in pairwise(columns.offsets(message.key_sizes))]


def test_the_keys_of_nodes_are_sent(client: Client, cluster: FakeCluster) -> None:
    client.get(SEED_GRAPH, ["e"])
    assert sorted(sent_keys(cluster)) == [b"c", b"d", b"e"]
    client.get({("x", 0): 5, ("y", 1): (inc, ("x", 0))}, ("y", 1))
    assert sent_keys(cluster) == [b"('y', 1)"]
    client.submit(inc, 1).result()
    assert not cluster.submits[-1].keys and not cluster.submits[-1].key_sizes


def test_long_and_strange_keys_are_sent_as_far_as_they_can_be(client: Client, cluster: FakeCluster) -> None:
    class Strange:
        def __str__(self) -> str:
            raise ValueError("no name")

    long = "x" * 60 + "-end of it"
    graph: dict[Any, Any] = {
        "k" * 64: (inc, 0), long: (inc, 1), "ä" * 40: (inc, 2), "\ud800": (inc, 3), Strange(): (inc, 4), "": (inc, 5),
    }  # fmt: skip
    client.get(graph, list(graph))
    shown = [b"k" * 64, b"x" * 40 + "…".encode() + b"x" * 11 + b"-end of it", ("ä" * 20 + "…" + "ä" * 10).encode()]
    assert sent_keys(cluster) == [*shown, b"?", b"", b""]


def test_the_first_nodes_of_a_large_graph_have_keys(client: Client, cluster: FakeCluster) -> None:
    chain = {"0": 0, **{str(number): (inc, str(number - 1)) for number in range(1, 20_001)}}
    assert client.get(chain, "20000") == 20_000
    first, second, third = cluster.submits
    assert first.keys.startswith(b"1234") and first.keys.endswith(b"8192") and len(first.key_sizes) == 8192
    assert second.keys.endswith(b"999910000") and len(second.key_sizes) == 8192 and not any(second.key_sizes[1808:])
    assert not third.keys and not third.key_sizes


def test_nested_nodes_of_one_form_share_a_function(client: Client, cluster: FakeCluster) -> None:
    graph: dict[str, Any] = {f"n{number}": (inc, (add, number, (inc, number))) for number in range(50)}
    assert client.get(graph, ["n0", "n49"]) == {"n0": 2, "n49": 100}
    assert len(columns.split_ids(cluster.submits[-1].functions)) == 1


def test_the_timeout_is_for_building_and_storing_too(client: Client, cluster: FakeCluster) -> None:
    """Checks that the time for serializing the parts of a graph counts towards its timeout. Nothing is sent after the
    end."""
    client.submit(abs, -1).result(WAIT)
    sent = len(cluster.submits)
    with pytest.raises(concurrent.futures.TimeoutError, match="was not built and stored in time"):
        client.get({"a": (len, bytes(100_000))}, keys=["a"], timeout=0)
    assert len(cluster.submits) == sent
    client.submit(abs, -1).result(WAIT)
    eventually(lambda: not cluster.values_of(client.identity), "nothing is stored")
