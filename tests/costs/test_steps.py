"""Steps of the interpreter: calls of Python functions between a message and what follows from it.

In a process that has just been woken each costs about a microsecond, and the way of a lone call leads through four such
processes twice over (decision 0007). The bounds are what was counted, and two: who exceeds one has made lone calls
slower, and either finds a shorter way or says here what it is worth. When they were a fifth above, what safety added
made a lone call a quarter slower, and no test failed (decision 0017).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from scaler.client.submitting.signatures import check_call, check_calls
from scaler_protocol import codec, codes
from scaler_protocol.codec.registry import registry
from scaler_protocol.columns import join_u32
from scaler_protocol.messages import Dispatch, Hello, Limits, Results, Submit, TaskHeader, WorkerOffer
from scaler_protocol.session import Opened, Received
from scaler_scheduler.core import FEATURE_RESULT_WINDOW, Policy, SchedulerCore, Settled
from scaler_worker.core import AgentCore, Settings, actions, events
from tests.support.scheduler_story import WELCOME, peer


@pytest.fixture(autouse=True)
def fresh_codec() -> Iterator[None]:
    """What other tests have made it learn is forgotten."""
    registry.cache_clear()
    yield
    registry.cache_clear()


ROUNDS = 20
"""The first ones load, learn and remember."""


def task_id(number: int) -> bytes:
    return number.to_bytes(16, "little")


SUBMIT = Submit(TaskHeader(flags=codes.FLAG_PROFILING), b"f" * 16, task_id(0), b"value", join_u32((5,)))
DISPATCH = Dispatch(
    TaskHeader(client=peer("c"), flags=codes.FLAG_PROFILING), b"f" * 16, task_id(0), b"value", join_u32((5,))
)  # fmt: skip
RESULTS = Results(task_id(0), b"value", join_u32((5,)), profiles=bytes(24), credit=9)


def counted(function: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """What it returns, and how many calls of Python functions it took. What depends on what else ran in this process
    is left out: collections of garbage, and how abstract classes find out who is one of them ("<frozen abc>")."""
    calls = 0

    def note(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call" and not frame.f_code.co_filename.startswith("<frozen ")

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(note)
    try:
        result = function(*arguments)
    finally:
        sys.setprofile(before)
        gc.enable()
    return result, calls


def expect_at_most(bound: int, calls: int) -> None:
    assert calls <= bound, f"{calls} calls where {bound} are allowed for"


@pytest.mark.parametrize("message", (SUBMIT, DISPATCH, RESULTS), ids=lambda message: type(message).__name__)
def test_the_codec(message: Any) -> None:
    for number in range(ROUNDS):
        one = replace(message, ids=task_id(number))
        (envelope, payload), write_calls = counted(codec.encode, one, number, number)
        read, read_calls = counted(codec.decode, bytes(envelope), [payload])
        assert read == (number, number, one)
    expect_at_most(4, write_calls)
    expect_at_most(5, read_calls)


@pytest.mark.parametrize("features", [(), (FEATURE_RESULT_WINDOW,)], ids=["plain", "window"])
def test_the_scheduler(features: tuple[str, ...]) -> None:
    """A client's window costs no step as long as the client reads. (SCH-45)"""
    core = SchedulerCore(Policy())
    welcome = replace(WELCOME, features=features)
    worker = WorkerOffer("w", (), 4, 1)
    core.handle(Opened(peer("w"), Hello(1, 1, codes.ROLE_WORKER, peer("w"), worker=worker), WELCOME), 0.0)
    core.handle(Opened(peer("c"), Hello(1, 1, codes.ROLE_CLIENT, peer("c")), welcome), 0.0)

    def tell(sender: str, message: Any) -> list[Any]:
        core.handle(Received(peer(sender), 1, message), 0.0)
        return core.handle(Settled(), 0.0)

    for number in range(ROUNDS):
        (dispatched,), submit_calls = counted(tell, "c", replace(SUBMIT, ids=task_id(number)))
        (told,), results_calls = counted(tell, "w", replace(RESULTS, ids=task_id(number)))
        assert (type(dispatched.message), type(told.message)) == (Dispatch, Results), "one message each, and no more"
    expect_at_most(62, submit_calls)
    expect_at_most(40, results_calls)


def test_the_agent() -> None:
    core = AgentCore(Settings("w", codec.encode_task_error))
    core.handle(events.Started(), 0.0)
    core.handle(Opened(peer("s"), Hello(1, 1, codes.ROLE_WORKER, peer("w")), WELCOME), 0.0)
    core.handle(events.ProcessorReady(1, 100), 0.0)
    core.handle(events.RoundEnded(), 0.0)

    def end(number: int) -> list[Any]:
        core.handle(events.TasksEnded(1, [(number, codes.STATUS_SUCCESS, codes.KIND_INLINE, 1e-5, b"v", b"")]), 0.0)
        return core.handle(events.RoundEnded(), 0.0)

    for number in range(1, ROUNDS):
        dispatched = Received(peer("s"), 1, replace(DISPATCH, ids=task_id(number)))
        (handed,), dispatch_calls = counted(core.handle, dispatched, 0.0)
        assert type(handed) is actions.HandOver, "at once, not when the round is over"
        assert core.handle(events.RoundEnded(), 0.0) == []
        (told,), end_calls = counted(end, number)
        assert type(told.message) is Results
    expect_at_most(32, dispatch_calls)
    expect_at_most(37, end_calls)


def test_a_header_is_one_object_all_the_way() -> None:
    """What is remembered about headers is found by identity: a header that is made anew for each task defeats it."""
    envelope, payload = codec.encode(DISPATCH, 1, 1)
    first, second = (codec.decode(bytes(envelope), [payload], Limits()).message for _ in range(2))
    assert isinstance(first, Dispatch) and isinstance(second, Dispatch)
    assert first.header is second.header


def test_whether_a_call_fits_its_function() -> None:
    """One step for a lone call, and for a batch of a map, however many tasks it has."""

    def plain(left: int, right: int = 2) -> int:
        return left + right

    for count in (1, 2):
        _, calls = counted(check_call, plain, count)
        expect_at_most(1, calls)
    _, calls = counted(check_calls, [plain] * 1000, [1, 2] * 500)
    expect_at_most(4, calls)
    for _ in range(2):
        _, calls = counted(check_call, plain, 1, {"right": 3})
    expect_at_most(3, calls)
