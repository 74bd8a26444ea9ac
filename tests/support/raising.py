"""Every builtin exception, and user code that raises it where a task, an argument or a result runs some."""

from __future__ import annotations

import builtins
import gc
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "UnicodeDecodeError": ("utf-8", b"\xff", 0, 1, "told"),
    "UnicodeEncodeError": ("ascii", "\xff", 0, 1, "told"),
    "UnicodeTranslateError": ("\xff", 0, 1, "told"),
    "BaseExceptionGroup": ("told", [KeyboardInterrupt()]),
    "ExceptionGroup": ("told", [ValueError()]),
}


def _all_below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _all_below(one)


KINDS = sorted({one.__name__ for one in _all_below(BaseException) if getattr(builtins, one.__name__, None) is one})


def made(name: str) -> BaseException:
    error: BaseException = getattr(builtins, name)(*_ARGUMENTS.get(name, ("told",)))
    return error


# ---------------------------------------------------------------- where a task's code raises


def raises(name: str) -> None:
    raise made(name)


def yields_and_raises(name: str) -> Iterator[int]:
    yield 1
    raise made(name)


class Iterating:
    """An iterator that is no generator: what its `__next__` raises is not changed by the interpreter."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def __iter__(self) -> Iterating:
        return self

    def __next__(self) -> int:
        self.count += 1
        if self.count > 2:
            raise made(self.name)
        return self.count


class Written:
    """Raises where it is pickled."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        raise made(self.name)


class Read:
    """Raises where it is read."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return raises, (self.name,)


class Told(Exception):
    """Raises where it is shown."""

    def __str__(self) -> str:
        raise made(self.args[0])

    __repr__ = __str__


class Dropped:
    """Raises when nothing refers to it any more. Also in a cycle, which is collected later."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.me = self

    def __del__(self) -> None:
        raise made(self.name)


def returns_written(name: str) -> Written:
    return Written(name)


def returns_read(name: str) -> Read:
    return Read(name)


def raises_told(name: str) -> None:
    raise Told(name)


def raises_with_a_value(name: str, make: Callable[[str], object]) -> None:
    error = ValueError("with a value")
    error.value = make(name)  # type: ignore[attr-defined]
    raise error


def drops(name: str) -> str:
    Dropped(name)
    gc.collect()
    return name


def takes(_value: object) -> None:
    raise AssertionError("its argument cannot be read")


# ---------------------------------------------------------------- bad ends of a task that has run for a while


def waits(seconds: float) -> None:
    time.sleep(seconds)


def waits_and_raises(seconds: float) -> None:
    time.sleep(seconds)
    raise ValueError("told")


def waits_and_returns_written(seconds: float) -> Written:
    time.sleep(seconds)
    return Written("ValueError")


def waits_and_dies(seconds: float) -> None:
    time.sleep(seconds)
    os._exit(3)


def waits_stubbornly(seconds: float) -> None:
    """Does not end when it is interrupted."""
    end_at = time.monotonic() + seconds
    while time.monotonic() < end_at:
        try:
            time.sleep(0.01)
        except KeyboardInterrupt:
            pass
