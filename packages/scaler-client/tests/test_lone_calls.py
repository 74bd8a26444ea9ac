"""A thread that waits for the only task there is waits at the socket itself, and gives way as soon as there is more."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Sequence

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler_protocol.transport import blocking
from scaler_protocol.transport.watch import Watch


class Sleeps:
    """In place of what the host sleeps on; notes the sleeps that begin while the socket is lent."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._inner = watch._descriptors
        self.register = self._inner.register
        self.unregister = self._inner.unregister
        self.close = self._inner.close
        self.begun = 0
        #: how many of these the socket has ended
        self.ended_by_socket = 0

    def poll(self, seconds: float | None) -> Sequence[tuple[int, int]]:
        is_lent = self._watch.is_lent
        self.begun += is_lent
        ready = self._inner.poll(seconds)
        own = self._watch._receiver.fileno()
        self.ended_by_socket += is_lent and any(descriptor != own for descriptor, _ in ready)
        return ready


def test_the_answer_wakes_no_other_thread(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking, "LATE_SECONDS", 3 * WAIT)  # a borrower that gets no processor is not gone
    wakes: list[str] = []
    wake = Watch.wake

    def noting(watch: Watch) -> None:
        wakes.append(threading.current_thread().name)
        wake(watch)

    monkeypatch.setattr(Watch, "wake", noting)
    with (
        Client(cluster.address, heartbeat_interval_seconds=20) as client,
        concurrent.futures.ThreadPoolExecutor(1, "borrower") as threads,
    ):
        watch = client._ready().connection.driver.watch
        watch._descriptors = sleeps = Sleeps(watch)
        for number in range(10):
            cluster.hold()
            future = client.submit(abs, -number)
            eventually(lambda: cluster.held_count() == 1, "the task is with the cluster")
            waiting = threads.submit(future.result, WAIT)
            eventually(lambda: watch.is_lent, "the thread waits at the socket")
            begun = sleeps.begun
            wake(watch)
            eventually(lambda begun=begun: sleeps.begun > begun, "the IO thread sleeps without the socket")
            cluster.release()
            assert waiting.result(WAIT) == number
    by_answers = sleeps.ended_by_socket + sum(name.startswith("borrower") for name in wakes)
    assert by_answers <= 2, "the IO thread slept, but for heartbeats of the cluster"


def test_a_bounded_wait_is_bounded(cluster: FakeCluster) -> None:
    cluster.hold()
    with Client(cluster.address) as client:
        future = client.submit(abs, -1)
        with pytest.raises(concurrent.futures.TimeoutError):
            future.result(0.05)
        cluster.release()
        assert future.result(WAIT) == 1


def test_other_threads_are_served_meanwhile(cluster: FakeCluster) -> None:
    cluster.hold()
    with Client(cluster.address) as client, concurrent.futures.ThreadPoolExecutor(8) as threads:
        first = client.submit(abs, -1)
        waiting = [threads.submit(first.result, WAIT) for _ in range(3)]
        others = [threads.submit(lambda n=n: client.submit(abs, -n).result(WAIT)) for n in range(2, 6)]
        eventually(lambda: cluster.held_count() == 5, "all tasks are with the cluster")
        cluster.release()
        assert [one.result(WAIT) for one in waiting] == [1, 1, 1]
        assert [one.result(WAIT) for one in others] == [2, 3, 4, 5]


def test_who_waits_ends_when_the_client_leaves(cluster: FakeCluster) -> None:
    cluster.hold()
    client = Client(cluster.address)
    future = client.submit(abs, -1)
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(WAIT)
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    eventually(lambda: client._ready().connection.driver.watch.is_lent, "the thread waits at the socket")
    client.disconnect()
    assert ended.wait(WAIT)
