"""Where a running task is in its code: asked through a real cluster, by its client and from outside."""

from __future__ import annotations

import itertools
import json
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from scaler.explain import __main__ as explain
from scaler.trace import __main__ as trace
from scaler_protocol.ids import shown_task
from tests.support.clusters import RealCluster
from tests.support.processes import Stage
from tests.support.waiting import eventually

ATTEMPTS = 10
"""A processor that gets no processor time for 2 s does not answer, on a machine that is very busy."""


@pytest.fixture(scope="module", params=["texts", "no texts"])
def cluster(module_stage: Stage, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    options = ("--monitor-texts",) if request.param == "texts" else ()
    yield RealCluster(module_stage, 1, scheduler=options)


def wait_in_a_task(path: str) -> None:
    Path(path).touch()
    time.sleep(300)


def compute_in_compiled_code(path: str) -> None:
    Path(path).touch()
    deque(itertools.repeat(None), 0)


def begun(client: Client, function: Any, path: Path) -> Any:
    future = client.submit(function, str(path))
    eventually(path.exists, "the task to begin")
    return future


def test_the_stack_of_a_running_task(
    cluster: RealCluster, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    future = begun(client, wait_in_a_task, tmp_path / "running")
    eventually(lambda: "time.sleep(300)" in client.stack(future).text, "the task to sleep")
    stack = next(stack for _ in range(ATTEMPTS) if (stack := client.stack(future)).text)
    assert "time.sleep(300)" in stack.text and "in wait_in_a_task\n" in stack.text
    assert stack.state == "running" and stack.worker and stack.running_seconds > 0
    for name in (future.task_id.hex(), shown_task(future.task_id)):
        codes = (explain.main([cluster.address, name, "--stack"]) for _ in range(ATTEMPTS))
        if "--monitor-texts" in cluster.scheduler.arguments:
            assert 0 in codes
            assert "time.sleep(300)" in capsys.readouterr().out
        else:
            assert next(codes) == 1
            told = capsys.readouterr().out
            assert "lets monitors see no texts" in told and "time.sleep" not in told
    behind = client.submit(abs, -1)
    eventually(lambda: client.stack(behind).state in ("queued", "dispatched"), "the other task to wait")
    assert "it does not run" in str(client.stack(behind))
    future.cancel()
    assert client.stack(future).state == "ended"
    assert behind.result() == 1


def test_a_task_in_compiled_code(cluster: RealCluster, client: Client, tmp_path: Path) -> None:
    future = begun(client, compute_in_compiled_code, tmp_path / "running")
    told: list[str] = []

    def is_told() -> bool:
        """The task has said that it begins, and may not have come to its compiled code yet."""
        told.append(client.stack(future).reason)
        return "s of processor time" in told[-1]

    eventually(is_told, "the answer of a task that does not return to its interpreter")
    assert "does not let the interpreter go" in told[-1]
    future.cancel()


def spin(path: str) -> None:
    Path(path).touch()
    while True:
        inner()


def inner() -> int:
    return sum(range(1_000))


def test_where_the_time_goes(
    cluster: RealCluster, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    future = begun(client, spin, tmp_path / "spinning")
    out = tmp_path / "run.speedscope.json"

    def is_told() -> bool:
        code = trace.main([cluster.address, str(out), "--profile", "4"])
        if "--monitor-texts" not in cluster.scheduler.arguments:
            assert code == 1 and "--monitor-texts" in capsys.readouterr().err and not out.exists()
            return True
        return code == 0 and "inner" in out.read_text()

    eventually(is_told, "samples")
    if out.exists():
        told = json.loads(out.read_text())
        (name,) = [one["name"] for one in told["profiles"][1:]]
        assert name == "spin"
        assert {"name": "spin", "file": "test_stacks.py", "line": spin.__code__.co_firstlineno} in told["shared"][
            "frames"
        ]
    future.cancel()
