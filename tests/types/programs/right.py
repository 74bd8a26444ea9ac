"""What type checkers must accept, and what they must take the results for."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from typing import Any, TypeVar

from typing_extensions import assert_type

import scaler
from scaler import Client, ObjectReference, ScalerFuture, ScalerStream, SchedulerClusterCombo, progress

T = TypeVar("T")


def add(a: int, b: int = 2) -> int:
    return a + b


def parent(client: Client, count: int) -> float:
    return sum(client.map(math.sqrt, range(count)))


def scaled(values: list[int], *, factor: float = 1.0) -> list[float]:
    return [value * factor for value in values]


def total(*numbers: int) -> int:
    return sum(numbers)


def six(a: int, b: int, c: int, d: str, e: str, f: str) -> str:
    return d * (a + b + c) + e + f


def nothing() -> None: ...


def first(values: list[T], name: str) -> T:
    return values[0]


class Model:
    def __init__(self, name: str) -> None:
        self.name = name

    def predict(self, values: list[float]) -> bytes:
        return bytes(len(values))

    def __call__(self, value: int) -> bytes:
        return bytes(value)


def numbers(count: int, *, step: int = 1) -> Iterator[int]:
    yield from range(0, count, step)


def streams(client: Client) -> None:
    assert_type(client.stream(numbers, 3), ScalerStream[int])
    assert_type(client.stream(numbers, 3, step=2), ScalerStream[int])
    assert_type(client.stream(numbers, 3, window=2), ScalerStream[int])
    assert_type(client.stream(range, 3), ScalerStream[int])
    assert_type(client.stream_verbose(numbers, (3,), {"step": 2}, priority=1), ScalerStream[int])
    with client.stream(numbers, 3) as stream:
        assert_type(next(stream), int)
        assert_type(list(stream), list[int])
        stream.cancel()


async def awaited_stream(client: Client) -> None:
    async with client.stream(numbers, 3) as stream:
        async for number in stream:
            assert_type(number, int)


def plain_calls(client: Client) -> None:
    assert_type(client.submit(add, 1), ScalerFuture[int])
    assert_type(client.submit(add, 1, b=3).result(), int)
    assert_type(client.submit(add, a=1, b=3), ScalerFuture[int])
    assert_type(client.submit(parent, client, 3), ScalerFuture[float])
    assert_type(client.submit(nothing), ScalerFuture[None])
    assert_type(client.submit(functools.partial(add, 1), 2), ScalerFuture[int])
    assert_type(client.submit(Model("m").predict, [1.0]), ScalerFuture[bytes])
    assert_type(client.submit(Model("m"), 3), ScalerFuture[bytes])
    assert_type(client.submit(Model, "m"), ScalerFuture[Model])
    assert_type(client.submit(len, "four"), ScalerFuture[int])
    assert_type(client.submit(six, 1, 2, 3, "d", "e", "f"), ScalerFuture[str])
    client.submit(lambda value: value * 2, 3)
    client.submit(operator.add, 1, 2)
    client.submit(print, "seen", 3, end="")
    client.submit(add, 1, profiling=True)


def values_to_come(client: Client, other: Future[int]) -> None:
    """Futures and references where the function takes their values."""
    number = client.submit(add, 1)
    assert_type(client.submit(add, number), ScalerFuture[int])
    assert_type(client.submit(add, 1, number), ScalerFuture[int])
    assert_type(client.submit(add, number, other), ScalerFuture[int])
    assert_type(client.submit(add, a=number, b=3), ScalerFuture[int])
    assert_type(client.submit(add, 1, b=number), ScalerFuture[int])
    assert_type(client.submit(total, number, 1, number, 2, number, number), ScalerFuture[int])
    assert_type(client.submit(math.sqrt, number), ScalerFuture[float])
    assert_type(client.submit(functools.partial(add, 1), number), ScalerFuture[int])
    assert_type(client.submit(parent, client, number), ScalerFuture[float])
    values = client.send_object([1, 2, 3])
    assert_type(values, ObjectReference[list[int]])
    assert_type(client.submit(scaled, values), ScalerFuture[list[float]])
    assert_type(client.submit(scaled, values, factor=number), ScalerFuture[list[float]])
    assert_type(client.submit(len, values), ScalerFuture[int])
    assert_type(client.submit(six, number, 2, number, "d", "e", client.submit(str, 3)), ScalerFuture[str])


def other_calls(client: Client) -> None:
    assert_type(client.submit_verbose(add, (1, 2), {}, capabilities={"gpu": 1}, retries=2), ScalerFuture[int])
    assert_type(client.submit_named("add", b"1", lost_processors_limit=1), ScalerFuture[bytes])
    assert_type(client.map(str, [1], lost_processors_limit=1), list[str])
    assert_type(client.starmap(add, [(1, 2)], lost_processors_limit=1), list[int])
    assert_type(list(client.imap(str, [1], lost_processors_limit=1)), list[str])
    assert_type(client.get({"a": 1}, ["a"], lost_processors_limit=1), dict[str, Any])
    assert_type(client.submit_named("add", b"1", b"2"), ScalerFuture[bytes])
    assert_type(client.map(add, range(3)), list[int])
    assert_type(client.map(add, [1, 2], [3, 4], timeout=3.0), list[int])
    assert_type(client.starmap(add, [(1, 2), (3, 4)]), list[int])
    graph: dict[str, Any] = {"a": 1, "b": (add, "a", 2)}
    assert_type(client.get(graph, keys=["b"]), dict[str, Any])
    assert_type(client.get(graph, keys=["b"], block=False), dict[str, ScalerFuture[Any]])
    client.get(graph, "b", timeout=3.0)


async def awaited(client: Client) -> None:
    assert_type(await client.submit(add, 1), int)
    for future in client.as_completed([client.submit(add, 1)]):
        assert_type(future, ScalerFuture[int])
        assert_type(await future, int)
    async for value in client.imap(str, [1]):
        assert_type(value, str)


def waited_for(client: Client) -> None:
    futures = [client.submit(add, number) for number in range(3)]
    names = {client.submit(str, number): number for number in range(3)}
    for name in client.as_completed(names, timeout=3.0):
        assert_type(names[name], int)
        assert_type(name.result(), str)
    for future in as_completed(futures):
        assert_type(future.result(), int)
    assert_type(wait(futures).done, set[Future[int]])
    assert_type(progress(futures)[0].result(), int)


def maps(client: Client) -> None:
    """What a function returns, also if the function takes any type, and whatever brings its arguments."""
    assert_type(client.map(abs, [1.5]), list[float])
    assert_type(client.map(sorted, [[1, 2]]), list[list[int]])
    assert_type(client.map(max, [1], [2]), list[int])
    assert_type(client.map(first, [[1]], ["a"]), list[int])
    assert_type(client.map(str, [1], progress=True, chunksize=2, buffersize=None), list[str])
    assert_type(client.map(functools.partial(add, 1), iter([2])), list[int])
    assert_type(client.map(Model("m").predict, [[1.0]]), list[bytes])
    assert_type(client.map(Model("m"), [1]), list[bytes])
    assert_type(client.map(Model, ["m"]), list[Model])
    assert_type(client.map(add, [(1, 2)]), list[int])
    assert_type(client.map(six, [1], [2], [3], "d", "e", "f"), list[str])
    assert_type(client.map(lambda value: str(value), [1, 2]), list[str])
    assert_type(client.starmap(max, [(1, 2)]), list[int])
    assert_type(client.starmap(first, [([1], "a")]), list[int])
    assert_type(client.starmap(six, [(1, 2, 3, "d", "e", "f")], progress="six", timeout=3.0), list[str])
    assert_type(client.starmap(total, [[1, 2, 3], [4]]), list[int])
    for one in client.imap(sorted, [[1, 2]], ordered=False, window=8):
        assert_type(one, list[int])
    assert_type(list(client.imap(max, [1], [2])), list[int])
    assert_type(list(client.imap(six, [1], [2], [3], "d", "e", "f")), list[str])


def maps_of_values_to_come(client: Client, other: Future[int]) -> None:
    number = client.submit(add, 1)
    values = client.send_object([1, 2, 3])
    assert_type(client.map(add, [number], [other]), list[int])
    assert_type(client.map(add, [number, 2, other]), list[int])
    assert_type(client.map(scaled, [values, [1]]), list[list[float]])
    assert_type(client.map(parent, [client], [number]), list[float])
    assert_type(client.map(parent, [client, client], range(2)), list[float])
    assert_type(client.map(str, [number]), list[str])
    assert_type(client.map(lambda value: str(value), [number]), list[str])
    assert_type(client.starmap(add, [(number, 2), (3, other)]), list[int])
    assert_type(client.starmap(parent, [(client, number)]), list[float])
    assert_type(list(client.imap(scaled, [values])), list[list[float]])
    assert_type(list(client.imap(parent, [client], [number])), list[float])


def local_clusters() -> None:
    with scaler.local(workers=2, gpus="auto", memory_limit=1 << 30, ui=True, timeout_seconds=5, weight=0.5) as client:
        assert_type(client.submit(add, 1), ScalerFuture[int])
        if client.cluster is not None:
            assert_type(client.cluster.client(trust_results=False, stream_output=True), Client)
    scaler.local(trust_results=False, profiling=True, on_exit="wait", code=["a.py"], memory_per_processor="4GiB")


def as_an_executor(work: Callable[[int], int]) -> None:
    with SchedulerClusterCombo(n_workers=1) as cluster, Client(cluster) as client, ThreadPoolExecutor() as pool:
        for executor in (client, pool):
            assert_type(executor.submit(work, 1).result(), int)
        values_to_come(client, pool.submit(work, 1))
