"""The service half: a task in, its end out, as data."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from scaler_protocol import codec, task_context
from scaler_protocol.codes import (
    FLAG_PROFILING,
    FLAG_STREAM_OUTPUT,
    FUNCTION_UNREADABLE,
    RESULT_UNREADABLE,
    STATUS_FAILED,
    STATUS_REFUSED,
    STATUS_SUCCESS,
    STATUS_TIMED_OUT,
    STORAGE_UNREACHABLE,
    TASK_RAISED,
)
from scaler_protocol.ids import content_id
from scaler_protocol.values import dumps_call, join, loads
from scaler_symphony.container import answer
from scaler_symphony.core.events import Reply
from scaler_symphony.payload import pack_request, unpack_reply
from scaler_symphony.request import FORMAT, Request
from scaler_symphony.time_limit import TimeIsUp, time_limit


def request(function: Callable[..., Any], /, *arguments: Any, **others: Any) -> Request:
    code = cloudpickle.dumps(function)
    name = bytes(content_id(code))
    fields: dict[str, Any] = {
        "format": FORMAT,
        "task_id": b"t" * 16,
        "attempt": 1,
        "client": b"c" * 16,
        "call_format": 0,
        "keywords": (),
        "serializer": b"",
        "depth": 2,
        "priority": 3,
        "flags": 0,
        "result_salt": b"",
        "owner_grant": b"",
        "timeout_seconds": 0.0,
        "function": name,
        "parts": bytes(join(dumps_call(arguments, {}))),
        "brought": {name: code},
        "scheduler_address": "tcp://127.0.0.1:1",
        "storage_address": "tcp://127.0.0.1:2",
        "inline_bytes": 65536,
        "modules": (),
        "key_file": "",
        "is_insecure": True,
    }
    return Request(**{**fields, **others})


def run(function: Callable[..., Any], /, *arguments: Any, **others: Any) -> Reply:
    return unpack_reply(answer(pack_request(request(function, *arguments, **others))))


def error_of(reply: Reply) -> Any:
    return codec.decode_task_error(reply.value)


def test_a_host_without_a_usable_ticket(tmp_path: Path) -> None:
    """Only the name of the file has come; the task fails, and its error says what is wrong with this host."""
    reply = run(divmod, 7, 2, key_file=str(tmp_path / "missing.key"), is_insecure=False)
    assert error_of(reply).code == STORAGE_UNREACHABLE
    assert "missing.key" in error_of(reply).text
    assert run(divmod, 7, 2).status == STATUS_SUCCESS


def test_a_value() -> None:
    reply = run(divmod, 7, 2)
    assert reply.status == STATUS_SUCCESS and loads(reply.value) == (3, 1) and reply.profile == b""


def test_a_service_as_the_first_documents_show_it_runs_our_tasks() -> None:
    function, *arguments = cloudpickle.loads(pack_request(request(divmod, 7, 2)))
    assert loads(unpack_reply(cloudpickle.dumps(function(*arguments))).value) == (3, 1)


def test_an_error_is_data() -> None:
    reply = run(divmod, 1, 0)
    error = error_of(reply)
    assert reply.status == STATUS_FAILED and error.code == TASK_RAISED
    assert isinstance(pickle.loads(error.serialized), ZeroDivisionError)
    assert "runner.py" not in error.text, "its traceback begins with the user's code"


def test_a_task_that_leaves() -> None:
    assert error_of(run(sys.exit, 3)).type_name == "builtins.SystemExit"


def test_a_result_that_cannot_be_told() -> None:
    reply = run(threading.Lock)
    assert reply.status == STATUS_FAILED and error_of(reply).code == RESULT_UNREADABLE


def test_a_function_that_is_not_here() -> None:
    code = b"cno_such_module\nfunction\n."
    reply = run(divmod, 1, 2, function=content_id(code), brought={content_id(code): code})
    assert reply.status == STATUS_REFUSED and error_of(reply).code == FUNCTION_UNREADABLE
    assert "no_such_module" in error_of(reply).message


def test_a_profile_and_output() -> None:
    reply = run(print, "said", flags=FLAG_PROFILING | FLAG_STREAM_OUTPUT)
    assert len(reply.profile) == 24 and reply.printed == ((1, "said\n"),)


def test_the_context_of_a_task() -> None:
    def where() -> tuple[int, int, str]:
        context = task_context.current()
        assert context is not None
        context.block()
        context.unblock()
        return context.depth, context.priority, context.scheduler_address

    assert loads(run(where).value) == (2, 3, "tcp://127.0.0.1:1")
    assert task_context.current() is None


def test_a_timeout() -> None:
    began_at = time.monotonic()
    reply = run(time.sleep, 600.0, timeout_seconds=0.05)
    assert reply.status == STATUS_TIMED_OUT and "0.05 s" in error_of(reply).message
    assert time.monotonic() - began_at < 60


def test_another_version_of_the_adapter() -> None:
    assert "give both one version" in error_of(run(divmod, 1, 2, format=FORMAT + 1)).message


def test_a_payload_that_cannot_be_read_here() -> None:
    reply = unpack_reply(answer(b"nonsense"))
    assert reply.status == STATUS_REFUSED and "this host cannot read tasks" in error_of(reply).message


def test_too_much_output_is_cut() -> None:
    def talk() -> None:
        for _ in range(400):
            print("x" * 16_000)

    reply = run(talk, flags=FLAG_STREAM_OUTPUT)
    assert 0 < sum(len(text) for _, text in reply.printed) < 5 * 1024 * 1024


# ---------------------------------------------------------------- time limits in other threads


def in_thread(function: Callable[[], None]) -> BaseException | None:
    caught: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    return caught[0] if caught else None


def test_a_thread_is_stopped() -> None:
    def spin() -> None:
        with time_limit(0.05):
            while True:
                pass

    assert isinstance(in_thread(spin), TimeIsUp)


def test_a_limit_that_is_over_hits_nobody() -> None:
    def quick() -> None:
        with time_limit(60.0):
            pass
        for _ in range(1000):
            pass

    assert in_thread(quick) is None


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_a_limit_that_is_not_reached(seconds: float) -> None:
    with time_limit(seconds):
        pass
