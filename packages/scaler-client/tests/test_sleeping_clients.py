"""A client that was silent for longer than its lease, and a storage that was restarted. (CLI-8, CLI-13)

The storage has released all that the client owned before the client hears of it: its next call waits for its new
session and goes on, and what it still needs comes back, as far as it was kept.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.interrupts import Cut, interrupted_at
from tests.support.waiting import WAIT, eventually

from scaler import Client, ScalerFuture
from scaler.utility.exceptions import MissingObjects, ObjectStorageException
from scaler_protocol.columns import split_ids

LARGE = bytes(100_000)


def asleep(cluster: FakeCluster, client: Client, call: Callable[[], Any]) -> Any:
    """The result of a call that begins before the client has heard that it was lost."""
    cluster.release_owners()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call)
        storage = client._ready().connection.storage
        with pytest.raises(concurrent.futures.TimeoutError):
            waiting.result(0.2)
        assert storage.holdings is not None
        cluster.lose_clients()
        return waiting.result(WAIT)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.submit(len, LARGE).result(WAIT) == 100_000,
        lambda client: client.map(len, [LARGE] * 40) == [100_000] * 40,
        lambda client: client.get({"a": (len, LARGE), "b": (abs, "a")}, keys=["b"])["b"] == 100_000,
        lambda client: client.submit(len, client.send_object(LARGE)).result(WAIT) == 100_000,
        lambda client: client.submit(lambda: 5).result(WAIT) == 5,
        lambda client: client.submit(numpy.sum, numpy.ones(20_000)).result(WAIT) == 20_000,
    ],
    ids=["submit", "map", "graph", "send_object", "new_function", "array"],
)
def test_the_next_call_waits_for_the_new_session(
    client: Client, cluster: FakeCluster, call: Callable[[Client], bool]
) -> None:
    assert client.submit(abs, -1).result(WAIT) == 1
    assert asleep(cluster, client, lambda: call(client))


def test_it_waits_for_as_long_as_the_program_wants(cluster: FakeCluster) -> None:
    with Client(cluster.address, timeout_seconds=0.5) as client:
        assert client.submit(abs, -1).result(WAIT) == 1
        cluster.release_owners()
        with pytest.raises(ObjectStorageException, match="has left"):
            client.submit(len, LARGE)


def test_leaving_ends_the_wait(cluster: FakeCluster) -> None:
    client = Client(cluster.address, timeout_seconds=60)
    assert client.submit(abs, -1).result(WAIT) == 1
    cluster.release_owners()
    failures: list[BaseException] = []

    def put() -> None:
        try:
            client.send_object(LARGE)
        except ObjectStorageException as error:
            failures.append(error)

    thread = threading.Thread(target=put)
    thread.start()
    client.disconnect()
    thread.join(WAIT)
    assert not thread.is_alive() and len(failures) == 1


def test_a_running_map_of_large_arguments_goes_on(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        mapped = pool.submit(client.map, len, [bytes(100_000 + number) for number in range(60)])
        eventually(lambda: cluster.held_count() >= 16, "some of it is at work")
        cluster.release_owners()
        cluster.lose_clients()
        cluster.release()
        assert mapped.result(WAIT) == [100_000 + number for number in range(60)]


@pytest.mark.parametrize("lose", ["the client", "the storage"])
def test_results_that_were_not_fetched_are_made_again(client: Client, cluster: FakeCluster, lose: str) -> None:
    """Each task once more, all side by side, and only when the program asks for a value."""
    futures = [client.submit(bytes, 100_000 + number) for number in range(5)]
    futures += [client.submit(bytes, LARGE + bytes([number])) for number in range(3)]
    eventually(lambda: all(future.done() for future in futures), "all have ended")
    if lose == "the client":
        cluster.release_owners()
        cluster.lose_clients()
        eventually(cluster.has_clients, "it has joined as another peer: what it submits before, it submits again")
    else:
        cluster.restart_storage()
    ran = sum(len(submit.ids) // 16 for submit in cluster.submits)
    values = [future.result(WAIT) for future in futures]
    assert [len(value) for value in values] == [*range(100_000, 100_005), *[100_001] * 3]
    assert values[-1] == LARGE + bytes([2])
    assert sum(len(submit.ids) // 16 for submit in cluster.submits) - ran == len(futures)
    futures.clear()
    eventually(lambda: len(cluster.objects) <= 1, "nothing but the function is left in the storage")


@pytest.mark.parametrize(
    "begin",
    [
        lambda client: client.submit(bytes, 100_000),
        lambda client: client.get({"a": (abs, -100_000), "b": (bytes, "a")}, ["b"], block=False)["b"],
    ],
    ids=["call", "graph"],
)
def test_a_value_that_is_made_again_is_not_lost_by_an_interrupt(
    client: Client, cluster: FakeCluster, begin: Callable[[Client], ScalerFuture[bytes]]
) -> None:
    connection = client._ready().connection
    place, has_raised = 0, True
    while has_raised:
        place += 1
        future = begin(client)
        eventually(future.done, "it has ended")
        peer_id = connection.peer_id
        for object_id in cluster.values_of(peer_id):
            cluster.do(partial(cluster.objects.pop, object_id, None))  # quicker than a restart of the storage
        ran = [one for submit in cluster.submits for one in split_ids(submit.ids)]
        try:
            with interrupted_at(place, ("/objects/remaking.py", "/io/connection.py", "/io/ends.py")) as places:
                future.result(WAIT)
        except Cut:
            pass
        has_raised = places.has_raised
        assert future.result(WAIT) == LARGE, f"interrupted at place {place}"
        again = [one for submit in cluster.submits for one in split_ids(submit.ids)][len(ran) :]
        # A turn that was interrupted begins again with all that is unfinished, under another name.
        if connection.peer_id == peer_id:
            assert len(again) == len(set(again)), f"interrupted at place {place}: it was sent twice"


def test_one_that_takes_another_lost_result_is_made_after_it(client: Client, cluster: FakeCluster) -> None:
    first = client.submit(bytes, 100_000)
    second = client.submit(bytes, first)
    eventually(second.done, "both have ended")
    cluster.restart_storage()
    assert len(second.result(WAIT)) == 100_000


def test_a_call_that_takes_a_lost_result(client: Client, cluster: FakeCluster) -> None:
    first = client.submit(bytes, 100_000)
    eventually(first.done, "it has ended")
    cluster.restart_storage()
    connection = client._ready().connection
    eventually(lambda: connection.storage.is_lost(first._outcomes.payload), "the loss is known")  # type: ignore[union-attr]
    assert client.submit(len, first).result(WAIT) == 100_000


def test_what_is_not_made_again_in_time_is_a_timeout_and_no_verdict(client: Client, cluster: FakeCluster) -> None:
    future = client.submit(bytes, 100_000)
    eventually(future.done, "it has ended")
    cluster.restart_storage()
    cluster.hold()

    def reason() -> str:
        with pytest.raises(concurrent.futures.TimeoutError) as caught:
            future.result(0.2)
        return str(caught.value)

    # The connection to the new storage may take longer than one of these waits; each goes on where the last one ended.
    eventually(lambda: "runs again" in reason(), "the loss is known, and the task runs again")
    with pytest.raises(concurrent.futures.TimeoutError):
        future.exception(0.1)
    cluster.release()
    assert len(future.result(WAIT)) == 100_000


def test_a_second_run_that_fails_fails_the_future(client: Client, cluster: FakeCluster) -> None:
    import builtins

    builtins.once_seen = []  # type: ignore[attr-defined]

    def counted() -> bytes:
        import builtins

        seen = builtins.once_seen  # type: ignore[attr-defined]
        seen.append(1)
        if len(seen) > 1:
            raise RuntimeError("not again")
        return bytes(100_000)

    future = client.submit(counted)
    eventually(future.done, "it has ended")
    cluster.restart_storage()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not again"):
            future.result(WAIT)


def test_references_come_back_or_say_so_at_once(client: Client, cluster: FakeCluster) -> None:
    kept = client.send_object(LARGE)
    array = client.send_object(numpy.ones(20_000))
    cluster.hold()
    waiting = client.submit(len, array)
    eventually(lambda: cluster.held_count() == 1, "it is at work")
    cluster.release_owners()
    cluster.lose_clients()
    with pytest.raises(MissingObjects, match="send it again"):
        waiting.result(WAIT)
    eventually(lambda: cluster.held_count() == 0, "it is canceled")
    cluster.release()
    assert client.submit(len, kept).result(WAIT) == 100_000
    with pytest.raises(MissingObjects, match="send it again"):
        client.submit(len, array)
    assert client.submit(len, client.send_object(numpy.ones(20_000))).result(WAIT) == 20_000


def test_the_old_name_owns_nothing_afterwards(client: Client, cluster: FakeCluster) -> None:
    """As after a restart of the scheduler, which releases no owner."""
    connection = client._ready().connection
    references = [client.send_object(bytes(100_000 + number)) for number in range(200)]
    old = connection.peer_id
    cluster.lose_clients()
    eventually(lambda: connection.peer_id != old, "it begins again")
    new = connection.peer_id
    eventually(
        lambda: all(cluster.owners_of(one.object_id) == {new} for one in references), "all of it has the new owner"
    )
