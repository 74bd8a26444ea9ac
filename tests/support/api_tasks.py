"""What the tests of the client's interface have workers run. Imported there, so that it travels by name."""

from __future__ import annotations

import gc
import importlib
import sys
import time
import weakref
from pathlib import Path
from typing import Any

from scaler import Client, Serializer
from scaler.client.serializer.default import DefaultSerializer
from tests.support.tasks import note, wait_for_file


def add(a: Any, b: Any) -> Any:
    return a + b


def same(value: Any) -> Any:
    return value


def size_and_more(data: Any, more: int) -> int:
    return len(data) + more


def use_memory(megabytes: int) -> int:
    """For a moment, well below a second."""
    return len(b"x" * (megabytes * 2**20)) >> 20


def fail_until(log: str, count: int) -> int:
    """Succeeds when it has been run so often."""
    with Path(log).open("a") as file:
        file.write("x")
    runs = len(Path(log).read_text())
    if runs < count:
        raise ValueError(f"run {runs}")
    return runs


def note_and_sleep(log: str, name: str, seconds: float) -> None:
    with Path(log).open("a") as file:
        file.write(f"{name}\n")
    time.sleep(seconds)


def say(text: str) -> None:
    print(text)
    print(f"{text} as an error", file=sys.stderr)
    print("no end of line", end="")


class NeedsTwo(Exception):
    """As pickle sees it: made with one argument and read with none of what it needs."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{code}: {reason}")


class Broken(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("cannot be pickled")


def raise_needs_two() -> None:
    raise NeedsTwo(7, reason="the reason")


def raise_broken() -> None:
    raise Broken("the story")


def made_there() -> Any:
    return importlib.import_module("only_on_the_worker").Gone("what happened there")


def raise_unimportable() -> None:
    """Raises an exception whose class is in a module that only the worker has. The exception travels by the name of
    that module."""
    import types

    module = types.ModuleType("only_on_the_worker")
    exec("class Gone(Exception): pass", module.__dict__)
    module.Gone.__reduce__ = lambda _error: (made_there, ())
    sys.modules["only_on_the_worker"] = module
    raise made_there()


def raise_with_all() -> None:
    empty: dict[str, int] = {}
    try:
        empty["inner"]
    except KeyError as error:
        outer = ValueError("outer")
        if hasattr(outer, "add_note"):
            outer.add_note("a note")
        raise outer from error


def leave() -> None:
    sys.exit(3)


def press_ctrl_c() -> None:
    raise KeyboardInterrupt


class Counting(Serializer):
    """Leaves a mark for every call, so that workers' calls are counted too."""

    def __init__(self, log: str) -> None:
        self._log = log

    def serialize(self, obj: Any) -> bytes:  # type: ignore[override]
        self._note("s")
        return b"C" + DefaultSerializer.serialize(obj)

    def deserialize(self, payload: bytes) -> Any:  # type: ignore[override]
        assert type(payload) is bytes and payload[:1] == b"C", type(payload)
        self._note("d")
        return DefaultSerializer.deserialize(payload[1:])

    def _note(self, mark: str) -> None:
        with Path(self._log).open("a") as file:
            file.write(mark)


def submit_below(client: Client, value: int) -> tuple[int, str]:
    """The child's result, and which serializer the client has here."""
    return client.submit(add, value, 1).result(), type(client._serializer).__name__


def child_after(client: Client, begun: str, gate: str) -> int:
    """Its child is submitted when the gate is there."""
    note(begun, "begun")
    wait_for_file(gate)
    return client.submit(abs, -3).result()


def chain_below(client: Client, length: int) -> int:
    """Children that take the futures of their elder siblings."""
    future = client.submit(same, 0)
    for _ in range(length):
        future = client.submit(add, future, 1)
    result: int = future.result()
    return result


def session_below(value: int) -> int:
    with Client() as client:
        result: int = client.submit(add, value, 1).result()
        return result


def values_of_a_dropped_client(count: int) -> list[int]:
    """The results of an `imap` keep its client, also in a task."""
    client = Client()
    kept, results = weakref.ref(client), client.imap(same, range(count), window=2)
    del client
    gc.collect()
    first = next(results)
    assert kept() is not None
    return [first, *results]


def code_tag() -> str:
    """Which bytecode this worker reads."""
    return str(sys.implementation.cache_tag)


def made_by_value() -> Any:
    """A function that the caller cannot import: its bytecode is this worker's."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def made(): return 1", names)
    return names["made"]


def number_of(data: bytes, more: int) -> int:
    return int(data[:10]) + more


def fail_with(message: str) -> None:
    raise ValueError(message)
