"""An interrupt of what makes or ends futures: those that the program has end, and no task goes on that has none."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.interrupts import Cut, interrupted_at
from tests.support.waiting import WAIT, eventually

from scaler import Client, ScalerFuture


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[Client]:
    with Client(cluster.address, timeout_seconds=WAIT, heartbeat_interval_seconds=0.5) as client:
        client.submit(abs, -1).result(WAIT)
        yield client


@pytest.mark.parametrize("end", [lambda _, second: second.cancel(), lambda client, _: client.clear()])
def test_calls_that_wait_for_one_another_end_wherever_an_end_is_interrupted(
    client: Client, cluster: FakeCluster, end: Callable[[Client, ScalerFuture[int]], None]
) -> None:
    """What the interrupted call has not ended yet ends as if it had not been made."""
    deferred = client._ready().connection.deferred
    place, has_raised = 0, True
    while has_raised:
        place += 1
        cluster.hold()
        first = client.submit(abs, -1)
        second = client.submit(abs, first)
        third = client.submit(abs, second)
        waiting = threading.Thread(target=concurrent.futures.wait, args=([second, third],), daemon=True)
        waiting.start()
        for one in (second, third):
            eventually(partial(bool, one._watched().waiters), "another thread waits for them")
        try:
            with interrupted_at(place, ("/client/",)) as places:
                end(client, second)
        except Cut:
            pass
        has_raised = places.has_raised
        cluster.release()
        assert not concurrent.futures.wait([first, second, third], WAIT).not_done, f"interrupted at place {place}"
        waiting.join(WAIT)
        assert not waiting.is_alive(), f"interrupted at place {place}"
        assert not deferred, f"interrupted at place {place}"
        assert second.cancelled() == third.cancelled()
        if not has_raised:
            assert second.cancelled()


def a_call(client: Client, _: ScalerFuture[int]) -> None:
    client.submit(abs, -1)


def a_call_of_a_future(client: Client, ended: ScalerFuture[int]) -> None:
    client.submit(abs, ended)


def a_call_by_name(client: Client, _: ScalerFuture[int]) -> None:
    client.submit_named("name", b"x")


def a_graph(client: Client, _: ScalerFuture[int]) -> None:
    client.get({"a": (abs, -1), "b": (abs, "a")}, "b", timeout=0)


def a_graph_without_waiting(client: Client, _: ScalerFuture[int]) -> None:
    client.get({"a": (abs, -1), "b": (abs, "a")}, ["b", "a"], block=False)


#: Of the call itself, and what it posts.
SUBMITTING = (
    "/submitting/calls.py",
    "/submitting/named.py",
    "/submitting/deferred.py",
    "/client/graph/",
    "/client/io/",
)

SUBMITS = (a_call, a_call_of_a_future, a_call_by_name, a_graph, a_graph_without_waiting)


@pytest.mark.parametrize("program", SUBMITS)
def test_a_task_whose_submit_is_interrupted_ends(
    client: Client, cluster: FakeCluster, program: Callable[[Client, ScalerFuture[int]], None]
) -> None:
    """The program has no future to cancel it by."""
    connection = client._ready().connection
    ended = client.submit(abs, -1)
    assert ended.result(WAIT) == 1
    cluster.hold()
    place, has_raised = 0, True
    while has_raised:
        place += 1
        try:
            with interrupted_at(place, SUBMITTING) as places:
                program(client, ended)
        except (Cut, concurrent.futures.TimeoutError):
            eventually(
                lambda: not (connection.deferred or connection.standing()[1]), f"none is left, after place {place}"
            )
        has_raised = places.has_raised
    assert place > 15
