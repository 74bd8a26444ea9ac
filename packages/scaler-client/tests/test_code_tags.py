"""What carries bytecode says so, and what does not runs on any worker. (CLI-15)"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import operator
import re
import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import cloudpickle
import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import eventually

from scaler import Client, Serializer
from scaler_protocol import values
from scaler_protocol.code_tag import CODE_TAG, all_called, called, unreadable
from scaler_protocol.ids import ID_BYTES

WAIT = 10


def by_value(text: str) -> Any:
    """What a program's own module makes: workers cannot import it."""
    module = ModuleType("__main__")
    exec(compile(text, "program", "exec"), module.__dict__)
    return module.__dict__["made"]


DOUBLE = by_value("def made(x): return x * 2")
POINT = by_value(
    "import dataclasses\n@dataclasses.dataclass\nclass made:\n    x: int = 1\n    def twice(self): return self.x * 2"
)


def tags(cluster: FakeCluster) -> list[str]:
    found = [submit.header.code_tag for submit in cluster.submits]
    cluster.submits.clear()
    return found


@pytest.mark.parametrize(
    ("function", "arguments", "has_code"),
    [
        (abs, (-1,), False),
        (operator.add, (1, 2), False),
        (partial(operator.add, 1), (2,), False),
        ([3, 1].index, (1,), False),
        (len, ([operator.add],), False),
        (len, ([b"x" * 100_000],), False),
        (DOUBLE, (1,), True),
        (lambda x: x, (1,), True),
        (partial(DOUBLE, 1), (), True),
        (POINT().twice, (), True),
        (len, ([lambda x: x],), True),
        (str, (POINT(),), True),
        (map, (DOUBLE, [1]), True),
    ],
    # Addresses differ between processes. Windows bounds the length of what pytest keeps in its environment.
    ids=lambda value: re.sub(r" at 0x\w+", "", str(value))[:60],
)
def test_calls(
    client: Client, cluster: FakeCluster, function: Callable[..., Any], arguments: tuple[Any, ...], has_code: bool
) -> None:
    cluster.hold()
    client.submit(function, *arguments)
    client.submit_verbose(function, arguments, {}, priority=3)
    eventually(lambda: cluster.held_count() == 2, "both are there")
    client.clear()
    assert tags(cluster) == [CODE_TAG if has_code else ""] * 2


def test_maps_by_batch(client: Client, cluster: FakeCluster) -> None:
    assert client.map(abs, [-1, 2]) == [1, 2]
    assert tags(cluster) == [""]
    assert client.map(callable, [lambda x: x, 2]) == [True, False]
    assert tags(cluster) == [CODE_TAG]
    assert client.map(DOUBLE, [1, 2]) == [2, 4]
    assert tags(cluster) == [CODE_TAG]
    assert client.map(callable, [2, 3]) == [False, False], "what was found in one batch says nothing of the next"
    assert tags(cluster) == [""]


def test_graphs_as_a_whole(client: Client, cluster: FakeCluster) -> None:
    assert client.get({"a": (abs, -1), "b": (abs, "a")}, "b") == 1
    assert client.get({"a": (abs, -1), "b": (DOUBLE, "a"), "c": (abs, "b")}, "c") == 2
    assert client.get({"a": (callable, lambda x: x), "b": (operator.not_, "a")}, "b") is False
    assert tags(cluster) == ["", CODE_TAG, CODE_TAG]


def test_calls_that_wait_for_futures(client: Client, cluster: FakeCluster) -> None:
    own, other = client.submit(abs, -1), concurrent.futures.Future[Any]()
    waiting = client.submit(callable, other), client.submit(DOUBLE, own), client.submit(abs, own)
    other.set_result(lambda x: x)
    assert [future.result(WAIT) for future in waiting] == [True, 2, 1]
    # By task, since calls with the same tag may come in one message.
    found = [submit.header.code_tag for submit in cluster.submits for _ in range(len(submit.ids) // ID_BYTES)]
    assert sorted(found) == ["", "", CODE_TAG, CODE_TAG]


def test_references(client: Client, cluster: FakeCluster) -> None:
    plain, code = client.send_object([1]), client.send_object([lambda x: x])
    assert client.submit(len, plain).result(WAIT) == client.submit(len, code).result(WAIT) == 1
    assert client.get({"a": (len, code)}, "a") == 1
    assert tags(cluster) == ["", CODE_TAG, CODE_TAG]


def test_functions_by_name(client: Client, cluster: FakeCluster) -> None:
    cluster.hold()
    client.submit_named("anything", b"x")
    eventually(lambda: tags(cluster) == [""], "it is there")
    client.clear()


def test_a_serializer_of_the_program(cluster: FakeCluster) -> None:
    """What it writes for a function that cannot be imported counts as code. The serializer itself is examined."""
    with Client(cluster.address, serializer=ByValue()) as client:
        cluster.hold()
        client.submit(abs, -1)
        client.submit(DOUBLE, 1)
        client.submit_named("anything", b"x")
        eventually(lambda: cluster.held_count() == 3, "all are there")
        client.clear()
        assert tags(cluster) == [CODE_TAG, CODE_TAG, ""]


ByValue: Any = type(
    "ByValue", (Serializer,), {"serialize": staticmethod(cloudpickle.dumps), "deserialize": by_value("made = id")}
)
ByValue.__module__ = "__main__"
ByValue.deserialize = staticmethod(by_value("import cloudpickle\ndef made(data): return cloudpickle.loads(data)"))


# ---------------------------------------------------------------- values


def test_code_of_another_version_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "carries code of Python 3.99, and this process runs " + called(CODE_TAG)
    monkeypatch.setattr(values, "CODE_TAG", "cpython-399")
    pickled = b"".join(values.dumps([1, DOUBLE]))
    monkeypatch.undo()
    with pytest.raises(values.CodeVersionError, match=told):
        values.loads(pickled)


def test_notes_of_a_value_within_a_value() -> None:
    """A value's `__reduce__` may serialize another; what is found in that counts for both, and in no other thread."""

    @dataclasses.dataclass
    class Within:
        value: object

        def __reduce__(self) -> Any:
            return bytes, (b"".join(values.dumps(self.value)),)

    Within.__module__ = __name__
    assert values.has_code(values.dumps(Within([DOUBLE])))
    assert not values.has_code(values.dumps(Within([1, 2])))
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(values.has_code(values.dumps([1]))))

    class Meanwhile:
        def __reduce__(self) -> Any:
            thread.start()
            thread.join()
            return int, ()

    assert not found and values.has_code(values.dumps([DOUBLE, Meanwhile()])) and found == [False]


def test_what_people_are_told() -> None:
    assert called("cpython-39") == "Python 3.9" and called("pypy310") == "pypy310"
    assert all_called(["cpython-313", "cpython-39", "raw"]) == "Python 3.9, 3.13, raw"
    assert "Python 3.11, and worker w runs Python 3.12" in unreadable("cpython-311", ["cpython-312"], "worker w")
