"""Threads of the client and of its tools meet what their authors did not foresee: nothing waits for them in vain."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import pytest

from scaler.client.futures.looping import Threads
from scaler.client.glimpse import Glimpse
from scaler.cluster.process import CommandProcess
from scaler.monitoring import watcher
from scaler.monitoring.watcher import Watcher
from scaler_protocol.keys.options import KeyOptions

WAIT_SECONDS = 20.0
ERRORS = (MemoryError(), SystemExit(3), KeyboardInterrupt(), ValueError("unforeseen"))
each_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


def raising(error: BaseException) -> Any:
    def broken(*_: object, **__: object) -> None:
        raise error

    return broken


@each_error
def test_jobs_behind_one_that_fails_are_done(error: BaseException) -> None:
    threads, done = Threads(1), threading.Event()
    threads.run(raising(error))
    threads.run(done.set)
    assert done.wait(WAIT_SECONDS)


@each_error
def test_a_tool_that_watches_ends_when_its_thread_has_failed(error: BaseException, monkeypatch) -> None:
    ended: list[BaseException] = []
    has_ended = threading.Event()

    def end(thread: str, error: BaseException) -> None:
        ended.append(error)
        has_ended.set()

    monkeypatch.setattr(watcher, "end_process", end)
    made = Watcher(raising(error), lambda state, heard: None)
    made.start()
    assert has_ended.wait(WAIT_SECONDS) and ended == [error]
    made.stop()


@each_error
def test_a_part_of_a_cluster_is_read_to_its_end_whatever_its_lines_are_shown_with(error: BaseException) -> None:
    """It would stand still at a pipe that is full."""
    program = "print('a line of some length\\n' * 20_000)"
    part = CommandProcess("part", [sys.executable, "-m", "part"], on_line=raising(error))
    part.watch(subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE))
    try:
        part.join(WAIT_SECONDS)
        assert part.exitcode == 0
    finally:
        part.end()


@each_error
def test_figures_that_cannot_be_had_are_none(error: BaseException, monkeypatch) -> None:
    monkeypatch.setattr("scaler.client.info.cluster_info", raising(error))
    glimpse = Glimpse()
    assert glimpse.look("tcp://127.0.0.1:1", KeyOptions()) is None
    assert glimpse._thread is not None
    glimpse._thread.join(WAIT_SECONDS)
    assert glimpse._info is None and not glimpse._thread.is_alive()
