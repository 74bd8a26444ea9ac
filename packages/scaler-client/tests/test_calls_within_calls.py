"""A signal handler, or a destructor, uses the client at any place of another call of the same thread.

Law: the call within returns in time, or raises that it would wait for itself, and the call around it is right.
"""

from __future__ import annotations

import concurrent.futures
import gc
import itertools
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.interrupts import interrupted_at
from tests.support.waiting import WAIT, eventually

from scaler import Client

LARGE = 100_000
"""Bytes that do not ride along."""
PLACES = 10
"""The number of places tried for each pair of calls. Other pairs have other places."""
NAMES = itertools.count()


def a_lone_call(client: Client) -> None:
    assert client.submit(abs, -1).result(WAIT) == 1


def a_large_result(client: Client) -> None:
    assert client.submit(bytes, LARGE).result(WAIT) == bytes(LARGE)


def a_new_function(client: Client) -> None:
    number = next(NAMES)
    assert client.submit(lambda: number).result(WAIT) == number


def a_large_argument(client: Client) -> None:
    assert client.submit(len, bytes(LARGE)).result(WAIT) == LARGE


def a_map(client: Client) -> None:
    assert client.map(len, [bytes(LARGE), b"1", bytes(LARGE)], timeout=WAIT) == [LARGE, 1, LARGE]


def an_imap(client: Client) -> None:
    assert list(client.imap(abs, range(-3, 0), timeout=WAIT)) == [3, 2, 1]


def a_graph(client: Client) -> None:
    assert client.get({"a": (bytes, LARGE), "b": (len, "a")}, ["a", "b"]) == {"a": bytes(LARGE), "b": LARGE}


def a_sent_object(client: Client) -> None:
    reference = client.send_object(bytes(LARGE))
    assert client.submit(len, reference).result(WAIT) == LARGE
    reference.release()


def a_canceled_call(client: Client) -> None:
    future = client.submit(bytes, LARGE)
    future.cancel()
    concurrent.futures.wait([future], WAIT)


CALLS = (a_lone_call, a_large_result, a_new_function, a_large_argument, a_map, an_imap, a_graph, a_sent_object)
OUTER = (*CALLS, a_canceled_call)


def submitted(client: Client) -> None:
    """Submits a call without keeping its future, as handles of remote things do when they go."""
    number = next(NAMES)
    client.submit(lambda _: number, bytes(LARGE))


def sent(client: Client) -> None:
    client.send_object(bytes(LARGE))


def asked(client: Client) -> None:
    assert client.submit(len, bytes(LARGE)).result(WAIT) == LARGE


def asked_of_others(client: Client) -> None:
    assert client.map(abs, range(-3, 0), timeout=WAIT) == [3, 2, 1]


def left_in_the_middle(client: Client) -> None:
    next(client.imap(bytes, [LARGE, LARGE], timeout=WAIT))


def a_graph_that_is_dropped(client: Client) -> None:
    client.get({"a": (bytes, LARGE)}, ["a"], block=False)


def shown(client: Client) -> None:
    assert repr(client)


INNER = (submitted, sent, asked, asked_of_others, left_in_the_middle, a_graph_that_is_dropped, shown)


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[Client]:
    with Client(cluster.address, timeout_seconds=WAIT, heartbeat_interval_seconds=0.5) as client:
        for program in OUTER:
            program(client)
        yield client


def in_time(act: Callable[[], object], what: str) -> None:
    """In a thread of its own, which may hang."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(2 * WAIT)
    assert not thread.is_alive(), f"{what} hangs"
    if raised:
        raise AssertionError(what) from raised[0]


def within(client: Client, outer: Callable[[Client], None], inner: Callable[[Client], None], place: int | None) -> int:
    def handler() -> None:
        try:
            inner(client)
        except RuntimeError as error:
            assert "this would wait for ever" in str(error)

    with interrupted_at(place, handler=handler) as places:
        outer(client)
    return places.count


@pytest.mark.parametrize("outer", OUTER)
def test_a_call_within_a_call(client: Client, cluster: FakeCluster, outer: Callable[[Client], None]) -> None:
    count = within(client, outer, shown, None)
    for number, inner in enumerate(INNER):
        step = max(1, count // PLACES)
        for place in range(1 + number * step // len(INNER), count, step):
            what = f"{inner.__name__} at place {place}"
            in_time(lambda inner=inner, place=place: within(client, outer, inner, place), what)
    gc.collect()  # frames that were traced hold each other
    assert client.submit(abs, -9).result(WAIT) == 9
    eventually(lambda: not cluster.values_of(client.identity), "nothing is stored")


def test_a_call_while_futures_are_looked_at(
    client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`concurrent.futures.wait` looks at many futures at once: meanwhile none of them ends, nor what comes after."""
    cluster.hold()
    future = client.submit(abs, -5)
    told: list[str] = []

    def handler() -> None:
        cluster.release()
        with pytest.raises(RuntimeError) as raised:
            client.submit(abs, -1).result(WAIT)
        told.append(str(raised.value))

    base = concurrent.futures._base
    install = base._create_and_install_waiters

    def interrupted(*arguments: object) -> object:
        handler()
        return install(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(base, "_create_and_install_waiters", interrupted)
        in_time(lambda: concurrent.futures.wait([future], WAIT), "a wait")
    assert len(told) == 1 and "this would wait for ever" in told[0]
    assert future.result(WAIT) == 5 and client.submit(abs, -1).result(WAIT) == 1


class Handle:
    """A handle of something remote, which is closed when the last reference to the handle goes."""

    def __init__(self, close: Callable[[], object]) -> None:
        self._close = close
        self.itself = self  # only the collector finds it

    def __del__(self) -> None:
        self._close()


@pytest.mark.parametrize("inner", (submitted, sent))
def test_destructors_at_any_allocation(client: Client, cluster: FakeCluster, inner: Callable[[Client], None]) -> None:
    closed: list[int] = []

    def close() -> None:
        inner(client)
        closed.append(1)

    def run() -> None:
        for program in OUTER:
            Handle(close)
            program(client)

    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for number in range(4):
            in_time(run, f"round {number}")
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert len(closed) == 4 * len(OUTER)
    assert client.submit(abs, -9).result(WAIT) == 9
    eventually(lambda: not cluster.values_of(client.identity), "nothing is stored")
