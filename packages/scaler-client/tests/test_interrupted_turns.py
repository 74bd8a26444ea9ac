"""A turn in which tasks end, cut off at each of its places: all that is not needed any more leaves the storage."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.interrupts import Cut, interrupted_at
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler.client.io.connection import Connection
from scaler.client.objects.garbage import Garbage
from scaler_protocol.ids import ObjectId
from scaler_protocol.messages import Results
from scaler_protocol.session import Received, SessionEvent

LARGE = 100_000
"""Bytes that do not ride along."""

Program = Callable[[Client, FakeCluster], Callable[[], None]]
"""Makes a call, and returns what looks at its end."""

TURN = ("/scaler/client/", "/transport/blocking.py")


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[Client]:
    with Client(cluster.address, timeout_seconds=WAIT, heartbeat_interval_seconds=0.5) as client:
        client.submit(len, bytes(LARGE)).result(WAIT)
        yield client


def with_the_cluster(cluster: FakeCluster) -> None:
    eventually(lambda: cluster.held_count() > 0, "the task is with the cluster")


def a_large_argument(client: Client, cluster: FakeCluster) -> Callable[[], None]:
    future = client.submit(len, bytes(LARGE))
    return lambda: equal(future.result(WAIT), LARGE)


def a_large_argument_of_a_canceled_call(client: Client, cluster: FakeCluster) -> Callable[[], None]:
    future = client.submit(len, bytes(LARGE))
    with_the_cluster(cluster)
    future.cancel()
    return lambda: None


def a_graph(client: Client, cluster: FakeCluster) -> Callable[[], None]:
    graph = {"a": (len, bytes(LARGE)), "b": (divmod, "a", 7)}
    futures = client.get(graph, ["a", "b"], block=False)
    return lambda: equal(futures["a"].result(WAIT), LARGE)


def a_large_value(client: Client, cluster: FakeCluster) -> Callable[[], None]:
    future = client.submit(bytes, LARGE)
    return lambda: equal(future.result(WAIT), bytes(LARGE))


def a_large_value_of_a_canceled_call(client: Client, cluster: FakeCluster) -> Callable[[], None]:
    future = client.submit(bytes, LARGE)
    with_the_cluster(cluster)
    future.cancel()
    return lambda: None


def equal(found: object, wanted: object) -> None:
    assert found == wanted


PROGRAMS = (
    a_large_argument,
    a_large_argument_of_a_canceled_call,
    a_graph,
    a_large_value,
    a_large_value_of_a_canceled_call,
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_stays_in_the_storage(client: Client, cluster: FakeCluster, program: Program) -> None:
    connection = client._ready().connection
    place, has_raised = 0, True
    while has_raised:
        place += 1
        cluster.hold()
        check = program(client, cluster)
        with_the_cluster(cluster)
        has_raised = cut_turn(connection, cluster, place)
        check()
        del check
        eventually(lambda: connection.standing()[1] == 0, f"all has ended, at place {place}")
    assert place > 50, "the turn was cut at many places"
    eventually(lambda: is_empty(connection, cluster), "nothing is stored")
    connection.storage.holdings.check()


def cut_turn(connection: Connection, cluster: FakeCluster, place: int) -> bool:
    """Take the turn in which the results come, as a guest that is interrupted there. False: it has no such place."""
    driver = connection.driver
    came: list[SessionEvent] = []

    def have_come() -> bool:
        came.extend(driver.endpoint.poll(time.monotonic()))
        return any(type(one) is Received and type(one.message) is Results for one in came)

    with driver.lock:
        cluster.release()
        eventually(have_come, "the results are here")
        endpoint, poll = driver.endpoint, driver.endpoint.poll

        def poll_once(_now: float) -> list[SessionEvent]:
            endpoint.poll = poll  # type: ignore[method-assign]
            return came

        endpoint.poll = poll_once  # type: ignore[method-assign, assignment]
        try:
            with interrupted_at(place, TURN) as places:
                driver._turn(is_readable=True, is_guest=True)
        except Cut:
            pass
        finally:
            driver.watch.wake_surely()
    return places.has_raised


class Owner:
    """Something that can be referred to weakly."""


def test_an_interrupt_loses_no_garbage() -> None:
    ids = [ObjectId(bytes((number,)) * 16) for number in range(5)]
    place, has_raised = 0, True
    while has_raised:
        place += 1
        garbage, owners = Garbage(), [Owner() for _ in ids[:3]]
        for owner, object_id in zip(owners, ids, strict=False):
            garbage.add_after(owner, (object_id,))
        owners.clear()
        garbage.add(tuple(ids[3:]))
        try:
            with interrupted_at(place, ("/objects/garbage.py",)) as places:
                garbage.collect()
        except Cut:
            pass
        has_raised = places.has_raised
        del owner
        assert set(garbage.collect()) == set(ids) and garbage, f"interrupted at place {place}"
        garbage.released()
        assert not garbage
    assert place > 5


def is_empty(connection: Connection, cluster: FakeCluster) -> bool:
    gc.collect()  # frames that were traced hold each other
    storage = connection.storage
    held = [object_id for object_id, _ in storage.holdings.all()]
    return not cluster.values_of(connection.peer_id) and not storage.functions.unwanted(held)
