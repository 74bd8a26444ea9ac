"""Callables with state, in each way of calling: each call gives what it gives in a fresh process.

Every callable changes its state. Its copies are equal, also those that the program makes anew for each call.
"""

from __future__ import annotations

import functools
import itertools
import random
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from forking import described, forked

import scaler
from scaler import Client

WAIT_SECONDS = 60.0


class Counter:
    total = 0

    def __init__(self) -> None:
        self.count = 0
        self.seen: list[int] = []

    def inc(self, *_: Any) -> int:
        self.count += 1
        return self.count

    def fit(self, *_: Any) -> list[int]:
        self.seen.append(1)
        return list(self.seen)

    def __call__(self, *_: Any) -> int:
        return self.inc()

    @classmethod
    def bump(cls, *_: Any) -> int:
        cls.total += 1
        return cls.total

    @property
    def bound(self) -> Callable[..., int]:
        return self.inc


class Slotted:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def inc(self, *_: Any) -> int:
        self.count += 1
        return self.count


class Metered(type):
    made = 0

    def __call__(cls, *_: Any) -> int:
        cls.made += 1
        return cls.made


class Maker(metaclass=Metered):
    pass


class Wrapper:
    """A decorator that counts."""

    def __init__(self, function: Callable[..., int]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.calls = 0

    def __call__(self, *arguments: Any) -> tuple[int, int]:
        self.calls += 1
        return self.calls, self.function(*arguments)


def add(into: list[int], *_: Any) -> list[int]:
    into.append(1)
    return into


def default(*_: Any, seen: list[int] = []) -> int:  # noqa: B006
    seen.append(1)
    return len(seen)


def attribute(*_: Any) -> int:
    attribute.count = getattr(attribute, "count", 0) + 1  # type: ignore[attr-defined]
    return attribute.count  # type: ignore[attr-defined,no-any-return]


number = 0
kept: dict[str, int] = {}
numbers = itertools.count(1)
dice = random.Random(1)
model = Counter()
space = types.ModuleType("space")
space.count = 0  # type: ignore[attr-defined]


def global_number(*_: Any) -> int:
    global number
    number += 1
    return number


def global_dict(*_: Any) -> int:
    kept["n"] = kept.get("n", 0) + 1
    return kept["n"]


def global_iterator(*_: Any) -> int:
    return next(numbers)


def global_dice(*_: Any) -> float:
    return dice.random()


def global_object(*_: Any) -> int:
    return model.inc()


def global_module(*_: Any) -> int:
    space.count += 1  # type: ignore[attr-defined]
    return space.count  # type: ignore[attr-defined,no-any-return]


def class_attribute(*_: Any) -> int:
    Counter.total += 1
    return Counter.total


@functools.lru_cache
def cached(*_: Any) -> list[int]:
    return [1]


def through_a_cache(*_: Any) -> list[int]:
    found = cached()
    found.append(1)
    return list(found)


@Wrapper
def counted(*_: Any) -> int:
    return 1


def enclosed_list() -> Callable[..., list[int]]:
    seen: list[int] = []

    def see(*_: Any) -> list[int]:
        seen.append(1)
        return list(seen)

    return see


def enclosed_number() -> Callable[..., int]:
    count = 0

    def see(*_: Any) -> int:
        nonlocal count
        count += 1
        return count

    return see


def generated() -> Callable[..., list[int]]:
    seen: list[int] = []

    def each(*_: Any) -> Iterator[int]:
        seen.append(1)
        yield from seen

    return lambda *_: list(each())


def decorated() -> Callable[..., Any]:
    def remember(function: Callable[..., Any]) -> Callable[..., Any]:
        seen: list[int] = []

        @functools.wraps(function)
        def wrapped(*arguments: Any) -> Any:
            seen.append(1)
            return len(seen), function(*arguments)

        return wrapped

    return remember(enclosed_list())


CALLABLES: dict[str, Callable[[], Callable[..., Any]]] = {
    "a method": lambda: Counter().inc,
    "a method of a list inside": lambda: Counter().fit,
    "a method of an object that lives": lambda: model.inc,
    "a property that gives a method": lambda: Counter().bound,
    "a callable object": Counter,
    "an object with slots": lambda: Slotted().inc,
    "a class method": lambda: Counter.bump,
    "a class whose metaclass counts": lambda: Maker,
    "a decorator's object": lambda: counted,
    "a partial": lambda: functools.partial(add, []),
    "a partial of a method": lambda: functools.partial(Counter().fit, 1),
    "a partial of a partial": lambda: functools.partial(functools.partial(add, []), 1),
    "a default": lambda: default,
    "an attribute": lambda: attribute,
    "a global number": lambda: global_number,
    "a global dict": lambda: global_dict,
    "a global iterator": lambda: global_iterator,
    "a global random generator": lambda: global_dice,
    "a global object": lambda: global_object,
    "a module that travels": lambda: global_module,
    "a class attribute": lambda: class_attribute,
    "a helper's cache": lambda: through_a_cache,
    "an enclosed list": enclosed_list,
    "an enclosed number": enclosed_number,
    "a generator": generated,
    "a decorated function": decorated,
    "a method of C code": lambda: functools.partial(random.Random(1).randrange, 10**9),
}


def one(client: Client, make: Callable[[], Any]) -> list[Any]:
    function = make()
    return [client.submit(function).result(WAIT_SECONDS) for _ in range(3)]


def copies(client: Client, make: Callable[[], Any]) -> list[Any]:
    futures = [client.submit(make()) for _ in range(3)]
    return [future.result(WAIT_SECONDS) for future in futures]


def mapped(client: Client, make: Callable[[], Any]) -> list[Any]:
    return list(client.map(ignoring(make()), range(4)))


def streamed(client: Client, make: Callable[[], Any]) -> list[Any]:
    return list(client.imap(ignoring(make()), range(4)))


def graph(client: Client, make: Callable[[], Any]) -> list[Any]:
    function = make()
    return list(client.get({"a": (function,), "b": (function,), "c": (make(),)}, ["a", "b", "c"]).values())


def in_a_task(client: Client, make: Callable[[], Any]) -> list[Any]:
    return client.submit(submit_inside, make()).result(WAIT_SECONDS)  # type: ignore[no-any-return]


def submit_inside(function: Callable[[], Any]) -> list[Any]:
    client = Client()
    return [client.submit(function).result(WAIT_SECONDS) for _ in range(2)]


def argument(client: Client, make: Callable[[], Any]) -> list[Any]:
    return [client.submit(call, make()).result(WAIT_SECONDS) for _ in range(2)]


def reference(client: Client, make: Callable[[], Any]) -> list[Any]:
    sent = client.send_object(make())
    return [client.submit(call, sent).result(WAIT_SECONDS) for _ in range(3)]


def by_future(client: Client, make: Callable[[], Any]) -> list[Any]:
    sent = client.submit(identity, make())
    return [client.submit(call, sent).result(WAIT_SECONDS) for _ in range(3)]


def again(client: Client, make: Callable[[], Any]) -> list[Any]:
    with tempfile.TemporaryDirectory() as directory:
        mark = Path(directory) / "begun"
        return [client.submit_verbose(fail_once, (make(), mark), {}, retries=3).result(WAIT_SECONDS)]


def call(function: Callable[[], Any]) -> Any:
    return function()


def identity(function: Any) -> Any:
    return function


def fail_once(function: Callable[[], Any], mark: Path) -> Any:
    found = function()
    if not mark.exists():
        mark.touch()
        raise ValueError("again")
    return found


def ignoring(function: Callable[[], Any]) -> Callable[[int], Any]:
    return lambda _item: function()


def changed_since(client: Client) -> list[int]:
    """Calls see a class as it is at their submit, also with an object that was sent before."""
    Counter.total = 1
    sent = client.send_object(Counter())
    Counter.total = 7
    try:
        see = seeing()
        return [client.submit(see, sent).result(WAIT_SECONDS) for _ in range(3)]
    finally:
        Counter.total = 0


def seeing() -> Callable[[Any], int]:
    wanted = "total"
    return lambda _sent: int(getattr(Counter, wanted))


WAYS = (one, copies, mapped, streamed, graph, in_a_task, argument, reference, by_future, again)


def main() -> int:
    wrong = []
    with scaler.local(workers=1) as client:
        for name, make in CALLABLES.items():
            expected = forked(make())
            for way in WAYS:
                found = way(client, make)
                if any(described(value) != expected for value in found):
                    wrong.append(f"{name} by {way.__name__}: {found} instead of {expected}")
        if changed_since(client) != [7] * 3:
            wrong.append("a class that has changed since an object was sent")
    print("\n".join(wrong) or "right")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
