"""A call that cannot fit its function is refused where it is certain, and never where it is not."""

from __future__ import annotations

import array
import base64
import builtins
import cmath
import collections
import copy
import datetime
import decimal
import fractions
import functools
import heapq
import html
import inspect
import ipaddress
import itertools
import keyword
import math
import numbers
import operator
import statistics
import string
import struct
import types
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler import Client
from scaler.client.submitting.mapping import unpacked
from scaler.client.submitting.signatures import OPTIONS, check_call, check_calls, fits

PARAMETERS = ("", "a", "a, b", "a, b=1", "a=1, *b", "*a", "a, *, k", "a, *, k=1", "*, k", "a, /, b", "a, /, **k", "**k",
              "a, b=1, /, c=2, *, d, e=3", "a, *b, c, **d")  # fmt: skip
FUNCTIONS: list[Callable[..., Any]] = [eval(f"lambda {text}: None") for text in PARAMETERS]
NAMES = ("a", "b", "c", "d", "e", "k")


def is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except TypeError:
        return True
    return False


@given(st.sampled_from(FUNCTIONS), st.integers(0, 5), st.sets(st.sampled_from(NAMES)), st.integers(0, 2))
def test_it_agrees_with_python(function: Callable[..., Any], count: int, names: set[str], bound: int) -> None:
    """The call itself is the judge, also of partials and methods."""
    keywords = dict.fromkeys(sorted(names))
    for one, taken in ((function, 0), (functools.partial(function, *[None] * bound, **keywords), 0)):
        positional = [None] * (count + taken)
        expected = is_refused(lambda one=one, positional=positional: one(*positional, **keywords))
        assert is_refused(lambda one=one: check_call(one, count, keywords)) == expected

    class Holder:
        method = function

    holder = Holder()
    expected = is_refused(lambda: holder.method(*[None] * count, **keywords))
    assert is_refused(lambda: check_call(holder.method, count, keywords)) == expected


def two(left: int, right: int) -> int:
    return left + right


class Odd:
    def __call__(self, *anything: object) -> None: ...

    def __reduce__(self) -> Any:
        return Odd, ()

    def method(self) -> None: ...


def decorated() -> Callable[..., Any]:
    @functools.wraps(two)
    def wrapper(*arguments: object) -> None: ...

    return wrapper


def signed() -> Callable[..., Any]:
    def function() -> None: ...

    function.__signature__ = inspect.signature(two)  # type: ignore[attr-defined]
    return function


def wrapped_without_need() -> Callable[..., Any]:
    function = functools.wraps(two)(lambda: None)
    return functools.partial(function, 1)


@pytest.mark.parametrize(
    "function",
    [len, abs, max, int, dict, operator.itemgetter(1), Odd(), Odd().method, decorated(), signed(), str.join, "abc".join,
     wrapped_without_need(), functools.lru_cache(two), 5],
)  # fmt: skip
def test_what_is_not_certain_is_left_to_the_worker(function: Any) -> None:
    for count in range(4):
        check_call(function, count, {"any": 1})


@pytest.mark.parametrize(
    ("count", "keywords", "told"),
    [
        (1, {}, "missing a required argument: 'right'"),
        (3, {}, "too many positional arguments"),
        (2, {"other": 1}, "got an unexpected keyword argument 'other'"),
        (2, {"left": 1}, "multiple values for argument 'left'"),
    ],
)
def test_the_error_names_function_and_reason(count: int, keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError) as caught:
        check_call(two, count, keywords)
    assert "two(" in str(caught.value) and told in str(caught.value)


async def asynchronous() -> None: ...


async def generating() -> Any:
    yield


@pytest.mark.parametrize("function", [asynchronous, generating, functools.partial(asynchronous)])
def test_async_functions_are_refused_with_what_to_do(function: Any) -> None:
    with pytest.raises(TypeError, match=r"is an async function, .* asyncio.run\(\)"):
        check_call(function, 0)


def test_changed_defaults_are_seen() -> None:
    def function(a: int, b: int) -> None: ...

    assert not fits(function, 1)
    function.__defaults__ = (1,)
    assert fits(function, 1)
    check_call(function, 1)


def test_a_partial_with_attributes_of_its_own_is_called_like_any_other() -> None:
    """Some libraries give the partials that they make a name and a text."""
    named = functools.partial(two, 1)
    functools.update_wrapper(named, two)
    assert fits(named, 1) and not fits(named, 2)


def test_every_way_to_submit_is_checked(client: Client) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: client.submit(two, 1),
        lambda: client.submit(two, 1, 2, extra=3),
        lambda: client.submit_verbose(two, (1,), {}),
        lambda: client.map(two, [1, 2]),
        lambda: client.starmap(two, [(1, 2), (1, 2, 3)]),
        lambda: client.get({"a": 1, "b": (two, "a")}, ["b"]),
        lambda: client.map(asynchronous, []) or client.submit(asynchronous),
        lambda: check_calls([two, two], [2, 1]),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("args", ["abc", b"abc", {"a": 1}, 5])
