"""How clients come, go and survive, against a fake cluster on the real wire."""

from __future__ import annotations

import concurrent.futures
import threading
import time
import weakref

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler.utility.exceptions import (
    ClientQuitException,
    DisconnectedError,
)
from scaler_protocol.addresses import AddressError

# ---------------------------------------------------------------- leaving


def test_a_disconnected_client_says_so(cluster: FakeCluster) -> None:
    client = Client(cluster.address)
    client.disconnect()
    client.disconnect()
    for use in (lambda: client.submit(abs, 1), lambda: client.map(abs, [1]), client.clear, lambda: client.identity):
        with pytest.raises(ClientQuitException, match=r"^cannot schedule new futures after shutdown: .*new one"):
            use()


def test_disconnecting_cancels_what_is_unfinished(cluster: FakeCluster) -> None:
    client = Client(cluster.address)
    cluster.hold()
    future = client.submit(abs, -1)
    client.disconnect()
    assert future.cancelled()


def test_shutdown_without_arguments_asks_the_cluster(cluster: FakeCluster) -> None:
    client = Client(cluster.address)
    with pytest.raises(ValueError, match="protected"):
        client.shutdown()
    with pytest.raises(ClientQuitException):
        client.submit(abs, 1)
    cluster.is_protected = False
    Client(cluster.address).shutdown()


def test_shutdown_of_an_executor_closes_this_client(cluster: FakeCluster) -> None:
    client = Client(cluster.address)
    future = client.submit(abs, -1)
    client.shutdown(wait=True)
    assert future.result(0) == 1
    with pytest.raises(ClientQuitException):
        client.submit(abs, 1)
    client.shutdown(wait=True)
    cluster.hold()
    other = Client(cluster.address)
    future = other.submit(abs, -1)
    other.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(concurrent.futures.CancelledError, match="its client was disconnected"):
        future.result(WAIT)


def test_a_client_that_is_dropped_leaves_and_one_with_work_stays(cluster: FakeCluster) -> None:
    cluster.hold()
    client = Client(cluster.address)
    connection = weakref.ref(client._ready().connection)
    future = client.submit(abs, -1)
    del client
    cluster.release()
    assert future.result(WAIT) == 1
    del future
    eventually(lambda: (found := connection()) is None or found.is_closed, "the connection has ended")


def test_opening_and_closing_is_quick_and_thread_safe(cluster: FakeCluster) -> None:
    def session(number: int) -> int:
        with Client(cluster.address) as client:
            result: int = client.submit(abs, -number).result(WAIT)
            return result

    others = set(threading.enumerate())
    session(0)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert list(pool.map(session, range(60))) == list(range(60))

    def is_quick() -> bool:
        begin = time.perf_counter()
        Client(cluster.address).disconnect()
        return time.perf_counter() - begin < 0.1

    # A wait inside would make each of them slow; a loaded machine makes only some of them slow.
    eventually(is_quick, "a client opens and closes within a tenth of a second")
    left = set(threading.enumerate()) - others
    assert not [one for one in left if one.name == "scaler-client"], "no thread is left"


# ---------------------------------------------------------------- not there, not wanted


def test_an_unreachable_scheduler_is_a_timeout_that_names_it(unused_address: str) -> None:
    with pytest.raises(TimeoutError, match=f"{unused_address}.*check"):
        Client(unused_address, timeout_seconds=0.2)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "tcp://nowhere", "http://x:1", ""])
def test_a_wrong_address_is_said_so(address: str) -> None:
    with pytest.raises(ValueError):
        Client(address)


def test_without_an_address_outside_of_a_task() -> None:
    with pytest.raises(ValueError, match="No scheduler address provided"):
        Client()


@pytest.fixture
def unused_address() -> str:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def successor(first: FakeCluster) -> FakeCluster:
    """At the same address, which zmq gives back a moment after the socket was closed."""
    found: list[FakeCluster] = []

    def is_bound() -> bool:
        try:
            found.append(FakeCluster(first.address))
        except AddressError:
            return False
        return True

    eventually(is_bound, f"{first.address} is free")
    return found[0]


def test_a_successor_at_the_same_address_gets_the_unfinished_tasks() -> None:
    first = FakeCluster()
    first.hold()
    with Client(first.address, timeout_seconds=30, heartbeat_interval_seconds=0.1) as client:
        futures = [client.submit(abs, -number) for number in range(10)]
        futures.append(client.submit(len, bytes(100_000)))
        eventually(lambda: first.held_count() == 11, "the first scheduler has the tasks")
        first.stop()
        second = successor(first)  # its storage knows nothing either
        assert [future.result(WAIT) for future in futures] == [*range(10), 100_000]
        assert client.submit(abs, -11).result(WAIT) == 11
    second.stop()


def test_a_client_waits_for_as_long_as_it_was_told_to_and_not_for_a_lease() -> None:
    cluster = FakeCluster(lease_seconds=0.3)
    cluster.hold()
    with Client(cluster.address, timeout_seconds=30) as client:
        future = client.submit(abs, -1)
        eventually(lambda: cluster.held_count() == 1, "the scheduler has the task")
        cluster.do(lambda: time.sleep(1.0))  # frozen for three leases
        cluster.release()
        assert future.result(WAIT) == 1
    cluster.stop()


def test_when_nobody_comes_back_futures_fail() -> None:
    cluster = FakeCluster()
    cluster.hold()
    with Client(cluster.address, timeout_seconds=0.5, heartbeat_interval_seconds=0.1) as client:
        future = client.submit(abs, -1)
        eventually(lambda: cluster.held_count() == 1, "the scheduler has the task")
        cluster.stop()
        with pytest.raises(DisconnectedError):
            future.result(WAIT)
