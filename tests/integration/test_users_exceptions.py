"""Each builtin exception, wherever a program's code may raise it, however it is read: it arrives as itself, or as a
RuntimeError or ScalerError that tells of it. Nothing ends in silence, and nothing hangs."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from scaler import Client
from scaler.utility.exceptions import ScalerError
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage
from tests.support.raising import (
    KINDS,
    Iterating,
    Read,
    Written,
    drops,
    raises,
    raises_told,
    raises_with_a_value,
    returns_read,
    returns_written,
    takes,
    waits,
    waits_and_dies,
    waits_and_raises,
    waits_and_returns_written,
    waits_stubbornly,
    yields_and_raises,
)

NOT_ENDED = "ended in silence"


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    cluster = RealCluster(module_stage, 1)
    yield cluster
    cluster.wait_until_empty()


def raised_by(call: Callable[[], object]) -> BaseException | str:
    try:
        call()
    except BaseException as error:
        return error
    return NOT_ENDED


async def awaited(found: Awaitable[Any]) -> BaseException | str:
    try:
        await asyncio.wait_for(found, WAIT)
    except BaseException as error:
        return error
    return NOT_ENDED


async def gone_through(values: Any) -> None:
    async for _ in values:
        pass


def arrives(name: str, error: BaseException | str, *, by: type[BaseException] = RuntimeError) -> bool:
    """Returns whether the error arrives as itself, or as a ScalerError or `by` that names it or contains its text."""
    if isinstance(error, str) or (isinstance(error, concurrent.futures.TimeoutError) and name not in (
        "TimeoutError", "OSError",
    )):  # fmt: skip
        return False
    story = f"{error} {error.__cause__!r} {error.__context__!r}"
    return type(error).__name__ == name or (
        isinstance(error, ScalerError | by) and any(one in story for one in (name, "told", "recursion"))
    )


def in_callback(client: Client, name: str) -> BaseException | str:
    found: concurrent.futures.Future[Any] = concurrent.futures.Future()
    client.submit(raises, name).add_done_callback(lambda future: found.set_result(raised_by(future.result)))
    result: BaseException | str = found.result(WAIT)
    return result


def first_completed(client: Client, name: str) -> BaseException | str:
    (future,) = concurrent.futures.as_completed([client.submit(raises, name)], timeout=WAIT)
    return raised_by(future.result)


def waited_for(client: Client, name: str) -> BaseException | str:
    done, _ = concurrent.futures.wait([client.submit(raises, name)], WAIT, concurrent.futures.FIRST_EXCEPTION)
    return raised_by(done.pop().result)


#: how a program reads what a task has raised
WAYS: dict[str, Callable[[Client, str], BaseException | str | None]] = {
    "result": lambda client, name: raised_by(lambda: client.submit(raises, name).result(WAIT)),
    "exception": lambda client, name: client.submit(raises, name).exception(WAIT),
    "map": lambda client, name: raised_by(lambda: client.map(raises, [name], timeout=WAIT)),
    "imap": lambda client, name: raised_by(lambda: list(client.imap(raises, [name], timeout=WAIT))),
    "as they come": lambda client, name: raised_by(
        lambda: list(client.imap(raises, [name], ordered=False, timeout=WAIT))
    ),
    "get": lambda client, name: raised_by(lambda: client.get({"a": (partial(raises, name),)}, ["a"])),
    "callback": in_callback,
    "as_completed": first_completed,
    "wait": waited_for,
    "argument": lambda client, name: client.submit(takes, client.submit(raises, name)).exception(WAIT),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_task_raises(client: Client, way: str) -> None:
    wrong = {name: error for name in KINDS if not arrives(name, error := WAYS[way](client, name) or NOT_ENDED)}
    assert not wrong


LOOP_WAYS: dict[str, Callable[[Client, str], Awaitable[Any]]] = {
    "await": lambda client, name: client.submit(raises, name),
    "gather": lambda client, name: asyncio.gather(client.submit(raises, name)),
    "run_in_executor": lambda client, name: asyncio.get_running_loop().run_in_executor(client, raises, name),
    "async for": lambda client, name: gone_through(client.imap(raises, [name])),
}


@pytest.mark.parametrize("way", LOOP_WAYS)
def test_what_a_task_raises_in_an_event_loop(client: Client, way: str) -> None:
    async def every() -> dict[str, BaseException | str]:
        return {name: await awaited(LOOP_WAYS[way](client, name)) for name in KINDS}

    wrong = {name: error for name, error in asyncio.run(every()).items() if not arrives(name, error)}
    assert not wrong


@pytest.mark.parametrize("make", [yields_and_raises, Iterating])
def test_what_a_generator_raises(client: Client, make: Callable[[str], Iterator[int]]) -> None:
    names = [name for name in KINDS if make is yields_and_raises or name != "StopIteration"]  # an iterator ends with it
    streams = [(name, client.stream(make, name)) for name in names]

    async def every() -> dict[str, BaseException | str]:
        return {name: await awaited(gone_through(stream)) for name, stream in streams[::2]}

    found = asyncio.run(every())
    found |= {name: raised_by(lambda stream=stream: list(stream)) for name, stream in streams[1::2]}  # type: ignore[misc]
    assert not {name: error for name, error in found.items() if not arrives(name, error)}


#: where else code of the program runs, and as what it arrives besides
PLACES: dict[str, tuple[Callable[[Client, str], BaseException | str | None], type[BaseException]]] = {
    "iterable of map": (lambda client, name: raised_by(lambda: client.map(abs, Iterating(name))), RuntimeError),
    "iterable of imap": (lambda client, name: raised_by(lambda: list(client.imap(abs, Iterating(name)))), RuntimeError),
    "iterable of async for": (
        lambda client, name: raised_by(lambda: asyncio.run(gone_through(client.imap(abs, Iterating(name))))),
        RuntimeError,
    ),
    "argument written": (lambda client, name: raised_by(lambda: client.submit(takes, Written(name))), TypeError),
    "item written": (lambda client, name: raised_by(lambda: list(client.imap(takes, [Written(name)]))), TypeError),
    "argument read": (lambda client, name: client.submit(takes, Read(name)).exception(WAIT), TypeError),
    "result written": (lambda client, name: client.submit(returns_written, name).exception(WAIT), TypeError),
    "result read": (lambda client, name: raised_by(lambda: client.submit(returns_read, name).result(WAIT)), TypeError),
    "results read": (lambda client, name: raised_by(lambda: client.map(returns_read, [name])), TypeError),
    "result awaited": (
        lambda client, name: raised_by(lambda: asyncio.run(awaited_alone(client.submit(returns_read, name)))),
        TypeError,
    ),
    "exception shown": (lambda client, name: client.submit(raises_told, name).exception(WAIT), TypeError),
}


async def awaited_alone(found: Awaitable[Any]) -> Any:
    return await found


@pytest.mark.parametrize("place", PLACES)
def test_what_other_code_of_the_program_raises(client: Client, place: str) -> None:
    call, other = PLACES[place]
    is_end = place.startswith("iterable")  # an iterator ends with StopIteration
    names = [name for name in KINDS if not is_end or name != "StopIteration"]
    found = {name: call(client, name) or NOT_ENDED for name in names}
    if place == "exception shown":
        wrong = {name: error for name, error in found.items() if type(error).__name__ != "Told"}
    else:
        wrong = {name: error for name, error in found.items() if not arrives(name, error, by=other)}
    assert not wrong


@pytest.mark.parametrize("make", [Written, Read])
def test_an_exception_with_a_value_that_cannot_travel(client: Client, make: Callable[[str], object]) -> None:
    futures = [client.submit(raises_with_a_value, name, make) for name in KINDS]
    told = {name: str(future.exception(WAIT)) for name, future in zip(KINDS, futures, strict=True)}
    assert told == dict.fromkeys(KINDS, "builtins.ValueError: with a value")


def test_what_a_destructor_raises_is_not_the_tasks(client: Client) -> None:
    assert client.map(drops, KINDS) == KINDS


#: how a task ends badly that has run for a while, and how long it took at least
BAD_ENDS: dict[str, tuple[Callable[[float], object], dict[str, Any]]] = {
    "raised": (waits_and_raises, {}),
    "its value cannot travel": (waits_and_returns_written, {}),
    "stopped by its timeout": (waits, {"timeout": 0.1}),
    "killed by its timeout": (waits_stubbornly, {"timeout": 0.1}),
    "died": (waits_and_dies, {"lost_processors_limit": 1}),
}


@pytest.mark.parametrize("how", BAD_ENDS)
def test_a_task_that_ends_badly_is_measured(client: Client, how: str) -> None:
    function, options = BAD_ENDS[how]
    future = client.submit_verbose(function, (0.05 if "timeout" not in options else WAIT,), {}, **options)
    assert future.exception(WAIT) is not None
    profile = future.profiling_info()
    assert 0.04 < profile.duration_s < WAIT
    assert "it failed after " in client.explain(future)
