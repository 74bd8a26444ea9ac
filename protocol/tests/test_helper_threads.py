"""Threads beside the main one meet what their authors did not foresee, and nothing waits for them in vain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
import zmq

from scaler_protocol.addresses import parse_address
from scaler_protocol.process import EXIT_BROKEN, parent
from scaler_protocol.transport import curve, handshakes
from scaler_protocol.transport.handshakes import Greeting

WAIT_SECONDS = 20.0
ERRORS = (MemoryError(), SystemExit(3), KeyboardInterrupt(), ValueError("unforeseen"))
each_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


def raising(error: BaseException) -> Any:
    def broken(*_: object) -> None:
        raise error

    return broken


@each_error
def test_a_greeting_is_over(error: BaseException, monkeypatch) -> None:
    monkeypatch.setattr(handshakes.Greeting, "_connection", raising(error))
    greeting = Greeting(parse_address("tcp://127.0.0.1:1"))
    end_at = time.monotonic() + WAIT_SECONDS
    while not greeting.is_over and time.monotonic() < end_at:
        os.sched_yield() if hasattr(os, "sched_yield") else None
    assert greeting.is_over and greeting.mechanism == ""
    greeting.close()


@each_error
def test_the_handler_of_keys_tells_and_ends(error: BaseException, monkeypatch, caplog) -> None:
    """Checks that the handler ends. Its server then ends with the next dialer that the server would refuse.
    (`check_handler`)"""
    context: zmq.Context[Any] = zmq.Context()
    socket = context.socket(zmq.REP)
    monkeypatch.setattr(zmq.Socket, "recv_multipart", raising(error))
    curve._answer(socket)
    assert socket.closed and type(error).__name__ in caplog.text
    context.term()


@pytest.mark.skipif(sys.platform == "win32", reason="no process is followed there")
@each_error
def test_a_process_whose_parent_is_out_of_sight_ends_in_order(error: BaseException, monkeypatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(parent, "_wait_for_exit", raising(error))
    monkeypatch.setattr(os, "kill", lambda process_id, number: sent.append(number))
    parent._follow(1)
    assert sent == [signal.SIGTERM]


def test_a_process_that_is_ended_tells_why() -> None:
    program = (
        "from scaler_protocol.process import end_process, setup_logging, LoggingOptions\n"
        "import threading\n"
        "threading.Thread(target=end_process, args=('reader', ValueError('unforeseen'))).start()\n"
        "threading.Event().wait(60)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == EXIT_BROKEN
    assert "the thread reader has failed" in ended.stderr and "ValueError: unforeseen" in ended.stderr
