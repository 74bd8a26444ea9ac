"""A random program of calls, each compared with a fresh process: `python tests/calls/program.py --seed 1 --steps 5000`.

The law: what a call returns is what it returns in a child that the program forks at the moment of its submit. So a call
sees the program as it is then, leaves nothing for the next call, and its result changes nothing in the program.

Each step changes some of what functions can see, also back to values that it had before, and then makes a call in some
way. Every function here both reads its state and changes it. Nothing runs by name: this file is the main program.
"""

from __future__ import annotations

import argparse
import enum
import functools
import importlib
import random
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import cloudpickle
from forking import described, forked

import scaler
from scaler import Client
from scaler_protocol import task_context

VALUES = (1, 7, 3, 10)
WAIT_SECONDS = 60.0

# ------------------------------------------------------------ what functions can see

number = 1
box = [1]
table = {"x": 1}
optional: Any = 1


class Settings:
    rate = 1
    seen: ClassVar[list[int]] = []

    def method(self) -> tuple[str, int]:
        return "first", type(self).rate

    @classmethod
    def bump(cls) -> int:
        cls.rate += 1
        return cls.rate


class Derived(Settings):
    pass


class Registry:
    known: ClassVar[dict[str, int]] = {}

    def __init_subclass__(cls) -> None:
        Registry.known[cls.__name__] = 1


class Member(Registry):
    pass


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Point:
    x: int
    scale: ClassVar[int] = 1

    def scaled(self) -> int:
        return self.x * type(self).scale


class Counter:
    def __init__(self, start: int) -> None:
        self.values = [start]

    def inc(self, by: int = 1) -> list[int]:
        self.values.append(by)
        return list(self.values)

    def __call__(self) -> list[int]:
        return self.inc()


counter = Counter(1)
made = types.ModuleType("made_here")
made.rate = 1  # type: ignore[attr-defined]
helper_value = 1


def other_method(self: Settings) -> tuple[str, int]:
    return "second", type(self).rate


def global_number() -> int:
    global number
    number += 1
    return number


def only_reads() -> tuple[int, Any]:
    return number, globals_of_optional()


def globals_of_optional() -> Any:
    try:
        return optional
    except NameError:
        return "no such variable"


def containers() -> tuple[list[int], dict[str, int]]:
    box.append(5)
    table["y"] = table.get("y", 0) + 1
    return box, table


def default(seen: list[int] = []) -> list[int]:  # noqa: B006 - its state is what this is about
    seen.append(1)
    return list(seen)


def keyword_default(*, seen: dict[int, int] = {}) -> int:  # noqa: B006
    seen[len(seen)] = 1
    return len(seen)


def closures(start: int) -> list[Callable[[], Any]]:
    kept, count = [start], start

    def append() -> list[int]:
        kept.append(2)
        return list(kept)

    def add() -> int:
        nonlocal count
        count += 1
        return count

    def add_inside() -> int:
        def inner() -> int:
            nonlocal count
            count += 1
            return count

        return inner()

    return [append, add, add_inside, lambda: (start, count)]


def with_attribute() -> int:
    with_attribute.count = getattr(with_attribute, "count", 0) + 1  # type: ignore[attr-defined]
    return with_attribute.count  # type: ignore[attr-defined,no-any-return]


def helped() -> tuple[int, int]:
    helper.count = getattr(helper, "count", 0) + 1  # type: ignore[attr-defined]
    return helper(), helper.count  # type: ignore[attr-defined]


def helper() -> int:
    return helper_value


def other_helper() -> int:
    return -helper_value


def by_namespace() -> int:
    globals()["number"] = number + 1
    return number


@functools.lru_cache
def cached() -> tuple[int, int]:
    box.append(0)
    return len(box), cached.cache_info().misses


@functools.wraps(helper)
def wrapped() -> int:
    wrapped.__wrapped__.calls = getattr(wrapped.__wrapped__, "calls", 0) + 1  # type: ignore[attr-defined]
    return wrapped.__wrapped__.calls  # type: ignore[attr-defined,no-any-return]


def generated() -> list[int]:
    def numbers() -> Iterator[int]:
        for value in box:
            box.append(value) if len(box) < 9 else None
            yield value

    return list(numbers())


