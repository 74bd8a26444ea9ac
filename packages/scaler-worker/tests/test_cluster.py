"""The cluster command as operators run it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler_protocol.messages import Capability
from scaler_protocol.process.worker_arguments import parse_capabilities
from scaler_worker import service
from scaler_worker.channel import SignalPage
from scaler_worker.children import EXIT_GIVEN_UP
from scaler_worker.cluster import BACKOFF_LIMIT_SECONDS, STEADY_SECONDS, Cluster, backoff_seconds
from scaler_worker.config import ClusterConfig, parse_arguments

WAIT_SECONDS = 30


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scaler_worker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


def test_a_worker_that_was_killed_starts_again_at_once_and_one_that_cannot_live_does_not() -> None:
    waits = [backoff_seconds(failures) for failures in range(12)]
    assert waits[:6] == [0, 0, 0, 0.5, 1, 2] and waits[-1] == BACKOFF_LIMIT_SECONDS
    assert waits == sorted(waits)


@pytest.mark.parametrize(("lived", "delays"), [(STEADY_SECONDS + 1, [0] * 6), (1.0, [0, 0, 0.5, 1, 2, 4])])
def test_only_who_dies_young_waits_longer_each_time(lived: float, delays: list[float]) -> None:
    cluster = Cluster(ClusterConfig("tcp://127.0.0.1:1"), lambda _config, _name: 0)
    (worker,) = cluster._workers
    found = []
    for number in range(len(delays)):
        worker.started_at = 100.0 * number
        ended_at = worker.started_at + lived
        cluster._after_exit(worker, -signal.SIGKILL, ended_at)
        found.append(worker.start_at - ended_at)
    assert found == pytest.approx(delays)
    cluster._wake_reader.close()
    cluster._wake_writer.close()


# ---------------------------------------------------------------- options


def test_defaults() -> None:
    config = parse_arguments(["tcp://127.0.0.1:2345"])
    assert config.worker_names == tuple(str(index) for index in range(max((os.cpu_count() or 2) - 1, 1)))
    assert (config.queue_size, config.heartbeat_seconds, config.death_timeout_seconds) == (1000, 2.0, 300.0)


def test_every_spelling_of_the_options() -> None:
    config = parse_arguments(
        ["-n", "2", "-wn", "a, b", "-pwc", "gpu=2,linux", "-wtqs", "10", "-hi", "1", "-ds", "5", "tcp://127.0.0.1:2345"]
    )
    assert config.worker_names == ("a", "b")
    assert config.capabilities == (Capability("gpu", 2), Capability("linux"))
    assert (config.queue_size, config.heartbeat_seconds, config.death_timeout_seconds) == (10, 1.0, 5.0)
    assert parse_arguments(["--per-worker-task-queue-size", "7", "tcp://h:1"]).queue_size == 7
    assert parse_arguments(["tcp://h:1", "-osa", ""]).storage_address == "", "as an empty variable of the environment"


def test_no_capabilities_are_none() -> None:
    assert parse_capabilities("") == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "nonsense"),
        (["tcp://127.0.0.1:99999"], "99999"),
        (["-n", "0", "tcp://127.0.0.1:1"], "above zero"),
        (["-n", "3", "-wn", "a,b", "tcp://127.0.0.1:1"], "2 names for 3 workers"),
        (["-pwc", "gpu=two", "tcp://127.0.0.1:1"], "not a capability"),
        (["--preload", "no colon", "tcp://127.0.0.1:1"], "module.sub:function"),
        ([], "address"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: list[str], words: str) -> None:
    done = run_command(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and words in done.stderr and done.stdout == ""


def test_no_scheduler_ends_after_the_death_timeout() -> None:
    done = run_command("-n", "2", "-ds", "0.5", "--insecure", "tcp://127.0.0.1:9")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert sum("scheduler" in line and "[ERROR]" in line for line in done.stdout.splitlines()) == 2


def test_no_scheduler_and_no_key_ends_after_the_death_timeout(no_key: None) -> None:
    """The scheduler would make the key, so the key is waited for before there is a worker."""
    done = run_command("-n", "2", "-ds", "0.5", "tcp://127.0.0.1:9")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    (said,) = done.stderr.splitlines()
    assert "nothing answers at tcp://127.0.0.1:9" in said and "no key" in said


def test_a_wait_for_a_scheduler_is_told_and_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(service, "SILENT_AGAIN_SECONDS", 0.01)
    said: list[str] = []
    monkeypatch.setattr(service.logger, "warning", lambda text, *given: said.append(text % given))
    config = ClusterConfig("tcp://127.0.0.1:9", death_timeout_seconds=2.0)
    page = SignalPage(config.slot_count)
    agent = service.Agent(config, "w", service.fork_zygote(lambda end, slot: None), page)
    try:
        assert agent.run() == EXIT_GIVEN_UP
    finally:
        agent.close()
    assert said.count("Worker[w]: no scheduler answers at tcp://127.0.0.1:9 yet") > 1


# ---------------------------------------------------------------- life


def holding() -> Callable[[str], None]:
    """A task that never ends. Made inside a function, it travels by value: the command cannot import this module."""

    def hold(path: str) -> None:
        with open(path, "w"):
            pass
        time.sleep(300)

    return hold


class Command:
    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def text(self) -> str:
        return self.log.read_text()

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture
def start_command(cluster: Any, tmp_path: Path) -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def start(*arguments: str, count: int = 2) -> Command:
        log = tmp_path / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "scaler_worker", "-n", str(count), *arguments, cluster.address],
                stdout=output,
                stderr=output,
            )
        started.append(Command(process, log))
        cluster.wait_until(lambda: len(cluster.opened) == count, f"{count} workers")
        return started[-1]

    yield start
    for command in started:
        command.process.kill()
        command.process.wait(WAIT_SECONDS)


def test_it_starts_works_and_stops(cluster: Any, start_command: Callable[..., Command], gone: Any) -> None:
    command = start_command("-wn", "left,right")
    assert cluster.run(max, 1, 2).loaded == 2
    assert {opened.hello.worker.name for opened in cluster.opened} == {"left", "right"}
    family = command.family()
    command.process.send_signal(signal.SIGINT)
    cluster.wait_until(lambda: len(cluster.lost) == 2, "both goodbyes")
    assert all(lost.is_orderly for lost in cluster.lost)
    assert command.process.wait(WAIT_SECONDS) == 0
    gone(family, "every process of the cluster")
    lines = [line.partition(": ")[2] for line in command.text().splitlines()]
    assert lines[:2] == [
        "logging to ('/dev/stdout',)",
        "ClusterProcess: starting 2 workers, heartbeat_interval_seconds=2, object_retention_seconds=3600",
    ]
    assert [line for line in lines if line.endswith(" started")] == ["Worker[left] started", "Worker[right] started"]
    assert "Traceback" not in command.text()


def test_a_second_signal_does_not_wait_for_tasks(
    cluster: Any, start_command: Callable[..., Command], tmp_path: Path, gone: Any
) -> None:
    command = start_command("--grace-seconds", "300", count=1)
    cluster.dispatch(holding(), (str(tmp_path / "begun"),))
    cluster.wait_until((tmp_path / "begun").exists, "the task to begin")
    family = command.family()
    command.process.send_signal(signal.SIGTERM)
    cluster.wait_until(lambda: 0 in cluster.credits, "the worker to drain")
    command.process.send_signal(signal.SIGTERM)
    assert command.process.wait(WAIT_SECONDS) == 0
    gone(family, "every process of the cluster")


def test_a_worker_that_dies_is_started_again(cluster: Any, start_command: Callable[..., Command]) -> None:
    command = start_command(count=1)
    (agent,) = psutil.Process(command.process.pid).children()
    agent.kill()
    cluster.wait_until(lambda: len(cluster.opened) == 2, "another worker")
    assert cluster.run(max, 1, 2).loaded == 2
    assert "was ended by signal 9" in command.text() and "starting it again" in command.text()


def test_nothing_outlives_a_killed_command(
    cluster: Any, start_command: Callable[..., Command], tmp_path: Path, gone: Any
) -> None:
    command = start_command()
    cluster.dispatch(holding(), (str(tmp_path / "begun"),))
    cluster.wait_until((tmp_path / "begun").exists, "the task to begin")
    family = command.family()
    assert len(family) >= 6
    command.process.kill()
    gone(family, "every process of the cluster")