def test_arguments_that_are_no_tuple(client: Client, args: Any) -> None:
    with pytest.raises(TypeError, match="args must be a tuple"):
        client.submit_verbose(len, args, {})


def test_a_list_of_futures_is_refused_with_the_call_to_make_instead(client: Client) -> None:
    futures = [client.submit(abs, -number) for number in range(3)]
    with pytest.raises(TypeError, match=r"argument 1 \(of type list\).*submit\(lambda \*values: function\(values\), "):
        client.submit(sum, futures)
    client.submit(lambda *values: sum(values), *futures)


def test_options_of_a_task_are_no_arguments_of_its_function(client: Client) -> None:
    submit: Any = client.submit
    with pytest.raises(TypeError, match=r"'retries'; to give priority and retries to the task, use submit_verbose\("):
        submit(two, 1, 2, retries=3, priority=1)
    submit(lambda timeout: timeout, timeout=3)
    with pytest.raises(TypeError) as caught:
        submit(lambda timeout: timeout, 1, timeout=3)
    assert "submit_verbose" not in str(caught.value)
    parameters = inspect.signature(Client.submit_verbose).parameters
    assert parameters.keys() - {"self", "fn", "args", "kwargs"} == OPTIONS


def test_references_and_futures_count_as_values(client: Client) -> None:
    client.submit(two, client.submit(abs, -1), client.send_object(2))
    with pytest.raises(TypeError):
        client.submit(two, client.submit(abs, -1))


def test_map_over_tuples_takes_them_whole_where_it_must() -> None:
    """Of earlier versions is that one iterable of tuples holds argument tuples."""
    pairs = [(1, 2), (3, 4)]
    one = lambda pair: pair[0]  # noqa: E731
    for items in (pairs, iter(pairs)):
        assert list(unpacked(one, (items,))) == [((1, 2),), ((3, 4),)]
    for function in (two, getattr, lambda a, b=1: a):
        with pytest.warns(DeprecationWarning):
            assert list(unpacked(function, (pairs,))) == pairs
    with pytest.warns(DeprecationWarning):
        assert list(unpacked(one, ([(1,), (2,)],))) == [(1,), (2,)]


class OneArgument:
    def __call__(self, pair: Any) -> Any:
        return pair[0]


ROWS: tuple[list[Any], ...] = (
    [[1, 2], [3, 4]],
    [(1, 2), (3, 4)],
    [("a", 1), ("b", 2)],
    [["a", "b"], ["c", "d"]],
    [(1, 2, 3), (4, 5, 6)],
    [[(1, 2), (3, 4)], [(5, 6), (7, 8)]],
    [[("a", 1)], [("b", 2)]],
)
MODULES = (
    *(
        array,
        base64,
        builtins,
        cmath,
        collections,
        copy,
        datetime,
        decimal,
        fractions,
        functools,
        heapq,
        html,
        ipaddress,
    ),
    *(itertools, keyword, math, numbers, operator, statistics, string, struct, types, unicodedata, zlib),
)
LEFT_OUT = frozenset(
    ("breakpoint", "copyright", "credits", "exit", "help", "input", "license", "open", "print", "quit")
)
"""They print, read, or end the program."""
MADE = (
    *(operator.itemgetter(0), operator.attrgetter("__class__"), operator.methodcaller("__len__"), "{}".format),
    *(functools.partial(sorted, reverse=True), functools.partial(set), functools.lru_cache(len), str.__len__, ",".join),
    *([].append, {}.get, staticmethod(len), functools.wraps(len)(lambda *one: len(*one)), OneArgument()),
)


def called(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> object:
    """Returns what each call gives, or the type of the error of the first that fails."""
    try:
        found = [function(*copy.deepcopy(arguments)) for arguments in calls]
        return [list(itertools.islice(one, 5)) if isinstance(one, Iterator) else repr(one) for one in found]
    except Exception as error:
        return type(error)


def says_that_it_takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


def test_map_calls_what_takes_one_argument_as_the_builtin_map_does() -> None:
    """Over the callables of the standard library. The page says of which functions it takes tuples apart: of those that
    say that they take so many arguments, and of those that cannot take one."""
    found = [value for module in MODULES for name, value in sorted(vars(module).items()) if name not in LEFT_OUT]
    compared = 0
    for function in (*MADE, *filter(callable, found)):
        for rows in ROWS:
            wanted = called(function, [(row,) for row in rows])
            if isinstance(wanted, type) or says_that_it_takes(function, len(rows[0])):
                continue
            assert list(unpacked(function, (rows,))) == [(row,) for row in rows], function
            compared += 1
    assert compared > 300
