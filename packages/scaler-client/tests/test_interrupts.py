"""An interrupt of the program's own thread, at any place, costs nothing but what that thread was doing."""

from __future__ import annotations

import concurrent.futures
import gc
import random
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.interrupts import Cut, Places, interrupted_at
from tests.support.waiting import WAIT, eventually

from scaler import Client
from scaler.client.core import canceling as cancels
from scaler.client.submitting import mapping

LARGE = 100_000
"""Bytes that do not ride along."""


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[Client]:
    with Client(cluster.address, timeout_seconds=WAIT, heartbeat_interval_seconds=0.5) as client:
        client.submit(abs, -1).result(WAIT)
        yield client


@pytest.mark.parametrize(("resume", "places"), ((next, 1), (Generator.close, 0)), ids=("next", "closed"))
def test_an_interrupt_of_a_generator_comes_up_where_its_own_code_goes_on(
    resume: Callable[[Generator[int, None, None]], object], places: int
) -> None:
    """The interpreter runs no handler where a generator is closed, or thrown into: its `finally` comes first."""
    has_ended = False

    def generate() -> Generator[int, None, None]:
        nonlocal has_ended
        try:
            yield 1
            yield 2
        finally:
            has_ended = True

    for place in (None, *range(1, places + 1)):
        generator, has_ended = generate(), False
        next(generator)
        with suppress(Cut), interrupted_at(place, (__file__.replace("\\", "/"),)) as counted:
            resume(generator)
        assert counted.count == places and counted.has_raised == bool(place)
        generator.close()
        assert has_ended


def lone_call(client: Client) -> None:
    assert client.submit(abs, -1).result(WAIT) == 1


def two_calls(client: Client) -> None:
    first, second = client.submit(abs, -1), client.submit(abs, -2)
    assert (second.result(WAIT), first.result(WAIT)) == (2, 1)


def a_map(client: Client) -> None:
    assert client.map(abs, range(-40, 0), timeout=WAIT) == list(range(40, 0, -1))


def large_values(client: Client) -> None:
    assert client.submit(bytes, LARGE).result(WAIT) == bytes(LARGE)


def waiting(client: Client) -> None:
    futures = [client.submit(abs, -n) for n in range(4)]
    concurrent.futures.wait(futures, WAIT)
    assert {future.result(WAIT) for future in concurrent.futures.as_completed(futures, WAIT)} == {0, 1, 2, 3}


def canceling(client: Client) -> None:
    client.submit(abs, -1).cancel()


def a_future_for_an_argument(client: Client) -> None:
    assert client.submit(abs, client.submit(abs, -3)).result(WAIT) == 3


PROGRAMS = (lone_call, two_calls, a_map, large_values, waiting, canceling, a_future_for_an_argument)


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_interrupt_costs_only_what_is_interrupted(client: Client, program: Callable[[Client], None]) -> None:
    with interrupted_at(None) as counted:
        program(client)
    chosen = random.Random(program.__name__)
    for _ in range(20):
        interrupted(client, program, chosen.randrange(1, counted.count + 1))


def interrupted(client: Client, program: Callable[[Client], None], place: int) -> None:
    before = client.submit(abs, -7)
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        meanwhile = other.submit(lambda: client.submit(abs, -8).result(WAIT))
        try:
            with interrupted_at(place):
                program(client)
        except Cut:
            pass
        assert meanwhile.result(WAIT) == 8, f"another thread's call, at place {place}"
    assert before.result(WAIT) == 7, f"an earlier call, at place {place}"
    assert client.submit(abs, -9).result(WAIT) == 9, f"a later call, at place {place}"
    in_time(lambda: take_and_let_go(client._ready().connection.lock))


def take_and_let_go(lock: Any) -> None:
    """In one thread: the lock lets in the thread that has it."""
    with lock:
        pass


def in_time(wait: Callable[[], Any]) -> None:
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive()


def test_what_was_interrupted_can_be_asked_again(client: Client) -> None:
    future = client.submit(bytes, LARGE)
    with interrupted_at(None) as counted:
        future.result(WAIT)
    for place in range(1, counted.count, 7):
        future = client.submit(bytes, LARGE)
        try:
            with interrupted_at(place):
                future.result(WAIT)
        except Cut:
            pass
        assert future.result(WAIT) == bytes(LARGE), f"interrupted at place {place}"


def a_large_argument(client: Client) -> None:
    assert client.submit(len, bytes(LARGE)).result(WAIT) == LARGE


def a_large_argument_beside_a_future(client: Client) -> None:
    assert client.submit(divmod, 7, client.submit(abs, -3)).result(WAIT) == (2, 1)
    assert client.submit(bytes.count, bytes(LARGE), client.submit(bytes, 1)).result(WAIT) == LARGE


def a_graph(client: Client) -> None:
    assert client.get({"a": (len, bytes(LARGE))}, ["a"]) == {"a": LARGE}


def a_map_of_large_arguments(client: Client) -> None:
    sizes = [LARGE, 5, LARGE, LARGE]
    assert client.map(len, map(bytes, sizes), timeout=WAIT) == sizes


def a_map_with_large_results(client: Client) -> None:
    assert client.map(bytes, [LARGE, 1, LARGE], timeout=WAIT) == [bytes(LARGE), bytes(1), bytes(LARGE)]


def a_sent_object(client: Client) -> None:
    client.send_object(bytes(LARGE))


