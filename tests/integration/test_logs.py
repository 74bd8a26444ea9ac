"""What the processes of a cluster log: in the form that was asked for, where it was asked for, no values of tasks."""

from __future__ import annotations

import json
import signal
from pathlib import Path

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
