"""What becomes of tasks that have not ended when a program leaves its client's `with` block."""

from __future__ import annotations

import math
import pickle

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client, ScalerFuture


@pytest.mark.parametrize(("count", "told"), [(1, "canceled 1 task that had"), (3, "canceled 3 tasks that had")])
def test_leaving_says_once_how_many_it_canceled(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, count: int, told: str
) -> None:
    with Client(cluster.address) as client:
        client.submit(abs, -1).result(WAIT)
        cluster.hold()
        futures = [client.submit(abs, number) for number in range(count)]
    assert all(future.cancelled() for future in futures)
    assert [told in record.getMessage() for record in caplog.records] == [True]


def test_nothing_is_said_where_nothing_was_lost(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    with Client(cluster.address) as client:
        client.submit(abs, -1).result(WAIT)
    with pytest.raises(ZeroDivisionError), Client(cluster.address) as client:
        cluster.hold()
        client.submit(abs, -1)
        client.submit(lambda: 1 / 0, 1 // 0)  # an exception says enough
    with Client(cluster.address) as client:
        client.submit(abs, -1)
        client.disconnect()
    with Client(cluster.address) as client:
        client.submit(abs, -1).cancel()  # the program knows, although the cluster may not have answered
    assert caplog.records == []


def test_on_request_it_waits_as_executors_do(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_end = ScalerFuture.wait_for_end

    def released(future: ScalerFuture[int], end_at: float = math.inf) -> None:
        cluster.release()
        wait_for_end(future, end_at)

    monkeypatch.setattr(ScalerFuture, "wait_for_end", released)
    with pytest.raises(ValueError, match='on_exit must be "cancel" or "wait"'):
        Client(cluster.address, on_exit="leave")  # type: ignore[arg-type]
    cluster.hold()
    with Client(cluster.address, on_exit="wait") as client:
        futures = [client.submit(abs, -number) for number in range(3)]
        eventually(lambda: cluster.held_count() == 3, "all are submitted")
        again = pickle.loads(pickle.dumps(client))
        assert again._on_exit == "wait", "also as an argument of a task"
    assert [future.result(0) for future in futures] == [0, 1, 2]
    assert caplog.records == []
