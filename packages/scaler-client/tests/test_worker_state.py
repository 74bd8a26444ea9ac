"""worker_state: what is made once in a process, what shares it, and how it ends."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest

from scaler import worker_state
from scaler.utility import worker_state as module
from scaler_protocol import task_context


@pytest.fixture(autouse=True)
def states(monkeypatch: pytest.MonkeyPatch) -> Any:
    states = module._States()
    monkeypatch.setattr(module, "_states", states)
    yield states
    states.end()


class Connection:
    def __init__(self, name: str = "") -> None:
        self.name = name


def copied(function: Callable[..., Any]) -> Any:
    """As another function of the program brings it along."""
    assert isinstance(function, FunctionType)
    return FunctionType(
        function.__code__, {**function.__globals__}, function.__name__, function.__defaults__, function.__closure__
    )


def connect(name: str = "here") -> Connection:
    return Connection(name)


def test_it_is_made_once_for_all_copies_of_a_factory() -> None:
    first = worker_state(connect)
    assert first.name == "here"
    assert worker_state(connect) is first and worker_state(copied(connect)) is first


def test_arguments_defaults_and_what_is_enclosed_tell_values_apart() -> None:
    def factory(name: str) -> Callable[[], Connection]:
        return lambda: Connection(name)

    changed = copied(connect)
    changed.__defaults__ = ("there",)
    values = [
        worker_state(connect),
        worker_state(connect, "a"),
        worker_state(connect, name="a"),
        worker_state(functools.partial(connect, "a")),
        worker_state(factory("a")),
        worker_state(factory("b")),
        worker_state(changed),
        worker_state(Connection),
    ]
    assert len(set(values)) == len(values)
    assert worker_state(factory("b")) is values[5] and worker_state(functools.partial(connect, "a")) is values[3]


def test_programs_do_not_share_values(monkeypatch: pytest.MonkeyPatch) -> None:
    class Task:
        family = b"one"

    task: Any = Task()
    monkeypatch.setattr(task_context, "_current", task)
    first = worker_state(connect)
    task.family = b"other"
    assert worker_state(connect) is not first


tries: list[str] = []


def fail_once(name: str) -> str:
    tries.append(name)
    if len(tries) == 1:
        raise OSError("not yet")
    return "made"


def test_a_factory_that_fails_is_tried_again() -> None:
    tries.clear()
    with pytest.raises(OSError, match="not yet"):
        worker_state(fail_once, "a")
    assert worker_state(fail_once, "a") == worker_state(fail_once, "a") == "made"
    assert tries == ["a", "a"]


def test_what_a_factory_encloses_must_be_hashable() -> None:
    enclosed: list[int] = []
    with pytest.raises(TypeError, match="must be hashable"):
        worker_state(lambda: enclosed)


@pytest.mark.parametrize(("arguments", "keywords"), [(([],), {}), ((), {"name": {}})])
def test_arguments_that_are_not_hashable_are_refused_with_what_to_do(arguments: Any, keywords: Any) -> None:
    with pytest.raises(TypeError, match="give the name of a file"):
        worker_state(connect, *arguments, **keywords)
    with pytest.raises(TypeError, match="give the name of a file"):
        worker_state(functools.partial(connect, *arguments, **keywords))


ends: list[str] = []


def opened(name: str) -> Iterator[Connection]:
    yield Connection(name)
    ends.append(name)
    if name == "bad":
        raise ValueError("does not close")


def test_what_stands_behind_the_yield_runs_at_the_end_in_reverse(states: Any) -> None:
    ends.clear()
    assert worker_state(opened, "a").name == "a"
    assert worker_state(opened, "bad") and worker_state(opened, "b") is worker_state(opened, "b")
    worker_state(opened, "a")
    assert not ends
    states.end()
    assert ends == ["a", "b", "bad"]


def test_the_value_that_was_not_asked_for_longest_makes_room() -> None:
    ends.clear()
    for number in range(module.MOST_STATES):
        worker_state(opened, str(number))
    worker_state(opened, "0")
    worker_state(opened, "more")
    assert ends == ["1"]


def test_the_process_ends_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_context, "_ends", [])
    ends.clear()
    worker_state(opened, "a")
    task_context.end_process()
    assert ends == ["a"]
    worker_state(opened, "b")  # one is made again, and ends again
    task_context.end_process()
    assert ends == ["a", "b"]


def test_a_factory_may_ask_for_another_value() -> None:
    def outer() -> tuple[Connection, str]:
        return worker_state(connect, "inner"), "outer"

    assert worker_state(outer)[0] is worker_state(connect, "inner")


def test_threads_of_a_task_get_one_value() -> None:
    together = threading.Barrier(8)
    found: list[Connection] = []

    def ask() -> None:
        together.wait(10)
        found.append(worker_state(connect, "threads"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(found) == 8 and len(set(found)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_its_own() -> None:
    mine = worker_state(connect)
    child = os.fork()
    if child == 0:
        os._exit(worker_state(connect) is mine)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_factory_that_fails_is_noted_for_the_end_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[object] = []
    monkeypatch.setattr(task_context, "at_process_end", noted.append)

    def fails() -> None:
        raise ValueError("on purpose")

    for _ in range(3):
        with pytest.raises(ValueError, match="on purpose"):
            worker_state(fails)
    assert noted == []
    for value in (1, 2):
        worker_state(abs, value)
    assert len(noted) == 1
