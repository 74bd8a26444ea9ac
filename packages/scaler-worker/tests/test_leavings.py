"""Leftovers of a task: they hold up no other task, and a child that comes back into our code ends there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import leaving_tasks
from tests.support.leaving_tasks import (
    ForksWhenRead,
    fork_and_exit,
    fork_and_print,
    fork_and_raise,
    fork_and_return,
    leave_cycle,
    leave_local,
    note_run,
    process_id,
    return_forking,
)

from scaler_protocol.codes import FLAG_PROFILING, FLAG_STREAM_OUTPUT, STATUS_PROCESSOR_DIED, STATUS_SUCCESS
from scaler_worker.core import beginning
from scaler_worker.processor import loop


@pytest.fixture(scope="module")
def _shorter_waits() -> Any:
    """The worker is forked from this process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(beginning, "BEGIN_SECONDS", 0.5)
        patched.setattr(loop, "IDLE_COLLECT_SECONDS", (0.05, 0.1, 60.0))
        yield


@pytest.fixture
def worker(_shorter_waits: None, start_worker: Callable[..., Any]) -> Any:
    return start_worker(heartbeat_seconds=0.3)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_what_garbage_does_between_two_tasks_keeps_no_other_task_from_running(
    cluster: Any, worker: Any, tmp_path: Path
) -> None:
    for number, kind in enumerate(("raises", "exits", "forks", "waits", "ends the process", "waits")):
        path = tmp_path / str(number)
        first = cluster.run(leave_cycle, kind, str(path)).loaded
        cluster.wait_until(lambda path=path: lines(path), f"the destructor that {kind}")
        result = cluster.run(process_id, timeout_seconds=20.0)
        assert result.status == STATUS_SUCCESS, (kind, result.error)
        assert kind not in ("waits", "ends the process") or result.loaded != first, kind
        assert kind != "forks" or lines(path) == ["forks", "child: 0"], "the child ends when it comes back"


def test_what_locals_do_when_they_are_freed_is_their_own_tasks(cluster: Any, worker: Any, tmp_path: Path) -> None:
    result = cluster.run(leave_local, "ends the process", str(tmp_path / "a"))
    assert result.status == STATUS_PROCESSOR_DIED
    (waiting,) = cluster.dispatch(leave_local, ("waits", str(tmp_path / "b")), timeout_seconds=1.0)
    (other,) = cluster.dispatch(process_id, ())
    cluster.wait_results([waiting, other])
    assert cluster.results[other].status == STATUS_SUCCESS


FRAMES: list[tuple[Callable[..., Any], int, dict[str, int]]] = [
    (fork_and_return, 0, {}),
    (fork_and_raise, 1, {}),
    (fork_and_exit, 5, {}),
    (fork_and_print, 0, {"flags": FLAG_STREAM_OUTPUT}),
    (fork_and_raise, 1, {"flags": FLAG_STREAM_OUTPUT}),
    (fork_and_return, 0, {"flags": FLAG_PROFILING}),
    (return_forking, 0, {}),
]


def test_a_child_that_comes_back_ends_as_a_program_would(cluster: Any, worker: Any, tmp_path: Path) -> None:
    for number, (function, code, header) in enumerate(FRAMES):
        path = tmp_path / f"fork{number}"
        assert cluster.run(function, str(path), **header).loaded == "parent", function
        assert lines(path) == [f"child: {code}"], function
    path = tmp_path / "read"
    assert cluster.run(note_run, ForksWhenRead(str(path))).loaded == "parent"
    assert lines(path) == ["child: 0", "ran"], "the child does not run the task once more"
    assert all(os.path.getsize(one) == 0 for one in tmp_path.glob("*.*")), "its files have what it wrote"
    assert not leaving_tasks.kept
