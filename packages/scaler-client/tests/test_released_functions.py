"""Functions and sent objects are freed when nothing needs them any more. (OWN-2)"""

from __future__ import annotations

import concurrent.futures
import copy
import gc
import operator
import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import eventually

from scaler import Client
from scaler.client.objects.functions import RECENT_BYTES, RECENT_FUNCTIONS, StoredFunctions
from scaler.client.objects.garbage import Garbage
from scaler.client.submitting.functions import REMEMBERED_BYTES, REMEMBERED_FUNCTIONS
from scaler.utility.exceptions import MissingObjects
from scaler_protocol import values
from scaler_protocol.ids import ObjectId, content_id

WAIT = 10
KILOBYTES = 20
MOST_FUNCTIONS = RECENT_FUNCTIONS + REMEMBERED_BYTES // (KILOBYTES * 1024)


class Counter:
    """An object whose state changes: each of its bound methods is another function."""

    def __init__(self) -> None:
        self.data = bytes(KILOBYTES * 1024)
        self.count = 0

    def step(self, value: int) -> int:
        return self.count + value


def partials(number: int) -> Callable[[int], int]:
    return partial(operator.add, number)


def large_partials(number: int) -> Callable[[int], Any]:
    return partial(_second, b"%010d" % number * (KILOBYTES * 100))


def closures(number: int) -> Callable[[int], int]:
    data = b"%010d" % number * (KILOBYTES * 100)
    return lambda value: value + len(data)


def bound_methods(number: int) -> Callable[[int], int]:
    counter = Counter()
    counter.count = number
    return counter.step


def _second(_: Any, value: Any) -> Any:
    return value


def stored(cluster: FakeCluster, function: Any) -> bool:
    return content_id(bytes(values.join(values.dumps(function)))) in cluster.objects


@pytest.mark.parametrize("make", [partials, large_partials, closures, bound_methods])
def test_functions_that_are_used_once_do_not_pile_up(client: Client, cluster: FakeCluster, make: Any) -> None:
    for begin in range(0, 1500, 100):
        futures = [client.submit(make(number), 1) for number in range(begin, begin + 100)]
        concurrent.futures.wait(futures, WAIT)
    assert futures[-1].result(WAIT) is not None
    del futures
    most = REMEMBERED_FUNCTIONS + RECENT_FUNCTIONS if make is partials else MOST_FUNCTIONS
    eventually(lambda: len(cluster.objects) <= most, "the objects are released")
    storage = client._ready().connection.storage
    assert len(storage.holdings.all()) <= most and storage.holdings.kept_bytes <= REMEMBERED_BYTES + RECENT_BYTES
    eventually(lambda: len(storage.holdings.all()) == len(cluster.objects), "both know the same objects")


