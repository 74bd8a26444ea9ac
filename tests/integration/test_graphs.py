"""Graphs through real processes: failures, cancels, nesting, and options that reach every node."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from scaler.utility.exceptions import ProcessorDiedError
from tests.support import graph_tasks, tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

ANSWER_SECONDS = 15.0


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    cluster = RealCluster(module_stage, 2)
    yield cluster
    cluster.wait_until_empty()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_failure_ends_what_runs_and_what_waits(client: Client, tmp_path: Path) -> None:
    """All that is unfinished has the one error, at once, though a node of another branch would run for a minute."""
    graph = {
        "started": str(tmp_path / "started"),
        "log": str(tmp_path / "log"),
        "done": (tasks.note, "log", "started"),
        "slow": (tasks.sleep_after_note, "started", 60.0),
        "after slow": (str, "slow"),
        "bad": (graph_tasks.fail_when_noted, "started", "log"),
        "after bad": (str, "bad"),
    }
    futures = client.get(graph, ["done", "slow", "after slow", "after bad"], block=False)
    errors = [futures[key].exception(30) for key in ("slow", "after slow", "after bad")]
    assert [repr(error) for error in errors] == [f"ValueError({graph['log']!r})"] * 3
    assert futures["done"].result(WAIT) is None, "what was done stays done"
    assert client.get({"x": 2, "y": (tasks.square, "x")}, ["y"]) == {"y": 4}, "the client is as good as before"
    until(lambda: _is_free(client), "the slow node's place is free again", 30)


def _is_free(client: Client) -> bool:
    """Two at once: both workers take tasks."""
    pids = client.map(graph_tasks.process_id_after, [0.2, 0.2])
    return len(set(pids)) == 2


def test_a_processor_that_dies_in_the_middle_tells_its_story(client: Client) -> None:
    graph = {"code": 7, "dies": (os._exit, "code"), "next": (str, "dies"), "last": (str, "next")}
    with pytest.raises(ProcessorDiedError, match="7"):
        client.get(graph, ["last"])


def test_canceling_a_target_cancels_the_graph(client: Client, tmp_path: Path) -> None:
    log = tmp_path / "log"
    graph = {
        "log": str(log),
        "short": (tasks.square, 3),
        "long": (tasks.spin_after_note, "log"),
        "waits": (str, "long"),
        "other": (str, "waits"),
    }
    futures = client.get(graph, ["short", "long", "waits", "other"], block=False)
    assert futures["short"].result(WAIT) == 9
    until(lambda: _lines(log), "the long one runs")
    assert futures["waits"].cancel()
    for key in ("long", "other"):
        with pytest.raises(CancelledError):
            futures[key].result(ANSWER_SECONDS)
    assert futures["short"].result() == 9
    until(lambda: _is_free(client), "the long one was ended")


def test_nodes_submit_tasks_and_graphs(client: Client) -> None:
    graph = {"client": client, "n": 6, "fib": (tasks.fibonacci, "client", "n"), "twice": (max, "fib", (abs, "fib"))}
    assert client.get(graph, ["fib", "twice"]) == {"fib": 8, "twice": 8}
    assert client.submit(graph_tasks.fibonacci_by_graph, client, 6).result(WAIT) == 8


def test_failed_nodes_are_tried_again(client: Client, tmp_path: Path) -> None:
    graph = {"log": str(tmp_path / "log"), "a": (graph_tasks.third_time_lucky, "log"), "b": (str, "a")}
    assert client.get(graph, ["b"], retries=2) == {"b": "3"}


def test_capabilities_are_needed_by_every_node(client: Client) -> None:
    """No worker offers a gpu, so no node runs; the graph without this wish runs beside it."""
    graph = {"a": (tasks.square, 2), "b": (tasks.square, "a")}
    futures = client.get(graph, ["a", "b"], capabilities={"gpu": -1}, priority=5, block=False)
    assert "gpu" in client.explain(futures["a"])
    assert client.get(graph, ["b"]) == {"b": 16}
    assert not futures["a"].done() and not futures["b"].done()
    assert futures["b"].cancel() and futures["a"].cancelled()


def test_large_results_between_nodes(client: Client) -> None:
    """Beyond the inline limit, used by several, wanted and unwanted."""
    graph: dict[str, Any] = {"mib": 3, "large": (graph_tasks.zeros, "mib"), "other": (graph_tasks.zeros, 2)}
    graph |= {f"size{i}": (tasks.total, "large", "other", "large") for i in range(4)}
    found = client.get(graph, ["large", "size0", "size3"])
    assert len(found["large"]) == 3 << 20 and found["size0"] == found["size3"] == 3 << 20


def test_a_long_chain_and_a_wide_fan(client: Client) -> None:
    chain = {"0": 0, **{str(i): (graph_tasks.increment, str(i - 1)) for i in range(1, 1501)}}
    assert client.get(chain, ["1500"]) == {"1500": 1500}
    fan: dict[str, Any] = {"x": (tasks.square, 3), **{f"y{i}": (tasks.square, "x") for i in range(3000)}}
    fan["sum"] = (sum, [f"y{i}" for i in range(3000)])
    assert client.get(fan, ["sum"]) == {"sum": 3000 * 81}
