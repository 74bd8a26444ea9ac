"""Reading a class that travels by value fills a new one and never changes one that lives. (decision 0025)"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cloudpickle import cloudpickle

from scaler_protocol import classes, task_context, values


def made(name: str = "Settings", bases: tuple[type, ...] = (), **attributes: Any) -> Any:
    """A class of the main program."""
    return type(name, bases, {"__module__": "__main__", **attributes})


def written(value: object) -> bytes:
    return b"".join(values.dumps(value))


def elsewhere(*kinds: Any) -> None:
    """From now on this process does not have these classes, as one that has never seen them."""
    for kind in kinds:
        tracker = cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS.pop(kind)
        cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.pop(tracker, None)


@pytest.fixture
def call() -> Iterator[None]:
    """A processor that runs a task."""
    task_context.set_current(cast(task_context.TaskContext, SimpleNamespace(task_id=b"1")))
    yield
    classes.end_call()
    task_context.set_current(None)


def test_in_the_program_a_class_stays_what_it_is() -> None:
    kind = made(rate=1, seen=[1])
    data = written((kind, kind()))
    kind.rate, kind.added, kind.seen = 5, 6, [7]
    read, instance = values.loads(data)
    assert read is kind and isinstance(instance, kind)
    assert (kind.rate, kind.added, kind.seen) == (5, 6, [7])
    assert not classes.read, "a program keeps nothing for a call"


def test_what_a_program_reads_for_the_first_time_is_one_class_too() -> None:
    kind = made(rate=1)
    first = written(kind)
    kind.rate = 2
    second = written(kind)
    elsewhere(kind)
    read = values.loads(first)
    read.rate = 3
    assert values.loads(second) is read and read.rate == 3


@pytest.mark.usefixtures("call")
def test_the_parts_of_a_call_share_their_classes_and_the_next_call_has_its_own() -> None:
    base = made(rate=1)
    kind = made("Derived", (base,))
    function, argument = written(base), written(kind())
    elsewhere(base, kind)
    read, instance = values.loads(function), values.loads(argument)
    assert isinstance(instance, read) and read is not base
    read.rate = 7
    assert values.loads(function).rate == type(values.loads(argument)).rate == 7
    answer = written(instance)
    assert type(values.loads(answer)) is type(instance), "the result of a nested call"
    classes.end_call()
    again = values.loads(function)
    assert again is not read and again.rate == 1 and not isinstance(values.loads(argument), read)


@pytest.mark.usefixtures("call")
def test_a_class_that_a_task_has_made_is_the_same_in_all_calls() -> None:
    """A module may keep it."""
    kind = made()
    data = written(kind)
    classes.end_call()
    assert values.loads(data) is kind


@pytest.mark.usefixtures("call")
def test_enumerations_too() -> None:
    kind = enum.Enum("Color", {"RED": 1}, module="__main__")
    data = written((kind, kind(1)))
    elsewhere(kind)
    (first, member), (again, _) = values.loads(data), values.loads(data)
    assert first is again and member is first(1)
    classes.end_call()
    assert values.loads(data)[0] is not first


def test_a_class_whose_reading_has_failed_is_filled_by_the_next() -> None:
    """Else it would be there without its attributes."""
    kind = made(rate=1)
    kind.worse = Unreadable()
    data = written(kind)
    elsewhere(kind)
    Unreadable.fails = True
    with pytest.raises(ValueError, match="now"):
        values.loads(data)
    Unreadable.fails = False
    assert values.loads(data).rate == 1


class Unreadable:
    fails = False

    def __reduce__(self) -> Any:
        return read_unreadable, ()


def read_unreadable() -> Unreadable:
    if Unreadable.fails:
        raise ValueError("not now")
    return Unreadable()