def classes() -> tuple[Any, ...]:
    Settings.rate += 1
    Settings.seen.append(Settings.rate)
    Derived.added = getattr(Derived, "added", 0) + 1  # type: ignore[attr-defined]
    return Settings.rate, Derived.rate, list(Settings.seen), Derived().method(), Derived.bump(), vars(Derived)["added"]


def class_of_class() -> int:
    return Settings.rate


def registries() -> dict[str, int]:
    Registry.known["more"] = Registry.known.get("more", 0) + 1
    return dict(Registry.known)


def modules() -> int:
    made.rate += 1  # type: ignore[attr-defined]
    return made.rate  # type: ignore[attr-defined,no-any-return]


def edited() -> tuple[int, int]:
    edited_module.COUNT += 1
    return edited_module.COUNT, edited_module.rate()


def instances() -> list[int]:
    return counter.inc()


def results() -> list[Any]:
    Settings.rate += 1
    Point.scale += 1
    return [Settings(), Derived(), Point(3), Color.RED, Counter(2), Member()]


def with_point(point: Point) -> tuple[int, bool, int, Point]:
    point.x += 1
    Point.scale += 1
    type(point).scale += 1
    return point.scaled(), isinstance(point, Point), Point.scale, point


def apply(function: Callable[[], Any]) -> Any:
    return function()


def nested(function: Callable[[], Any]) -> tuple[Any, ...]:
    before = described(function())
    if task_context.current() is None:
        inner = [forked(function) for _ in range(2)]
    else:
        client = Client()
        inner = [described(client.submit(function).result(WAIT_SECONDS)) for _ in range(2)]
    return before, inner, described(function())


# ------------------------------------------------------------ the program

FUNCTIONS: list[Callable[[], Any]] = [
    *(global_number, only_reads, containers, default, keyword_default, with_attribute, helped, by_namespace, cached),
    *(wrapped, generated, classes, class_of_class, registries, modules, edited, instances, results),
]
edited_module: Any = None


class Program:
    def __init__(self, client: Client, seed: int, directory: Path) -> None:
        self.client = client
        self.random = random.Random(seed)
        self.wrong: list[str] = []
        self._file = directory / "edited_module.py"
        self._waiting: list[tuple[str, Any, Any]] = []

    def run(self, steps: int) -> None:
        for step in range(steps):
            for _ in range(self.random.randrange(3)):
                self.random.choice(CHANGES)(self, self.random.choice(VALUES))
            self._call(step)
            while self._waiting and self.random.random() < 0.6:
                self._read(*self._waiting.pop(self.random.randrange(len(self._waiting))))
        for waiting in self._waiting:
            self._read(*waiting)

    def edit(self, value: int) -> None:
        global edited_module
        self._file.write_text(f"COUNT = {value}\n\ndef rate():\n    return {value}\n")
        importlib.invalidate_caches()
        if edited_module is None:
            edited_module = importlib.import_module(self._file.stem)
            cloudpickle.register_pickle_by_value(edited_module)
        elif self.random.random() < 0.5:
            edited_module = importlib.reload(edited_module)
        else:
            edited_module.COUNT = value

    def _call(self, step: int) -> None:
        function = self.random.choice(FUNCTIONS)
        arguments: tuple[Any, ...] = ()
        pick = self.random.randrange(12)
        if pick == 0:
            function, arguments = with_point, (Point(self.random.choice(VALUES)),)
        elif pick == 1:
            function = self.random.choice(closures(self.random.choice(VALUES)))
        elif pick == 2:
            function = self.random.choice((counter, counter.inc, Counter(1), Counter(1).inc, Settings().method))
        elif pick == 3:
            function = functools.partial(Counter.inc, self.random.choice((counter, Counter(1))), by=2)
        elif pick == 4:
            function, arguments = apply, (function,)
        elif pick in (5, 6):
            # What a cache holds does not travel with its function.
            function, arguments = nested, (helped if function is cached else function,)
        way = self.random.choice(WAYS)
        name = f"step {step}: {getattr(function, '__qualname__', type(function).__qualname__)} {arguments} by {way}"
        before = self._own_state()
        expected = forked(function, *arguments)
        client = self.client
        if way in ("submit", "submit twice"):
            for _ in range(1 + (way == "submit twice")):
                self._waiting.append((name, client.submit(function, *arguments), expected))
            return
        if arguments:
            columns = [[one] * 3 for one in arguments]
            found = list(getattr(client, way)(function, *columns) if way != "get" else [])
        elif way == "get":
            found = list(client.get({"a": (function,), "b": (function,)}, ["a", "b"]).values())
        else:
            found = list(getattr(client, way)(_Without(function), range(3)))
        for one in found:
            self._compare(name, one, expected)
        self._compare_state(name, before)

    def _read(self, name: str, future: Any, expected: Any) -> None:
        before = self._own_state()
        try:
            found = future.result(WAIT_SECONDS)
        except TimeoutError:
            raise
        except Exception as error:
            found = repr(error)
        self._compare(name, found, expected)
        self._compare_state(name, before)

    def _compare(self, name: str, found: Any, expected: Any) -> None:
        if described(found) != expected:
            self.wrong.append(f"{name}: {described(found)} instead of {expected}")
        for one in found if isinstance(found, list | tuple) else ():
            if type(one).__module__ == "__main__" and type(one) is not globals().get(type(one).__name__):
                self.wrong.append(f"{name}: {one!r} is of another class than the program's")

    def _compare_state(self, name: str, before: Any) -> None:
        if self._own_state() != before:
            self.wrong.append(f"{name}: the program was {before} and is {self._own_state()}")

    def _own_state(self) -> str:
        kinds = Settings, Derived, Registry, Member, Point, Counter
        state = [
            [(name, repr(value)) for name, value in sorted(vars(kind).items()) if not name.startswith("_")]
            for kind in kinds
        ]
        return repr((state, number, box, table, counter.values, made.rate, default.__defaults__, vars(with_attribute)))  # type: ignore[attr-defined]