def a_sent_object_for_a_call(client: Client) -> None:
    reference = client.send_object(bytes(LARGE))
    assert client.submit(len, reference).result(WAIT) == LARGE
    reference.release()


#: Of the call's own code. What an interrupt does to a turn of the driver below, `test_interrupted_turns` tells.
CALL = ("/client/submitting/", "/client/graph/", "/client/objects/puts.py", "/client/object_reference.py")

STORING = (
    a_large_argument,
    a_large_argument_beside_a_future,
    a_graph,
    a_map_of_large_arguments,
    a_map_with_large_results,
    a_sent_object,
    a_sent_object_for_a_call,
)


@pytest.mark.parametrize("program", STORING)
def test_a_call_that_is_interrupted_leaves_no_object_in_the_storage(
    client: Client, cluster: FakeCluster, program: Callable[[Client], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "FIRST_BATCH", 2)  # each map has several
    with interrupted_at(None, CALL) as counted:
        program(client)
    for place in range(1, counted.count + 1):
        try:
            with interrupted_at(place, CALL):
                program(client)
        except Cut:
            pass
    gc.collect()  # frames that were traced hold each other
    assert client.submit(abs, -9).result(WAIT) == 9
    eventually(lambda: not cluster.values_of(client._ready().connection.peer_id), "nothing is stored")
    assert not client._ready().connection.storage.holdings._in_progress


class Stop(Exception):
    """Ends an iterable."""


def two_items() -> Iterator[int]:
    yield LARGE
    yield LARGE
    raise Stop


#: of what a call does when it ends early
ENDING = ("/client/submitting/", "/client/io/dropping.py")

MOST_PLACES = 40
"""The last ones of a call are those of its end."""


def a_map_that_fails(client: Client, places: Any) -> None:
    with places:
        client.map(bytes, two_items())


def an_imap_that_fails(client: Client, places: Any) -> None:
    with places:
        client.imap(bytes, two_items())


def an_imap_that_is_closed(client: Client, places: Any) -> None:
    results = client.imap(bytes, [LARGE, LARGE])
    with places:
        results.close()


def an_imap_that_is_dropped(client: Client, places: Any) -> None:
    results = client.imap(bytes, [LARGE, LARGE])
    with places:
        del results


def a_stream_that_is_closed(client: Client, places: Any) -> None:
    stream = client.stream(range, 10)
    with places:
        stream.close()


def a_stream_that_is_canceled(client: Client, places: Any) -> None:
    stream = client.stream(range, 10)
    with places:
        stream.cancel()


def a_stream_that_is_dropped(client: Client, places: Any) -> None:
    stream = client.stream(range, 10)
    with places:
        del stream


ENDED_EARLY = (
    a_map_that_fails,
    an_imap_that_fails,
    an_imap_that_is_closed,
    an_imap_that_is_dropped,
    a_stream_that_is_closed,
    a_stream_that_is_canceled,
    a_stream_that_is_dropped,
)


@pytest.fixture
def few_objects() -> Iterator[None]:
    """Collections look at no objects of earlier tests: there is a collection for each place of a call."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("program", ENDED_EARLY)
def test_what_is_interrupted_while_it_ends_early_is_canceled_all_the_same(
    cluster: FakeCluster, program: Callable[[Client, Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt is a second one, or comes up in a destructor, which it ends."""
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    for name in ("LONE_QUIET_SECONDS", "QUIET_SECONDS"):
        monkeypatch.setattr(cancels, name, 0.001)
    with Client(cluster.address, timeout_seconds=WAIT, heartbeat_interval_seconds=0.05) as client:
        connection = client._ready().connection
        client.submit(abs, -1).result(WAIT)
        cluster.hold()

        def ends(place: int | None) -> int:
            count = ended(client, program, place)
            gc.collect()  # frames that were traced hold each other
            eventually(lambda: not (connection.standing()[1] or cluster.held_count()), f"it ends, at place {place}")
            return count

        count = ends(None)
        for place in range(max(1, count - MOST_PLACES), count + 1):
            ends(place)
        assert count > 3
        eventually(lambda: not cluster.values_of(connection.peer_id), "nothing is stored")
        eventually(lambda: not any(opened() for opened in connection.streams.values()), "no stream is counted")
        eventually(lambda: not client._ready().maps, "no map is counted")


def ended(client: Client, program: Callable[[Client, Any], None], place: int | None) -> int:
    """How many places it has."""
    found: list[Places] = []

    @contextmanager
    def cut() -> Iterator[None]:
        with interrupted_at(place, ENDING) as places:
            found.append(places)
            yield

    with suppress(Cut, Stop):
        program(client, cut())
    return found[0].count


@pytest.mark.parametrize("close", (True, False), ids=("closed", "dropped"))
def test_results_that_have_arrived_are_released_all_the_same(
    client: Client, cluster: FakeCluster, close: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.unraisablehook", lambda _: None)
    connection = client._ready().connection

    def iterate(_client: Client, places: Any) -> None:
        results = client.imap(bytes, [LARGE, LARGE])
        eventually(lambda: connection.standing()[1] == 0, "they have arrived")
        with places:
            if close:
                results.close()
            else:
                del results

    for place in range(1, ended(client, iterate, None) + 1):
        ended(client, iterate, place)
    gc.collect()  # frames that were traced hold each other
    eventually(lambda: not cluster.values_of(connection.peer_id), "nothing is stored")
