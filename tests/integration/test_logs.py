"""What the processes of a cluster log: in the form that was asked for, where it was asked for, no values of tasks."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from scaler import Client
from tests.support import option_tasks
from tests.support.processes import WAIT, Stage

OPTIONS = ("--logging-format", "json", "--logging-level", "DEBUG")
VALUE = "a-value-that-is-nobodys-business"


def messages(lines: list[str]) -> dict[int, list[str]]:
    """By process. A traceback, or a line in another form, could not be read."""
    found: dict[int, list[str]] = {}
    for line in lines:
        said = json.loads(line)
        found.setdefault(said["process"], []).append(said["message"])
    return found


def test_every_line_of_every_process_is_an_object(stage: Stage, tmp_path: Path) -> None:
    log = tmp_path / "workers.log"
    address = f"tcp://127.0.0.1:{stage.ports()}"
    scheduler = stage.start("scaler_scheduler", address, *OPTIONS)  # starts a storage, and tells it how to log
    workers = stage.start("scaler_worker", address, "-n", "2", *OPTIONS, "--logging-paths", str(log))
    with Client(address) as client:
        process_id = client.submit(option_tasks.warn, VALUE).result(WAIT)
        assert client.map(len, [VALUE] * 10) == [len(VALUE)] * 10
    for command in (workers, scheduler):
        assert command.end(signal.SIGTERM) == 0, command.text
        assert not command.error_lines, command.text
    of_scheduler = messages(scheduler.lines)
    assert len(of_scheduler) == 2 and "received SIGTERM, shutting down" in of_scheduler[scheduler.pid]
    of_workers = messages(log.read_text().splitlines())
    assert len(of_workers) == 3 and of_workers[workers.pid][-1] == "ClusterProcess: all workers have ended"
    of_processor = messages((tmp_path / f"workers.log-{process_id}").read_text().splitlines())
    assert of_processor[process_id][-1] == VALUE, "what a task itself logs"
    assert VALUE not in scheduler.text + log.read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_cluster_whose_log_disk_is_full_runs_its_tasks(stage: Stage, tmp_path: Path) -> None:
    """From the start. It says so in a line, and no processor leaves an empty file."""
    logs = {name: tmp_path / f"{name}.log" for name in ("scheduler", "worker")}
    for log in logs.values():
        log.symlink_to("/dev/full")
    address = f"tcp://127.0.0.1:{stage.ports()}"
    scheduler = stage.start("scaler_scheduler", address, "--logging-paths", str(logs["scheduler"]))
    workers = stage.start("scaler_worker", address, "-n", "2", "--logging-paths", str(logs["worker"]))
    with Client(address) as client:
        assert client.map(len, ["abc"] * 100, timeout=WAIT) == [3] * 100
    for command in (workers, scheduler):
        assert command.end(signal.SIGTERM) == 0, command.text
        assert command.error_lines and all("No space left on device" in line for line in command.error_lines)
    assert sorted(tmp_path.glob("*.log*")) == sorted(logs.values())