class _Without:
    """Calls a function without the item that `map` gives."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def __call__(self, _item: int) -> Any:
        return self.function()


WAYS = ("submit", "submit twice", "map", "imap", "get")


def change_globals(program: Program, value: int) -> None:
    global number, helper_value, optional, box
    pick = program.random.randrange(5)
    if pick == 0:
        number = value
    elif pick == 1:
        helper_value = value
    elif pick == 2:
        box = [value]
    elif "optional" in globals() and pick == 3:
        del optional
    else:
        optional = value


def change_containers(program: Program, value: int) -> None:
    box[0] = value
    table["x"] = value
    program.random.choice((default.__defaults__, (keyword_default.__kwdefaults__ or {}).values()))
    default.__defaults__ = ([value],)
    keyword_default.__kwdefaults__ = {"seen": {0: value}}
    with_attribute.count = value  # type: ignore[attr-defined]


def change_classes(program: Program, value: int) -> None:
    pick = program.random.randrange(6)
    if pick == 0:
        Settings.rate = value
    elif pick == 1:
        Derived.rate = value
    elif pick == 2 and "rate" in vars(Derived):
        del Derived.rate
    elif pick == 3:
        Settings.method = program.random.choice((other_method, first_method))  # type: ignore[method-assign]
    elif pick == 4:
        Settings.seen[:] = [value]
    else:
        Point.scale = value
        Registry.known = {"Member": value}


def change_objects(program: Program, value: int) -> None:
    global helper
    counter.values = [value]
    made.rate = value  # type: ignore[attr-defined]
    helper = program.random.choice((first_helper, other_helper))


first_method, first_helper = Settings.method, helper
CHANGES: list[Callable[[Program, int], None]] = [
    *(change_globals, change_containers, change_classes, change_objects, Program.edit),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        sys.path.append(directory)
        sys.dont_write_bytecode = True
        with scaler.local(workers=options.workers) as client:
            program = Program(client, options.seed, Path(directory))
            program.edit(1)
            program.run(options.steps)
    print("\n".join(program.wrong[:20]) or f"{options.steps} steps with seed {options.seed} are right")
    return bool(program.wrong)


if __name__ == "__main__":
    sys.exit(main())
