"""scaler_ui as a command, at a real cluster."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scaler import Client
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Command, Stage, until
from tests.support.tasks import square

NO_TOKEN = ("--no-token",)
URL = re.compile(r"is shown at (http://127\.0\.0\.1:\d+/)")


def started(stage: Stage, *arguments: str, access: tuple[str, ...] = NO_TOKEN) -> tuple[Command, str]:
    command = stage.start("scaler.ui", *arguments, "--port", "0", *access)
    command.wait_for(URL.pattern)
    found = URL.search(command.text)
    assert found is not None
    return command, found[1]


def got(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=WAIT) as answer:
        return json.load(answer)


def text_of(url: str) -> str:
    with urllib.request.urlopen(url, timeout=WAIT) as answer:
        return str(answer.read(), "utf-8")


def wait_for(url: str, is_so: Callable[[Any], bool], what: str) -> Any:
    """Until /state.json says so; what it said then."""
    told: list[Any] = []

    def is_told() -> bool:
        told[:] = [got(url + "state.json")]
        return is_so(told[0])

    until(is_told, what)
    return told[0]


def test_a_cluster_is_shown_lost_and_shown_again(stage: Stage) -> None:
    cluster = RealCluster(stage, 2, scheduler=("--status-report-interval-seconds", "0.1"))
    command, url = started(stage, cluster.monitor_address)
    told = wait_for(url, lambda told: told["condition"] == "live", "the cluster is shown")
    assert len(told["status"]["workers"]) == 2 and told["status"]["storage"]["connected"]
    with Client(cluster.address) as client:

        def is_sampled() -> bool:
            assert client.map(square, range(3)) == [0, 1, 4]
            return any(one["name"] == "square" for one in got(url + "trace.json")["traceEvents"])

        until(is_sampled, "tasks are in the trace")
    with urllib.request.urlopen(url + "events", timeout=WAIT) as page:
        assert page.readline() == b"event: beginning\n"
        cluster.scheduler.end(signal.SIGKILL)
        told = wait_for(url, lambda told: told["condition"] == "silent", "the loss is noticed")
        assert "has been silent since" in told["text"] and len(told["status"]["workers"]) == 2
        cluster.start_scheduler()
        told = wait_for(url, lambda told: told["condition"] == "live", "the return is noticed")
        assert told["restarts"] == 1
        sample = 'scaler_cluster_events_total{kind="scheduler_restarted"} 1.0'
        until(lambda: sample in text_of(url + "metrics"), "the workers have come, and the restart is counted")
        cluster.scheduler.wait_for("scheduler restarted: peers of the scheduler before have come")
        assert command.end(signal.SIGINT) == 0, "also while a page is open"
    cluster.stop()


def test_why_a_task_waits_as_the_command_says_it(stage: Stage) -> None:
    cluster = RealCluster(stage, 1)
    command, url = started(stage, cluster.address)
    with Client(cluster.address) as client:
        future = client.submit_verbose(square, (1,), {}, capabilities={"gpu": 1})
        told = client.explain(future)
        assert "offers gpu=1" in told
        answer = got(f"{url}explain?task={future.task_id.hex()}")
        assert answer["text"] == told and answer["function"] == "square"
        assert got(f"{url}explain")["task"] == future.task_id.hex(), "the one that nobody can run"
        future.cancel()
    assert "it has ended" in got(f"{url}explain?task={future.task_id.hex()}")["text"]
    assert command.end() == 0
    cluster.stop()


def test_a_recording_is_shown(stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 1, scheduler=("--status-report-interval-seconds", "0.1"))
    file = tmp_path / "run.rec"
    recorder = stage.start("scaler.top", cluster.address, "--record", str(file))
    recorder.wait_for("recording to")  # before that, an interrupt is not how a recording is ended
    until(lambda: file.stat().st_size > 1000, "something is recorded")
    assert recorder.end(signal.SIGINT) == 0
    cluster.stop()
    command, url = started(stage, "--replay", str(file), "--speed", "0")
    told = wait_for(url, lambda told: told["status"], "the recording is shown")
    assert len(told["status"]["workers"]) == 1
    assert "recording" in got(f"{url}explain")["text"]
    assert command.end() == 0


def test_the_largest_objects_are_shown(stage: Stage) -> None:
    cluster = RealCluster(stage, 1)
    command, url = started(stage, cluster.address)
    with Client(cluster.address) as client:
        references = [client.send_object(bytes(size), name="large") for size in (100_000, 3_000_000)]
        told = wait_for(url, lambda state: len(largest(state)) == 2, "both objects are shown")
        assert [one["bytes"] // 100_000 for one in largest(told)] == [30, 1]
        (entry,) = told["status"]["clients"]
        assert {one["client"] for one in largest(told)} == {entry["id"]}
        references.pop().release()
        wait_for(url, lambda state: len(largest(state)) == 1, "one was released")
        future = client.submit(bytes, 200_000)
        told = wait_for(url, lambda state: len(largest(state)) == 2, "a result is an object")
        assert [one["what"] for one in largest(told)] == ["result of bytes", "value"]
        assert future.result(WAIT) == bytes(200_000)
    assert command.end() == 0


def largest(state: Any) -> list[Any]:
    return state["status"].get("storage", {}).get("largest", [])