def test_a_function_stays_while_a_task_needs_it(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    function = bound_methods(7)
    future = client.submit(function, 1)
    for number in range(3 * RECENT_FUNCTIONS):
        client.submit(bound_methods(1000 + number), 1)
    assert stored(cluster, function)
    cluster.release()
    assert future.result(WAIT) == 8
    eventually(lambda: not stored(cluster, function), "the function is released")


def test_a_function_stays_while_a_call_waits_for_its_arguments(client: Client, cluster: FakeCluster) -> None:
    argument: concurrent.futures.Future[int] = concurrent.futures.Future()
    function = bound_methods(7)
    future = client.submit(function, argument)
    _use_others(client)
    assert stored(cluster, function)
    argument.set_result(1)
    assert future.result(WAIT) == 8
    _use_others(client)
    eventually(lambda: not stored(cluster, function), "the function is released")


def test_a_function_stays_while_a_map_or_a_graph_needs_it(client: Client, cluster: FakeCluster) -> None:
    for run in (_map_run, _graph_run):
        function = bound_methods(7)
        cluster.hold()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(run, client, function)
            eventually(lambda: cluster.held_count() > 0, "the tasks are there")
            for number in range(2 * RECENT_FUNCTIONS):
                client.submit(bound_methods(1000 + number), 1)
            assert stored(cluster, function), run
            cluster.release()
            assert running.result(WAIT) == [8, 9]
        _use_others(client)
        eventually(lambda: not stored(cluster, function), "the function is released")  # noqa: B023


def _map_run(client: Client, function: Any) -> list[int]:
    return client.map(function, [1, 2])


def _graph_run(client: Client, function: Any) -> list[int]:
    return list(client.get({"a": (function, 1), "b": (function, 2)}, ["a", "b"]).values())


def _use_others(client: Client) -> None:
    for number in range(2 * RECENT_FUNCTIONS):
        assert client.submit(bound_methods(1000 + number), 1).result(WAIT) == 1001 + number


def test_the_same_function_is_not_sent_again_and_again(client: Client, cluster: FakeCluster) -> None:
    """Also one that cannot be remembered, and one that is made anew each time."""
    connection = client._ready().connection
    puts: list[ObjectId] = []
    put = connection.storage.functions._put
    connection.storage.functions._put = lambda object_id, pieces: (puts.append(object_id), put(object_id, pieces))[1]
    counter = Counter()
    for _ in range(30):
        assert client.submit(counter.step, 1).result(WAIT) == 1
        assert client.submit(lambda value: value * 2, 4).result(WAIT) == 8
        connection.post(is_batch=True)  # whatever is garbage is released
    assert len(puts) == 2


# ---------------------------------------------------------------- functions that go along


def test_a_small_function_that_is_used_once_goes_with_its_call(client: Client, cluster: FakeCluster) -> None:
    """All of one name take one object; a name each, because people look at what runs."""
    for number in range(200):
        offset = b"%05d" % number
        assert client.submit(framing(offset), b"x", end=b"y").result(WAIT) == offset + b"xy"
        assert client.submit(partial(_second, number), value=3).result(WAIT) == 3
    assert len(cluster.objects) == 2
    names = client._ready().connection._core._names
    assert sorted(names._known.values()) == ["_second", "framing.<locals>.<lambda>"]


def framing(begin: bytes) -> Callable[..., bytes]:
    return lambda value, end=b"": begin + value + end


def test_what_is_used_again_is_stored(client: Client, cluster: FakeCluster) -> None:
    """By identity where it can be remembered, else by content."""
    constant, changing = partial(operator.add, 7), partial(operator.add, [7])
    for function, argument in ((constant, 1), (changing, [1])):
        assert not stored(cluster, function)
        assert client.submit(function, argument).result(WAIT)
        assert not stored(cluster, function)
        assert client.submit(function, argument).result(WAIT)
        assert stored(cluster, function)
    assert client.map(partial(operator.add, 8), [1, 2]) == [9, 10]
    assert stored(cluster, partial(operator.add, 8)), "a map has many tasks"


def test_what_goes_along_takes_futures_and_references(client: Client, cluster: FakeCluster) -> None:
    reference = client.send_object([1, 2])
    future = client.submit(abs, -1)
    function = partial(lambda offset, values, index, more: values[index] + offset + more, 10)
    assert client.submit(function, reference, future, more=0).result(WAIT) == 12
    assert not stored(cluster, function)


def test_an_argument_is_named_by_its_place(client: Client) -> None:
    with pytest.raises(TypeError, match="argument 2"):
        client.submit(partial(operator.add, 1), 1, threading.Lock())


# ---------------------------------------------------------------- the store of functions


def test_what_is_wanted_again_is_not_released() -> None:
    """Its release may be on the way when the same content is put again."""
    held: set[ObjectId] = set()
    garbage = Garbage()
    functions = StoredFunctions(lambda object_id, _: held.add(object_id), garbage)

    def forget_recent() -> None:
        for number in range(2 * RECENT_FUNCTIONS):
            functions.put([b"another %d" % number], has_code=False)

    function, is_new = functions.put([b"a function"], has_code=True)
    object_id = function.object_id
    forget_recent()
    assert is_new and object_id not in garbage.collect()
    del function
    assert object_id in garbage.collect(), "nothing refers to it"
    again, is_new = functions.put([b"a function"], has_code=True)
    assert is_new and functions.unwanted([object_id]) == []
    forget_recent()
    del again
    assert object_id in garbage.collect() and functions.unwanted([object_id]) == [object_id]


def test_a_function_whose_put_fails_is_put_again() -> None:
    attempts: list[ObjectId] = []

    def put(object_id: ObjectId, _: Any) -> None:
        attempts.append(object_id)
        if len(attempts) == 1:
            raise MissingObjects("no storage")

    functions = StoredFunctions(put, Garbage())
    with pytest.raises(MissingObjects):
        functions.put([b"a function"], has_code=False)
    assert functions.put([b"a function"], has_code=False)[1] and len(attempts) == 2


def test_of_several_threads_one_stores_a_function() -> None:
    """If two did, and one of them was interrupted, that one would give up what the other has stored."""
    puts: list[ObjectId] = []
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        others: list[concurrent.futures.Future[Any]] = []

        def put(object_id: ObjectId, _: Any) -> None:
            puts.append(object_id)
            if len(puts) == 1:
                others.append(threads.submit(functions.put, [b"a function"], has_code=False))
                is_free = threads.submit(functions._wanted[object_id].putting.acquire, blocking=False)
                assert not is_free.result(WAIT), "another thread waits for this one"

        functions = StoredFunctions(put, Garbage())
        stored = functions.put([b"a function"], has_code=False)
        (other,) = others
        assert stored == (other.result(WAIT)[0], True) and other.result()[1] is False
    assert len(puts) == 1


# ---------------------------------------------------------------- references


def test_an_object_is_freed_when_its_reference_is_dropped(client: Client, cluster: FakeCluster) -> None:
    references = [client.send_object(bytes(1000)) for _ in range(3)]
    assert len(cluster.objects) == 3
    assert client.submit(len, references[0]).result(WAIT) == 1000
    count = len(cluster.objects)
    del references[1:]
    eventually(lambda: len(cluster.objects) == count - 2, "the objects are released")
    references.clear()
    eventually(lambda: len(cluster.objects) == count - 3, "the objects are released")


def test_an_object_stays_while_a_task_takes_it(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    argument: concurrent.futures.Future[int] = concurrent.futures.Future()
    reference = client.send_object([1, 2, 3])
    futures = [
        client.submit(operator.getitem, reference, 1),
        client.submit(operator.getitem, reference, argument),
        client.get({"node": (operator.getitem, reference, 2)}, "node", block=False),
    ]
    object_id = reference.object_id
    reference.release()
    del reference
    gc.collect()
    client._ready().connection.post(is_batch=True)
    assert object_id in cluster.objects
    argument.set_result(0)
    eventually(lambda: cluster.held_count() == 3, "the tasks are there")
    assert object_id in cluster.objects
    cluster.release()
    assert [future.result(WAIT) for future in futures] == [2, 1, 3]
    eventually(lambda: object_id not in cluster.objects, "the objects are released")


def test_a_map_over_references(client: Client, cluster: FakeCluster) -> None:
    assert client.map(len, [client.send_object("ab"), client.send_object("abc")]) == [2, 3]
    eventually(lambda: len(cluster.objects) <= 1, "the objects are released")


def test_a_reference_inside_of_an_argument_comes_back(client: Client, cluster: FakeCluster) -> None:
    """Where it is in a container it is no argument of its own, but its object stays while the task has not ended."""
    cluster.hold()
    reference = client.send_object([1, 2, 3])
    object_id = reference.object_id
    future = client.submit(list, [reference])
    del reference
    client._ready().connection.post(is_batch=True)
    assert object_id in cluster.objects
    cluster.release()
    (back,) = future.result(WAIT)
    del future
    with pytest.raises(MissingObjects, match="is gone"):
        client.submit(len, back)
    eventually(lambda: object_id not in cluster.objects, "the objects are released")


def test_copies_share_the_object(client: Client, cluster: FakeCluster) -> None:
    for copied in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        reference = client.send_object([1, 2, 3], name="three")
        other = copied(reference)  # type: ignore[no-untyped-call]
        assert other == reference and hash(other) == hash(reference) and repr(other) == repr(reference)
        del reference
        assert client.submit(len, other).result(WAIT) == 3
        other.release()
    eventually(lambda: len(cluster.objects) <= 1, "the objects are released")


def test_a_released_reference_says_so(client: Client, cluster: FakeCluster) -> None:
    reference = client.send_object([1, 2, 3], name="three")
    before, object_id = pickle.dumps(reference), reference.object_id
    reference.release()
    reference.release()
    uses: list[Callable[[Any], object]] = [
        lambda one: client.submit(len, one),
        lambda one: client.map(len, [one]),
        lambda one: client.get({"a": (len, one)}, "a"),
        lambda one: client.submit(len, copy.copy(one)),
    ]
    for use in uses:
        with pytest.raises(MissingObjects, match=r"'three'.*it was released"):
            use(reference)
    del reference
    with pytest.raises(MissingObjects, match=r"'three'.*is gone"):
        client.submit(len, pickle.loads(before))
    eventually(lambda: object_id not in cluster.objects, "the objects are released")


def test_clear_invalidates_references(client: Client, cluster: FakeCluster) -> None:
    reference = client.send_object([1])
    client.clear()
    with pytest.raises(MissingObjects, match="it was cleared"):
        client.submit(len, reference)
    eventually(lambda: reference.object_id not in cluster.objects, "the objects are released")


def test_a_reference_of_another_client(client: Client, cluster: FakeCluster) -> None:
    with Client(cluster.address) as other:
        reference = other.send_object([1])
        with pytest.raises(MissingObjects, match="another client"):
            client.submit(len, reference)
    with pytest.raises(MissingObjects):
        client.submit(len, reference)
    del reference, other
