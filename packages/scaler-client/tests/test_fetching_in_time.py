"""A timeout bounds the fetch of a large value too, and what was not fetched in time can be asked for again."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler.client.futures.fetching import StillAtIt
from scaler.client.submitting.deferred import Deferred
from scaler.utility.exceptions import MissingObjects
from scaler_protocol.ids import ObjectId

LARGE = 100_000
SHORT = 0.6


def ended(client: Client) -> concurrent.futures.Future[bytes]:
    """A task whose value lies in the storage."""
    future = client.submit(bytes, LARGE)
    concurrent.futures.wait([future], WAIT)
    return future


@pytest.mark.parametrize("ask", (lambda future: future.result(SHORT), lambda future: future.exception(SHORT)))
def test_a_silent_storage(cluster: FakeCluster, client: Client, ask: Callable[[object], object]) -> None:
    future = ended(client)
    with cluster.silent_storage(), pytest.raises(concurrent.futures.TimeoutError, match="not fetched in time"):
        ask(future)
    assert future.result(WAIT) == bytes(LARGE), "the end of the time is no result"
    assert future.exception(WAIT) is None


def test_a_thread_that_waits_behind_another(cluster: FakeCluster, client: Client) -> None:
    future = ended(client)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        with cluster.silent_storage():
            first = threads.submit(future.result)
            eventually(lambda: cluster.is_asked, "the first thread fetches the value")
            with pytest.raises(concurrent.futures.TimeoutError, match="not fetched in time"):
                future.result(SHORT)
            assert not first.done()
        assert first.result(WAIT) == bytes(LARGE)
    assert future.result(0) == bytes(LARGE)


def test_no_time_at_all_is_enough_for_a_storage_that_answers(client: Client) -> None:
    assert ended(client).result(0) == bytes(LARGE)


def iterated(client: Client, timeout: float) -> object:
    return list(client.imap(bytes, [LARGE] * 3, timeout=timeout))


@pytest.mark.parametrize(
    "run",
    (
        lambda client, timeout: client.map(bytes, [LARGE] * 3, timeout=timeout),
        lambda client, timeout: client.starmap(bytes, [(LARGE,)] * 3, timeout=timeout),
        iterated,
    ),
    ids=("map", "starmap", "imap"),
)
def test_of_a_map(cluster: FakeCluster, client: Client, run: Callable[[Client, float], object]) -> None:
    assert run(client, WAIT) == [bytes(LARGE)] * 3
    with cluster.silent_storage(), pytest.raises(concurrent.futures.TimeoutError, match="not fetched in time"):
        run(client, SHORT)
    assert run(client, WAIT) == [bytes(LARGE)] * 3


def test_a_value_of_a_map_that_is_lost(cluster: FakeCluster, client: Client) -> None:
    """It is made again, and that is waited for no longer than for the map."""

    def lose() -> None:
        for object_id in [one for one, content in cluster.objects.items() if len(content) > LARGE]:
            del cluster.objects[object_id]
        cluster.is_holding = True

    client.map(bytes, [1])  # its function is stored
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        with cluster.silent_storage():
            mapped = threads.submit(client.map, bytes, [LARGE], timeout=5 * SHORT)
            eventually(lambda: cluster.is_asked, "the value is fetched")
            cluster.do(lose)
        try:
            with pytest.raises(concurrent.futures.TimeoutError, match=r"not fetched in time|its task runs again"):
                mapped.result(WAIT)
        finally:
            cluster.release()


def upper(client: Client) -> concurrent.futures.Future[bytes]:
    return client.submit(bytes.upper, b"a" * LARGE)


def upper_of_a_reference(client: Client) -> concurrent.futures.Future[bytes]:
    return client.submit(bytes.upper, client.send_object(b"a" * LARGE))


@pytest.mark.parametrize("call", (upper, upper_of_a_reference))
def test_what_a_lost_value_takes_is_stored_again_in_time(
    cluster: FakeCluster, client: Client, call: Callable[[Client], concurrent.futures.Future[bytes]]
) -> None:
    future = call(client)
    concurrent.futures.wait([future], WAIT)
    in_vain = pytest.raises(concurrent.futures.TimeoutError, match="not stored again in time")
    with cluster.silent_storage(), losing(client), in_vain:
        future.result(SHORT)
    assert future.result(WAIT) == b"A" * LARGE


def test_a_lost_value_behind_another(cluster: FakeCluster, client: Client) -> None:
    first, second = upper(client), upper(client)
    concurrent.futures.wait([first, second], WAIT)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        with cluster.silent_storage(), losing(client):
            waiting = threads.submit(first.result)
            eventually(lambda: cluster.is_asked, "what the first one takes is being stored again")
            with pytest.raises(concurrent.futures.TimeoutError, match="not fetched in time"):
                second.result(SHORT)
            assert not waiting.done()
        assert waiting.result(WAIT) == b"A" * LARGE
    assert second.result(WAIT) == b"A" * LARGE


@pytest.fixture
def hasty(cluster: FakeCluster) -> Iterator[Client]:
    """Waits no longer than this for anything. Values of other clients are read before they are passed on."""
    with Client(cluster.address, timeout_seconds=SHORT) as hasty:
        hasty.submit(len, b"").result(WAIT)
        yield hasty


def test_of_a_call_that_takes_it(cluster: FakeCluster, client: Client, hasty: Client) -> None:
    future = ended(client)
    with cluster.silent_storage():
        call = hasty.submit(len, future)
        assert isinstance(call.exception(WAIT), concurrent.futures.TimeoutError)
        with pytest.raises(concurrent.futures.TimeoutError, match="not fetched in time"):
            call.result(0)
    assert hasty.submit(len, future).result(WAIT) == LARGE


def test_a_call_waits_for_another_thread_that_fetches_what_it_takes(
    cluster: FakeCluster, client: Client, hasty: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    future, attempts = ended(client), list[object]()
    read = Deferred._read

    def noted(deferred: Deferred, position: int, taken: concurrent.futures.Future[object]) -> None:
        attempts.append(taken)
        read(deferred, position, taken)

    monkeypatch.setattr(Deferred, "_read", noted)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        with cluster.silent_storage():
            fetched = threads.submit(future.result)
            eventually(lambda: cluster.is_asked, "the other thread fetches it")
            call, canceled = hasty.submit(len, future), hasty.submit(len, future)
            eventually(lambda: len(attempts) > 2, "the time is over, and it is read again")
            assert not call.done() and canceled.cancel()
        assert len(fetched.result(WAIT)) == LARGE
    assert call.result(WAIT) == LARGE and canceled.cancelled()


def fail() -> None:
    raise StillAtIt("a task waited for another one")


def test_a_task_may_have_failed_with_such_an_error(client: Client, hasty: Client) -> None:
    assert isinstance(hasty.submit(len, client.submit(fail)).exception(WAIT), StillAtIt)


@contextmanager
def losing(client: Client) -> Iterator[None]:
    """The storage has no value any more."""

    def lost(_object_id: ObjectId, _end_at: float) -> None:
        raise MissingObjects("it is lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client._ready().connection.storage, "get", lost)
        yield
