"""A handler of a signal that raises, and MemoryError, while a value is read or written: it is not the value's fault."""

from __future__ import annotations

import concurrent.futures
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT, eventually

from scaler import Client, ScalerFuture, Serializer
from scaler.client.futures.interrupts import is_interrupt
from scaler.client.serializer.default import DefaultSerializer
from scaler.utility.exceptions import DeserializeObjectError

LARGE = 100_000


class Alarm(TimeoutError):
    """What the handler raises."""


def alarmed(*_: object) -> None:
    raise Alarm("of the program")


class Handler:
    def __call__(self, *_: object) -> None:
        alarmed()

    def method(self, *_: object) -> None:
        alarmed()


#: what happens next to the value that is read or written in this thread
_next: list[Callable[[], object]] = []


def disturbed() -> None:
    if threading.current_thread() is threading.main_thread() and _next:
        _next.pop()()


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def exhaust() -> None:
    raise MemoryError


def break_down() -> None:
    raise RuntimeError("of the value")


def read(value: Any) -> Any:
    disturbed()
    return value


class Read:
    """Disturbed where it is read. As an exception too."""

    def __init__(self, size: int = 1) -> None:
        self.size = size

    def __reduce__(self) -> Any:
        return read, (bytes(self.size),)


class Failure(Exception):
    def __reduce__(self) -> Any:
        return read, (KeyError("of the task"),)


def fail() -> None:
    raise Failure


class Written:
    """Disturbed where it is written."""

    def __call__(self) -> int:
        return 1

    def __reduce__(self) -> Any:
        disturbed()
        return Written, ()


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, alarmed)
    yield
    signal.signal(signal.SIGINT, before)
    _next.clear()


DISTURBANCES = pytest.mark.parametrize(("disturb", "kind"), [(interrupt, Alarm), (exhaust, MemoryError)])


@DISTURBANCES
@pytest.mark.parametrize("size", [1, LARGE])
@pytest.mark.parametrize("ask", [ScalerFuture.result, ScalerFuture.exception])
def test_what_disturbs_reading_is_raised_once(
    client: Client, disturb: Callable[[], None], kind: type[Exception], size: int, ask: Callable[..., Any]
) -> None:
    future = client.submit(Read, size)
    concurrent.futures.wait([future], WAIT)
    _next.append(disturb)
    with pytest.raises(kind):
        ask(future, WAIT)
    assert future.result(WAIT) == bytes(size) and future.exception(WAIT) is None


@DISTURBANCES
def test_what_disturbs_the_reading_of_an_exception_is_raised_once(
    client: Client, disturb: Callable[[], None], kind: type[Exception]
) -> None:
    future = client.submit(fail)
    concurrent.futures.wait([future], WAIT)
    _next.append(disturb)
    with pytest.raises(kind):
        future.result(WAIT)
    with pytest.raises(KeyError, match="of the task"):
        future.result(WAIT)


def test_a_value_that_cannot_be_read_says_so_each_time(client: Client, cluster: FakeCluster) -> None:
    future = client.submit(Read, LARGE)
    concurrent.futures.wait([future], WAIT)
    for _ in range(2):
        _next.append(break_down)
        with pytest.raises(DeserializeObjectError, match="of the value"):
            future.result(WAIT)
        _next.append(break_down)
        assert isinstance(future.exception(WAIT), DeserializeObjectError)
    assert future.result(WAIT) == bytes(LARGE), "it may have been an exception that another thread has raised here"
    eventually(lambda: not cluster.values_of(client._ready().connection.peer_id), "its object is released")


class Own(Serializer):
    @staticmethod
    def serialize(obj: Any) -> bytes:
        return DefaultSerializer.serialize(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        return DefaultSerializer.deserialize(payload)


def by_serializer(client: Client) -> None:
    with Client(client._ready().connection.address, serializer=Own()) as other:
        other.submit(abs, Written())


CALLS = {
    "argument": lambda client: client.submit(type, Written()),
    "argument beside a reference": lambda client: client.submit(divmod, client.send_object(1), Written()),
    "function": lambda client: client.submit(Written()),
    "partial": lambda client: client.submit(functools.partial(abs, Written())),
    "map": lambda client: client.map(type, [Written()] * 3),
    "graph": lambda client: client.get({"a": (type, Written())}, "a"),
    "send_object": lambda client: client.send_object(Written()),
    "own serializer": by_serializer,
    "a map's value": lambda client: client.map(Read, [1, 1]),
}


@DISTURBANCES
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_disturbs_a_call_is_raised_as_it_is(
    client: Client, disturb: Callable[[], None], kind: type[Exception], call: Callable[[Client], Any]
) -> None:
    _next.append(disturb)
    with pytest.raises(kind):
        call(client)
    assert not _next, "the value was written, or read"
    assert client.submit(abs, -2).result(WAIT) == 2


def test_a_value_that_cannot_be_written_is_told_as_such(client: Client) -> None:
    _next.extend([break_down] * 2)
    with pytest.raises(TypeError, match=r"argument 1 \(of type Written\) cannot be serialized: of the value"):
        client.submit(type, Written())


@pytest.mark.parametrize("handler", [alarmed, Handler(), Handler().method, functools.partial(alarmed, 1)])
def test_handlers_are_known_in_every_form(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)
    with pytest.raises(Alarm) as caught:
        interrupt()
    assert is_interrupt(caught.value)
    with pytest.raises(RuntimeError) as caught_too:
        break_down()
    assert not is_interrupt(caught_too.value)
