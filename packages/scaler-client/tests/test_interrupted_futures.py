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


def test_a_call_whose_submit_is_interrupted_does_not_stay(client: Client, cluster: FakeCluster) -> None:
    """No future is left to cancel it by."""
    connection = client._ready().connection
    first = client.submit(abs, -1)
    assert first.result(WAIT) == 1
    place, has_raised = 0, True
    while has_raised:
        place += 1
        cluster.hold()
        try:
            with interrupted_at(place, ("/submitting/deferred.py", "/client/io/")) as places:
                client.submit(abs, first)
        except Cut:
            eventually(lambda: not connection.deferred and not connection.standing()[1], f"place {place}: none is left")
        has_raised = places.has_raised
        cluster.release()
    assert place > 20
