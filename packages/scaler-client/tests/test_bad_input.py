"""What cannot be asked is told in one sentence, in the caller's line, and the client works as before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import WAIT

from scaler import Client

MAP_ADVICE = (
    "map() has no option 'ndigits'; to give the same value to each call, "
    "write client.map(functools.partial(round, ndigits=...), ...)"
)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"timeout_seconds": "5"}, TypeError, "timeout_seconds must be a number of seconds, got '5'"),
        ({"timeout_seconds": None}, TypeError, "timeout_seconds must be a number of seconds"),
        ({"timeout_seconds": 0}, ValueError, "timeout_seconds must be greater than zero"),
        ({"timeout_seconds": math.inf}, ValueError, "and finite"),
        ({"timeout_seconds": math.nan}, ValueError, "got nan"),
        ({"heartbeat_interval_seconds": "x"}, TypeError, "heartbeat_interval_seconds must be a number"),
        ({"heartbeat_interval_seconds": -1}, ValueError, "heartbeat_interval_seconds must be greater than zero"),
    ],
)
def test_clients_that_cannot_be(cluster: FakeCluster, options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Client(cluster.address, **options)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda client: client.map(abs, [1], timeout="1"), TypeError, "timeout must be a number of seconds, got '1'"),
        (lambda client: client.starmap(pow, [(1, 2)], timeout="1"), TypeError, "timeout must be a number of seconds"),
        (lambda client: client.get({"a": 1}, ["a"], timeout="1"), TypeError, "timeout must be a number of seconds"),
        (lambda client: client.get({"a": 1}, ["a"], block=False, timeout=1), ValueError, "the futures' result()"),
        (lambda client: client.submit_verbose(abs, (1,), {}, timeout="x"), TypeError, "timeout must be a number"),
        (
            lambda client: client.submit_verbose(abs, 5, {}),
            TypeError,
            "args must be a tuple and kwargs a dict, got int",
        ),
        (lambda client: client.submit_verbose(abs, (5,), None), TypeError, "got tuple and NoneType"),
        (lambda client: client.map(round, [1.5], ndigits=1), TypeError, MAP_ADVICE),
        (lambda client: client.starmap(round, [(1.5,)], ndigits=1), TypeError, MAP_ADVICE.replace("map", "starmap")),
        (lambda client: client.imap(round, [1.5], ndigits=1), TypeError, MAP_ADVICE.replace("map", "imap")),
        (lambda client: client.send_object(5, name=5), TypeError, "the name of an object must be a text, got 5"),
    ],
)
def test_calls_that_cannot_be(
    client: Client, call: Callable[[Client], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        call(client)
    assert words in str(caught.value)
    assert client.submit(abs, -1).result(WAIT) == 1


def test_waits_without_an_end(client: Client) -> None:
    assert client.map(abs, [-1], timeout=math.inf) == [1]
    assert client.get({"a": (abs, -2)}, "a", timeout=math.inf) == 2


def test_names_of_objects_may_be_bytes(client: Client) -> None:
    assert client.send_object(5, b"five").name == client.send_object(5, "five").name == b"five"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"timeout": math.nan}, "timeout must be a number of seconds, got nan"),
        ({"timeout": -1}, "timeout must not be negative or infinite, got -1"),
        ({"retries": -1}, "retries must not be negative, got -1"),
    ],
)
def test_the_parameter_that_is_wrong_is_named(client: Client, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        client.submit_verbose(abs, (1,), {}, **wrong)


def _many_references(client: Client) -> None:
    reference = client.send_object(1)
    client.submit(max, *[reference] * 70_000)


def _many_futures(client: Client) -> None:
    future = client.submit(abs, -1)
    client.submit(max, *[future] * 70_000)


def _strangely_named(client: Client) -> None:
    def function(x: int) -> int:
        return x

    function.__qualname__ = "half a pair: \udcff" * 100
    assert client.submit(function, 3).result(WAIT) == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (_many_references, "at most 65,535 arguments"),
        (_many_futures, "at most 65,535 arguments"),
        (lambda client: client.submit_named("f", *[b""] * 70_000), "at most 65,535 arguments"),
        (lambda client: client.get({"a": (max, *range(70_000))}, ["a"]), "70000 arguments"),
        (lambda client: client.submit_verbose(abs, (1,), {}, capabilities={"\udcff": 1}), "cannot be encoded"),
        (lambda client: client.map(abs, [1], capabilities={"x" * 20_000: 1}), "more than a message carries"),
        (lambda client: client.submit_verbose(abs, (1,), {}, capabilities=map(str, range(2_000))), "name fewer"),
    ],
)
def test_what_no_message_can_carry_is_told_in_the_line_that_makes_the_call(
    client: Client, cluster: FakeCluster, call: Callable[[Client], object], words: str
) -> None:
    """And not in the thread that sends, which has the calls of others in hand."""
    cluster.hold()
    others = [client.submit(abs, -number) for number in range(10)]
    with pytest.raises(ValueError, match=words):
        call(client)
    cluster.release()
    assert [future.result(WAIT) for future in others] == list(range(10))


class _Texts:
    """A serializer of the program's own."""

    @staticmethod
    def serialize(obj: Any) -> bytes:
        import pickle

        return pickle.dumps(obj)

    @staticmethod
    def deserialize(payload: bytes) -> Any:
        import pickle

        return pickle.loads(payload)


def test_names_of_arguments_that_no_message_can_carry(cluster: FakeCluster) -> None:
    with Client(cluster.address, serializer=_Texts(), timeout_seconds=10) as client:  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="cannot be encoded"):
            client.submit(dict, **{"\udcff": 1})
        with pytest.raises(ValueError, match="use a list"):
            client.submit(dict, **{f"{number:0100}": 1 for number in range(20_000)})
        assert client.submit(dict, a=1).result(WAIT) == {"a": 1}


def test_a_function_may_have_any_name(client: Client) -> None:
    _strangely_named(client)
    assert client.submit(abs, -1).result(WAIT) == 1
