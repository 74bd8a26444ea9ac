"""A size may change the way of a value, never the kind of an answer: what carries bytes through a cluster, and when it
is read. `python -m tests.support.sizes 1 65536 104857600` tries these sizes, in bytes, with a cluster of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import scaler
from scaler import Client

T = TypeVar("T")

SECONDS = 120.0
EVERY_SIZE = (1, *(limit + by for limit in (8 << 10, 16 << 10, 64 << 10, 1 << 20) for by in (-600, 1)), (4 << 20) + 1)
"""On both sides of each limit that is known: with what is around it, a value that is a little smaller stays below."""


class Holding(Exception):
    def __init__(self, data: bytes) -> None:
        super().__init__("holds data")
        self.data = data


def with_message(size: int) -> None:
    raise ValueError("x" * size)


def with_attribute(size: int) -> None:
    raise Holding(b"x" * size)


def with_traceback(size: int) -> None:
    """Each of its frames is in a file with a long name, which the text of the traceback has."""
    names: dict[str, Any] = {}
    exec(compile("def f(n): return g(n)\ndef g(n): return [][n]", "x" * size, "exec"), names)
    names["f"](0)


def same(value: T) -> T:
    return value


def with_default(size: int) -> Callable[[], int]:
    return lambda data=b"x" * size: len(data)


def with_closure(size: int) -> Callable[[], int]:
    data = b"x" * size
    return lambda: len(data)


def with_constant(size: int) -> Callable[[], int]:
    made: Callable[[], int] = eval(f"lambda: len({'x' * size!r})")
    return made


#: of each size a function and its arguments
CARRIERS: dict[str, Callable[[int], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "result": lambda size: (bytes, (size,)),
    "argument": lambda size: (len, (bytes(size),)),
    "argument and result": lambda size: (same, ("x" * size,)),
    "message": lambda size: (with_message, (size,)),
    "attribute": lambda size: (with_attribute, (size,)),
    "traceback": lambda size: (with_traceback, (size,)),
    "default": lambda size: (with_default(size), ()),
    "closure": lambda size: (with_closure(size), ()),
    "constant": lambda size: (with_constant(size), ()),
}


def kind_of(read: Callable[[], Any]) -> tuple[str, int]:
    """Returns the kind of an answer, and how many bytes the answer has, or reports."""
    try:
        value = read()
    except BaseException as error:
        size = len(error.data) if isinstance(error, Holding) else len(str(error))
        return type(error).__name__, size
    return type(value).__name__, value if isinstance(value, int) else len(value)


async def awaited(future: Any) -> Any:
    return await future


#: how an answer is read while its client is there
MOMENTS: dict[str, Callable[[Client, Callable[..., Any], tuple[Any, ...]], Any]] = {
    "result": lambda client, function, given: client.submit(function, *given).result(SECONDS),
    "await": lambda client, function, given: asyncio.run(awaited(client.submit(function, *given))),
    "map": lambda client, function, given: client.map(called, [function], [given])[0],
    "imap": lambda client, function, given: next(client.imap(called, [function], [given])),
    "argument": lambda client, function, given: client.submit(same, client.submit(function, *given)).result(SECONDS),
    "get": lambda client, function, given: client.get({"a": (partial(function, *given),)}, ["a"])["a"],
}


def called(function: Callable[..., T], given: tuple[Any, ...]) -> T:
    return function(*given)


#: how a client is left before its answers are read
LEAVING: dict[str, Callable[[Client], object]] = {
    "after the block": lambda client: client.__exit__(None, None, None),
    "after shutdown": lambda client: client.shutdown(wait=True),
}


def kinds(client: Client, carrier: str, size: int) -> dict[str, tuple[str, int]]:
    """By moment."""
    return {name: kind_of(partial(read, client, *CARRIERS[carrier](size))) for name, read in MOMENTS.items()}


def kinds_afterwards(client: Client, how: str, size: int) -> dict[str, tuple[str, int]]:
    """By carrier."""
    futures = {}
    for name, carrier in CARRIERS.items():
        function, given = carrier(size)
        futures[name] = client.submit(function, *given)
    concurrent.futures.wait(futures.values(), SECONDS)
    LEAVING[how](client)
    return {name: kind_of(partial(future.result, 0)) for name, future in futures.items()}


def expected(carrier: str, size: int) -> tuple[str, int]:
    """Each carrier has one kind of answer."""
    name = {
        "result": "bytes", "argument and result": "str", "message": "ValueError", "attribute": "Holding",
        "traceback": "IndexError",
    }.get(carrier, "int")  # fmt: skip
    return name, len("list index out of range") if carrier == "traceback" else size


def wrong_of_size(client: Client, size: int) -> list[str]:
    """Returns a line for each answer that has another kind than that of its carrier, or other bytes."""
    wrong = []
    for carrier in CARRIERS:
        found = kinds(client, carrier, size)
        wrong += [f"{carrier}, {moment}: {kind}" for moment, kind in found.items() if kind != expected(carrier, size)]
    return [f"{size:,} bytes, {one}" for one in wrong]


def wrong_afterwards(client: Client, how: str, size: int) -> list[str]:
    found = kinds_afterwards(client, how, size)
    wrong = [f"{carrier}: {kind}" for carrier, kind in found.items() if kind != expected(carrier, size)]
    return [f"{size:,} bytes, {how}, {one}" for one in wrong]


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or list(EVERY_SIZE)
    wrong: list[str] = []
    with scaler.local(workers=1) as client:
        for size in sizes:
            print(f"{size:,} bytes", flush=True)
            wrong += wrong_of_size(client, size)
            for how in LEAVING:
                wrong += wrong_afterwards(Client(client._address), how, size)
    print("\n".join(wrong) or "no answer depends on the size")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
