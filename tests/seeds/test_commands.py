"""Each command line of the first documents, as printed but for its ports, and the log lines that follow it there."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from tests.support.clusters import watching
from tests.support.processes import Command, Stage, until

START = r"\[INFO\]\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4}: "

COMMANDS = ("scaler_object_storage_server", "scaler_scheduler", "scaler_cluster", "scaler_top")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


class Terminal:
    """Types the lines of a document, at ports that are free here."""

    def __init__(self, stage: Stage, printed_port: int = 2345) -> None:
        self.stage = stage
        first = stage.ports()
        self.address = f"tcp://127.0.0.1:{first}"
        self._ports = {str(printed_port + offset): str(first + offset) for offset in range(3)}

    def local(self, text: str) -> str:
        """With our three ports for the three of the document."""
        return re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda match: self._ports[match.group()], text)

    def types(self, line: str) -> Command:
        return self.stage.start_installed(self.local(line))


def check_first_lines(command: Command, expected: str) -> None:
    """They are those of the document, whatever the time. One that starts its own storage says so in between."""
    wanted = expected.splitlines()
    command.wait_for(re.escape(wanted[-1]))
    said = [line for line in command.lines if "Scheduler: start an object storage server" not in line]
    for line, end in zip(said, wanted, strict=False):
        assert re.fullmatch(START + re.escape(end), line), f"expected {end!r} in:\n{command.text}"


def start_storage(terminal: Terminal) -> None:
    terminal.types("scaler_object_storage_server tcp://127.0.0.1:2346").wait_for("listen")


def works(address: str) -> bool:
    with Client(address=address) as client:
        return client.map(abs, range(-20, 0)) == list(range(20, 0, -1))


SCHEDULER_LOG = """\
logging to ('/dev/stdout',)
use event loop: builtin
Scheduler: listen to scheduler address tcp://127.0.0.1:2345
Scheduler: connect to object storage server tcp://127.0.0.1:2346
Scheduler: listen to scheduler monitor address tcp://127.0.0.1:2347"""

CLUSTER_LOG = """\
logging to ('/dev/stdout',)
ClusterProcess: starting 4 workers, heartbeat_interval_seconds=2, object_retention_seconds=3600
Worker[0] started
Worker[1] started
Worker[2] started
Worker[3] started"""


def test_storage_scheduler_and_cluster(stage: Stage) -> None:
    """Document 0."""
    terminal = Terminal(stage)
    start_storage(terminal)
    check_first_lines(terminal.types("scaler_scheduler tcp://127.0.0.1:2345"), terminal.local(SCHEDULER_LOG))
    cluster = terminal.types("scaler_cluster -n 4 tcp://127.0.0.1:2345")
    cluster.wait_for(r"Worker\[\d\] started", 4)
    said = [re.sub(START, "", line) for line in cluster.lines]
    assert [line for line in said if line in CLUSTER_LOG.splitlines()] == CLUSTER_LOG.splitlines(), cluster.text
    assert all(re.match(START, line) for line in cluster.lines), cluster.text
    assert works(terminal.address)


def test_a_scheduler_alone_has_a_storage(stage: Stage) -> None:
    """Documents 1 and 2, from before there was a server of its own for it."""
    terminal = Terminal(stage)
    check_first_lines(terminal.types("scaler_scheduler tcp://127.0.0.1:2345"), terminal.local(SCHEDULER_LOG))
    terminal.types("scaler_cluster -n 4 tcp://127.0.0.1:2345")
    assert works(terminal.address)


def test_a_scheduler_that_is_told_of_its_storage(stage: Stage) -> None:
    """Document 3."""
    terminal = Terminal(stage, 8516)
    terminal.types("scaler_object_storage_server tcp://127.0.0.1:8517").wait_for("listen")
    scheduler = terminal.types("scaler_scheduler tcp://127.0.0.1:8516 -osa tcp://127.0.0.1:8517")
    log = SCHEDULER_LOG.replace(":2345", ":8516").replace(":2346", ":8517").replace(":2347", ":8518")
    check_first_lines(scheduler, terminal.local(log))
    terminal.types("scaler_cluster -n 10 tcp://127.0.0.1:8516").wait_for(r"Worker\[\d\] started", 10)
    assert works(terminal.address)


def test_two_clusters_at_one_scheduler(stage: Stage) -> None:
    """All documents: "Multiple Scaler clusters can be connected to the same scheduler"."""
    terminal = Terminal(stage)
    terminal.types("scaler_scheduler tcp://127.0.0.1:2345").wait_for("monitor address")
    for _ in range(2):
        terminal.types("scaler_cluster -n 2 tcp://127.0.0.1:2345")
    with watching(terminal.address) as watch:
        until(lambda: len(watch.snapshot().workers) == 4, "two and two workers are there")


@pytest.mark.parametrize("option", ["--event-loop", "-e"])
def test_the_scheduler_on_uvloop(stage: Stage, option: str) -> None:
    if importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed")
    terminal = Terminal(stage)
    scheduler = terminal.types(f"scaler_scheduler {option} uvloop tcp://127.0.0.1:2345")
    check_first_lines(scheduler, terminal.local(SCHEDULER_LOG.replace("builtin", "uvloop")))
    terminal.types("scaler_cluster -n 1 tcp://127.0.0.1:2345")
    assert works(terminal.address)


@pytest.mark.parametrize(
    ("scheduler_option", "worker_option"),
    [("--allocate-policy", "--per-worker-capabilities"), ("-ap", "-pwc")],
)
def test_tasks_go_to_workers_that_can(stage: Stage, scheduler_option: str, worker_option: str) -> None:
    """Document 0: a task waits while no worker has what it needs, delays nobody, and goes to the one that has it."""
    terminal = Terminal(stage)
    terminal.types(f"scaler_scheduler {scheduler_option} capability tcp://127.0.0.1:2345").wait_for("monitor address")
    terminal.types("scaler_cluster -n 1 -wn plain tcp://127.0.0.1:2345")
    with Client(address=terminal.address) as client:
        wants = [client.submit_verbose(os.getpid, (), {}, capabilities={"gpu": -1}) for _ in range(8)]
        wants_all = client.submit_verbose(os.getpid, (), {}, capabilities={"gpu": -1, "linux": -1})
        wants_more = client.submit_verbose(os.getpid, (), {}, capabilities={"gpu": -1, "windows": -1})
        plain = set(client.map(call_getpid, range(8)))
        assert not any(future.done() for future in (*wants, wants_all, wants_more))
        terminal.types(f'scaler_cluster -n 4 {worker_option} "gpu,linux" tcp://127.0.0.1:2345')
        assert not plain & {future.result(60) for future in (*wants, wants_all)}
        assert not wants_more.done()
        assert wants_more.cancel()


def call_getpid(_: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("command", COMMANDS)
def test_help(stage: Stage, command: str) -> None:
    said = stage.start_installed(f"{command} -h")
    assert said.wait() == 0, said.text
    assert said.lines[0].startswith(f"usage: {command}") and "tcp://127.0.0.1:234" in "\n".join(said.lines)
    assert not said.error_lines
