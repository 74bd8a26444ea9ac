"""Futures as arguments of further calls, against a fake cluster on the real wire."""

from __future__ import annotations

import concurrent.futures
import gc
import operator
import pickle
import threading
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client, Serializer
from scaler.client.serializer.default import DefaultSerializer
from scaler.utility.exceptions import ClientQuitException, RemoteTraceback
from scaler_protocol import codes, values


def fail(message: str) -> None:
    raise KeyError(message)


def echo(*arguments: Any, **keywords: Any) -> Any:
    return arguments, keywords


class Unreadable:
    """Reads in the cluster, which is this process here, only while the test says so."""

    may_be_read = True

    def __setstate__(self, state: Any) -> None:
        assert Unreadable.may_be_read, "nobody but the worker needs to read this"

    def __getstate__(self) -> Any:
        return {"something": 1}


def test_pending_and_finished_futures_stand_for_their_values(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    pending = client.submit(abs, -3)
    sums = client.submit(operator.add, pending, pending)
    by_name = client.submit_verbose(echo, (pending, "x"), {"k": sums})
    assert not sums.done() and sums.running()
    cluster.is_holding = False
    cluster.release()
    assert by_name.result(WAIT) == ((3, "x"), {"k": 6})
    assert client.submit(operator.neg, sums).result(WAIT) == -6, "one whose result nobody has asked for yet"
    assert sums.result(WAIT) == 6
    assert client.submit(operator.neg, sums).result(WAIT) == -6, "one whose result was read before"


def test_values_are_forwarded_unread(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    made = client.submit(Unreadable)
    concurrent.futures.wait([made], WAIT)
    loaded: list[Any] = []
    monkeypatch.setattr("scaler.client.submitting.parts.values", _counting(loaded))
    assert client.submit(type, made).result(WAIT) is Unreadable
    assert len(loaded) == 1, "only the final result was read here"


def _counting(loaded: list[Any]) -> Any:
    class Counting:
        @staticmethod
        def loads(data: Any) -> Any:
            loaded.append(data)
            return values.loads(data)

    return Counting


def test_a_large_value_stays_in_the_storage_as_long_as_it_is_needed(client: Client, cluster: FakeCluster) -> None:
    large = client.submit(bytes, 3_000_000)
    concurrent.futures.wait([large], WAIT)
    (object_id,) = [one for one, data in cluster.objects.items() if len(data) > 1_000_000]
    cluster.hold()
    length = client.submit(len, large)
    assert len(large.result(WAIT)) == 3_000_000
    del large
    eventually(lambda: cluster.held_count() == 1, "the second task is there")
    assert cluster.submits[-1].part_kinds == bytes((codes.KIND_INLINE, codes.KIND_OBJECT))
    assert object_id in cluster.objects
    cluster.release()
    assert length.result(WAIT) == 3_000_000
    eventually(lambda: object_id not in cluster.objects, "nobody needs it any more")


def test_many_values_that_are_large_together_are_stored(client: Client) -> None:
    pieces = [client.submit(bytes, 60_000) for _ in range(30)]
    assert sum(map(len, client.submit(echo, *pieces).result(WAIT)[0])) == 1_800_000


@pytest.mark.parametrize("size", [20_000, 200_000])
def test_a_call_has_its_other_arguments_as_they_were(client: Client, cluster: FakeCluster, size: int) -> None:
    cluster.hold()
    pending = client.submit(abs, -1)
    data = bytearray(b"a" * size)
    later = client.submit(operator.getitem, pickle.PickleBuffer(data), pending)
    never = client.submit(operator.getitem, pickle.PickleBuffer(data), client.submit(abs, -1))
    data[:] = b"b" * size
    assert never.cancel()
    cluster.is_holding = False
    cluster.release()
    assert later.result(WAIT) == ord("a")
    assert client.submit(abs, -1).result(WAIT) == 1
    eventually(lambda: all(len(one) < 1000 for one in list(cluster.objects.values())), "what was stored is released")


def test_a_failure_ends_what_depends_on_it_with_the_same_error(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    failing = client.submit(fail, "gone")
    children = [client.submit(abs, failing)]
    for _ in range(3000):
        children.append(client.submit(abs, children[-1]))
    cluster.is_holding = False
    cluster.release()
    for child in (children[0], children[-1], client.submit(abs, failing)):
        error = child.exception(WAIT)
        assert isinstance(error, KeyError) and error.args == ("gone",)
        assert isinstance(error.__cause__, RemoteTraceback) and "in fail" in str(error.__cause__)
    assert isinstance(failing.exception(WAIT), KeyError)
    assert isinstance(client.submit(abs, failing).exception(WAIT), KeyError), "also after it was read"


def test_canceling_goes_down_and_not_up(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    first = client.submit(abs, -1)
    second = client.submit(abs, first)
    third = client.submit(abs, second)
    assert second.cancel() and second.cancelled()
    assert third.cancelled() and not first.done()
    fourth = client.submit(abs, first)
    assert first.cancel()
    assert fourth.cancelled() and client.submit(abs, first).cancelled()
    assert not client._ready().connection.deferred


def test_a_future_that_was_submitted_after_waiting_can_be_canceled(client: Client, cluster: FakeCluster) -> None:
    first = client.submit(abs, -1)
    assert first.result(WAIT) == 1
    cluster.hold()
    held = client.submit(abs, first)
    eventually(lambda: cluster.held_count() == 1, "it is with the cluster")
    assert held.cancel() and held.cancelled()


def test_clear_and_disconnect_end_what_waits(cluster: FakeCluster) -> None:
    never: concurrent.futures.Future[int] = concurrent.futures.Future()
    client = Client(cluster.address)
    cluster.hold()
    waiting = [client.submit(abs, never), client.submit(abs, client.submit(abs, 1))]
    client.clear()
    assert all(one.cancelled() for one in waiting)
    waiting = [client.submit(abs, never), client.submit(abs, client.submit(abs, 1))]
    client.disconnect()
    assert all(one.cancelled() for one in waiting)
    with pytest.raises(ClientQuitException):
        client.submit(abs, never)


def test_an_executors_shutdown_waits_for_what_waits(cluster: FakeCluster) -> None:
    client = Client(cluster.address)
    cluster.hold()
    last = client.submit(abs, client.submit(abs, client.submit(abs, -1)))
    over = threading.Thread(target=client.shutdown, args=(True,))
    over.start()
    cluster.is_holding = False
    cluster.release()
    over.join(WAIT)
    assert not over.is_alive() and last.result(0) == 1


def test_futures_of_other_executors_and_clients(client: Client, cluster: FakeCluster) -> None:
    begin = threading.Event()

    def wait_and_answer() -> int:
        assert begin.wait(WAIT)
        return -5

    with concurrent.futures.ThreadPoolExecutor(1) as pool, Client(cluster.address) as other:
        theirs = pool.submit(wait_and_answer)
        mine = client.submit(abs, theirs)
        assert not mine.done()
        begin.set()
        assert mine.result(WAIT) == 5
        assert client.submit(operator.add, mine, other.submit(abs, -2)).result(WAIT) == 7
        failing = client.submit(abs, pool.submit(fail, "theirs"))
        assert isinstance(failing.exception(WAIT), KeyError)
        unserializable = client.submit(type, pool.submit(threading.Lock))
        with pytest.raises(TypeError, match="pickle"):
            unserializable.result(WAIT)
        foreign = client.submit(abs, other.submit(fail, "other"))
        assert isinstance(foreign.exception(WAIT), KeyError)


class Tagged(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return b"T" + DefaultSerializer.serialize(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        assert type(payload) is bytes and payload[:1] == b"T"
        return DefaultSerializer.deserialize(payload[1:])


def test_futures_of_a_client_with_another_serializer(client: Client, cluster: FakeCluster) -> None:
    with Client(cluster.address, serializer=Tagged()) as other:
        own = other.submit_verbose(echo, (1,), {"k": 2})
        both = client.submit(echo, own, k=other.submit(abs, -1))
        assert both.result(WAIT)[0] == (((1,), {"k": 2}),)


def test_items_of_a_map_may_be_futures(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    futures = [client.submit(abs, -number) for number in range(5)]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        mapped = pool.submit(client.map, operator.add, futures, [10] * 5)
        eventually(lambda: len(client._ready().connection.deferred) == 5, "the items wait")
        cluster.is_holding = False
        cluster.release()
        assert mapped.result(WAIT) == [10, 11, 12, 13, 14]
    with pytest.raises(KeyError, match="inner"):
        client.starmap(operator.add, [(client.submit(fail, "inner"), 1), (1, 2)])
    assert client.starmap(operator.add, [(futures[3], 1), (1, 2)]) == [4, 3]


def test_a_map_that_times_out_leaves_nothing_behind(client: Client, cluster: FakeCluster) -> None:
    never: concurrent.futures.Future[int] = concurrent.futures.Future()
    with pytest.raises(concurrent.futures.TimeoutError):
        client.map(abs, [never], timeout=0.01)
    assert not client._ready().connection.deferred


def test_an_imap_that_is_dropped_cancels_what_waits_too(client: Client, cluster: FakeCluster) -> None:
    never: concurrent.futures.Future[int] = concurrent.futures.Future()
    cluster.hold()
    results = client.imap(abs, [-1, never, -2, never])
    deferred = client._ready().connection.deferred
    eventually(lambda: cluster.held_count() == 2 and len(deferred) == 2, "two are with the cluster, and two wait")
    del results
    gc.collect()
    eventually(lambda: not cluster.held_count() and not deferred, "all are canceled")


def test_a_future_inside_of_something_says_what_to_do(client: Client) -> None:
    future = client.submit(abs, -1)
    with pytest.raises(TypeError, match="an argument of its own"):
        client.submit(len, [future])
    with pytest.raises(TypeError, match="an argument of its own"):
        pickle.dumps(future)


def test_the_io_thread_never_waits_for_the_storage(client: Client, cluster: FakeCluster, monkeypatch: Any) -> None:
    """The last value may come in the IO thread, which holds the connection's lock; 100 kB have to be stored first."""
    storage = client._ready().connection.storage
    start_put, threads = storage.start_put, []

    def noted(object_id: Any, pieces: Any) -> Any:
        threads.append(threading.current_thread().name)
        return start_put(object_id, pieces)

    monkeypatch.setattr(storage, "start_put", noted)
    ready: concurrent.futures.Future[bytes] = concurrent.futures.Future()
    ready.set_result(bytes(100_000))
    cluster.hold()
    own = client.submit(abs, -1)
    both = client.submit(lambda data, number: len(data) + number, ready, own)
    eventually(lambda: cluster.held_count() == 1, "the cluster has the first")
    cluster.release()
    assert both.result(WAIT) == 100_001
    assert threads and not set(threads) & {"scaler-client", threading.current_thread().name}
