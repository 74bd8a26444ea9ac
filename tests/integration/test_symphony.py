"""Tasks inside Symphony: the adapter and the service as real processes, and a fake between them that has only what is
known of `soamapi` from public use (tests/support/fake_symphony)."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from scaler.utility.exceptions import ProcessorDiedError, RemoteError
from tests.support import api_tasks, graph_tasks, symphony_tasks, tasks
from tests.support.clusters import NAMINGS_SECONDS
from tests.support.processes import WAIT, Stage, until
from tests.support.restarts import begins, restart_scheduler
from tests.support.symphony import SymphonyCluster, new_world

Start = Any
SCALING = "allocate=even; scaling=vanilla"


@pytest.fixture
def start(stage: Stage) -> Iterator[Start]:
    """A cluster with an adapter; afterwards no rule of Symphony's may have been broken."""
    clusters: list[SymphonyCluster] = []

    def start_cluster(*options: str, services: int = 4, command: list[str] | None = None, **faults: Any) -> Any:
        cluster = SymphonyCluster(stage, new_world(stage.directory, services=services, command=command, **faults))
        clusters.append(cluster)
        cluster.start_adapter(*options)
        return cluster

    yield start_cluster
    for cluster in clusters:
        assert cluster.workers[-1].end() == 0
        cluster.assert_no_breach()


def test_base_concurrency_bounds_tasks_that_are_not_nested(start: Start, tmp_path: Path) -> None:
    """Three meet, so three run at once; there are instances for more, and never a fourth comes."""
    cluster = start("--base-concurrency", "3", services=6)
    (tmp_path / "room").mkdir()
    with Client(cluster.address) as client:
        present = client.map(symphony_tasks.meet, [str(tmp_path / "room")] * 9, [3] * 9)
    assert max(present) == 3


def test_nested_tasks_exceed_a_base_concurrency_of_one(start: Start, tmp_path: Path) -> None:
    cluster = start("--base-concurrency", "1", services=2)
    (tmp_path / "room").mkdir()
    with Client(cluster.address) as client:
        assert client.submit(symphony_tasks.meet_below, client, str(tmp_path / "room"), 2).result(WAIT) == 2


def test_fibonacci_at_a_base_concurrency_of_one(start: Start) -> None:
    """One instance for each level of nesting, and one more: as many as the documents say, and none to spare."""
    cluster = start("--base-concurrency", "1", services=5)
    with Client(cluster.address) as client:
        assert client.submit(tasks.fibonacci, client, 5).result(3 * WAIT) == 5


@pytest.mark.parametrize(
    "faults",
    [{"is_early": True}, {"is_shuffled": True, "callback_threads": 2}, {"is_twice": True}],
    ids=["before the send returns", "out of order", "twice"],
)
def test_responses_in_whatever_order(start: Start, faults: dict[str, Any]) -> None:
    cluster = start("--base-concurrency", "4", services=4, **faults)
    with Client(cluster.address) as client:
        assert client.map(tasks.square, range(40)) == [value * value for value in range(40)]


def test_a_lost_session_is_created_again_and_its_tasks_run_again(start: Start, tmp_path: Path) -> None:
    cluster = start("--base-concurrency", "4", services=4, lose_session_after=5)
    with Client(cluster.address) as client:
        log = str(tmp_path / "log")
        assert client.map(symphony_tasks.note_run, [log] * 30, range(30)) == list(range(30))
    cluster.workers[0].wait_for("opening another one")
    cluster.workers[0].wait_for("uses Symphony session 102")
    runs = Path(log).read_text(encoding="utf-8").split()
    assert len(set(runs)) == 30 and len(runs) < 30 + 2 * 4


def test_symphony_runs_a_task_twice(start: Start, tmp_path: Path) -> None:
    """Its instance has exited: that is Symphony's to repeat, by the retry limit of the profile."""
    cluster = start(services=1)
    with Client(cluster.address) as client:
        assert client.submit(symphony_tasks.exit_once, str(tmp_path / "flag")).result(WAIT) == "the second time"


class Grid:
    """Hosts of the fake, each with one service instance, and the tasks that have noted where they run."""

    def __init__(self, directory: Path) -> None:
        self.taken = directory / "taken"
        self.taken.mkdir()
        self.log = directory / "log"
        self.release = directory / "release"

    def runs(self) -> list[tuple[int, int, int]]:
        """Value, host and process of each."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [tuple(map(int, line.split())) for line in lines]  # type: ignore[misc]

    def wait_for_runs(self, count: int) -> None:
        until(lambda: len(self.runs()) >= count, f"{count} tasks have begun")

    def take(self, *hosts: int) -> None:
        """With all that runs there."""
        for host in hosts:
            (self.taken / str(host)).touch()
        for process in {process for _, host, process in self.runs() if host in hosts}:
            os.kill(process, signal.SIGKILL)

    def give_back(self, host: int) -> None:
        (self.taken / str(host)).unlink()


def test_hosts_that_symphony_takes_away(start: Start, tmp_path: Path) -> None:
    """All of them, and then it gives one back: what ran there, and what waited, runs there, and no task more often."""
    grid = Grid(tmp_path)
    cluster = start("--base-concurrency", "3", services=3, taken_hosts=str(grid.taken))
    with Client(cluster.address) as client:
        files = str(grid.log), str(grid.release)
        futures = [client.submit(symphony_tasks.note_host, number, *files) for number in range(9)]
        grid.wait_for_runs(3)
        grid.take(0, 1, 2)
        grid.release.touch()
        grid.give_back(2)
        values = [future.result(3 * WAIT) for future in futures]
        assert values == [bytes([number]) * symphony_tasks.LARGE_BYTES for number in range(9)]
        runs = grid.runs()
        assert sorted(number for number, _, _ in runs[:3]) == [0, 1, 2], "these ran when the hosts were taken"
        assert sorted(number for number, _, _ in runs[3:]) == list(range(9)), "each of them once afterwards"
        assert {host for _, host, _ in runs[3:]} == {2}
    cluster.wait_until_empty()


def test_a_host_is_taken_away_when_the_value_is_stored(start: Start, tmp_path: Path) -> None:
    """The second run stores it under the same id, and nothing of either stays."""
    leave = tmp_path / "left"
    cluster = start(services=1, leave_flag=str(leave))
    with Client(cluster.address) as client:
        assert client.submit(bytes, symphony_tasks.LARGE_BYTES).result(WAIT) == bytes(symphony_tasks.LARGE_BYTES)
        assert leave.exists()
    cluster.wait_until_empty()


def test_the_host_of_a_task_that_waits_for_its_child_is_taken_away(start: Start, tmp_path: Path) -> None:
    """The child of the first run is an orphan, whose parent submits another one."""
    grid = Grid(tmp_path)
    cluster = start("--base-concurrency", "2", services=4, taken_hosts=str(grid.taken))
    with Client(cluster.address) as client:
        future = client.submit(symphony_tasks.note_host_above, client, str(grid.log), str(grid.release))
        grid.wait_for_runs(2)
        ((_, host, _),) = [run for run in grid.runs() if run[0] == 0]
        grid.take(host)
        grid.wait_for_runs(3)
        grid.release.touch()
        assert future.result(2 * WAIT) == b"\1" * symphony_tasks.LARGE_BYTES
    cluster.wait_until_empty()


def test_symphony_itself_fails_a_task(start: Start) -> None:
    """Without an exception of the service's: the embedded one is None."""
    cluster = start(services=2, fail_task=1)
    with Client(cluster.address) as client:
        with pytest.raises(ProcessorDiedError, match="the task was failed by the system"):
            client.submit_verbose(tasks.square, (3,), {}, lost_processors_limit=1).result(WAIT)
        assert client.submit(tasks.square, 4).result(WAIT) == 16


def test_a_service_that_is_not_ours(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "service.py"
    program.write_text(BROKEN_SERVICE, encoding="utf-8")
    cluster = start(services=1, command=[sys.executable, str(program)])
    with Client(cluster.address) as client, pytest.raises(ProcessorDiedError, match="RuntimeError: KeyError: 'no'"):
        client.submit(tasks.square, 3).result(WAIT)


BROKEN_SERVICE = """
import soamapi
class Container(soamapi.ServiceContainer):
    def on_invoke(self, task_context):
        raise KeyError("no")
Container().run()
"""


def test_errors_of_tasks_are_theirs(start: Start) -> None:
    """They come as data, so Symphony does not run them again, and they are the exceptions that were raised."""
    cluster = start(services=2)
    with Client(cluster.address) as client:
        with pytest.raises(ZeroDivisionError):
            client.submit(divmod, 1, 0).result(WAIT)
        with pytest.raises(RemoteError, match="SystemExit: 3"):
            client.submit(sys.exit, 3).result(WAIT)
        with pytest.raises(Exception, match="cannot be serialized"):
            client.submit(threading.Lock).result(WAIT)


def test_profiles_and_what_is_printed(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    cluster = start(services=2)
    with Client(cluster.address, stream_output=True) as client:
        future = client.submit(api_tasks.say, "out of Symphony")
        future.result(WAIT)
        assert future.profiling_info().duration_s > 0
        until(lambda: "out of Symphony" in capfd.readouterr().out, "the line has come")


def test_large_values_and_functions(start: Start) -> None:
    cluster = start(services=2)
    data = bytes(range(256)) * 8192

    def size_of_all(more: bytes) -> int:
        return len(data) + len(more)

    with Client(cluster.address) as client:
        assert client.submit(size_of_all, data).result(WAIT) == 2 * len(data)
        assert client.submit(bytes, data).result(WAIT) == data
        assert client.submit(api_tasks.Counting.__name__.lower).result(WAIT) == "counting"


def test_a_killed_adapter_loses_nothing(stage: Stage, tmp_path: Path) -> None:
    cluster = SymphonyCluster(stage, new_world(stage.directory, services=3), "--base-concurrency", "2")
    first = cluster.start_adapter()
    with Client(cluster.address) as client:
        begun = [str(tmp_path / f"begun-{number}") for number in range(2)]
        futures = [client.submit(symphony_tasks.sleep_long, path, 1.0) for path in begun]
        futures += [client.submit(tasks.square, value) for value in range(20)]
        until(lambda: all(Path(path).exists() for path in begun), "both places are taken")
        first.end(signal.SIGKILL)
        second = cluster.start_adapter()
        assert [future.result(WAIT) for future in futures[2:]] == [value * value for value in range(20)]
        assert [future.result(WAIT) for future in futures[:2]] == ["slept"] * 2
    assert second.end() == 0
    cluster.assert_no_breach()


def test_no_task_begins_twice_when_the_scheduler_is_restarted(start: Start, tmp_path: Path) -> None:
    """Three deaths, in the middle of everything: of small values, and of some that lie in the storage."""
    cluster = start("--base-concurrency", "3", services=3)
    log = tmp_path / "log"
    sizes = [10 if number % 4 else 200_000 for number in range(15)]
    with Client(cluster.address) as client:
        futures = [
            client.submit(graph_tasks.noted_sleep, str(log), f"task{number}", size, 0.5)
            for number, size in enumerate(sizes)
        ]
        for deaths in range(1, 4):
            until(lambda deaths=deaths: len(begins(log)) >= 3 * deaths, "some have begun")
            restart_scheduler(cluster)
        assert [len(future.result(WAIT)) for future in futures] == sizes
    counts = begins(log)
    assert len(counts) == len(sizes) and set(counts.values()) == {1}, counts
    cluster.wait_until_empty(NAMINGS_SECONDS + WAIT)


def test_a_task_that_ends_while_there_is_no_scheduler_begins_once(start: Start, tmp_path: Path) -> None:
    cluster = start("--base-concurrency", "1", services=1)
    log = tmp_path / "log"
    with Client(cluster.address) as client:
        future = client.submit(graph_tasks.noted_sleep, str(log), "task", 10, 1.0)
        until(lambda: begins(log), "it has begun")
        cluster.scheduler.end(signal.SIGKILL)
        until(lambda: begins(tmp_path / "log.ended"), "it has ended")
        cluster.start_scheduler()
        assert len(future.result(WAIT)) == 10
    assert begins(log) == {"task": 1}


def test_present_seconds_of_zero_keep_nothing(start: Start, tmp_path: Path) -> None:
    cluster = start("--base-concurrency", "1", "--present-seconds", "0", services=2)
    log = tmp_path / "log"
    with Client(cluster.address) as client:
        future = client.submit(graph_tasks.noted_sleep, str(log), "task", 10, 1.0)
        until(lambda: begins(log), "it has begun")
        restart_scheduler(cluster)
        assert len(future.result(WAIT)) == 10
    assert begins(log) == {"task": 2}


# ---------------------------------------------------------------- ends


def test_a_canceled_task_that_runs_alone_is_ended_with_the_session(start: Start, tmp_path: Path) -> None:
    cluster = start("--base-concurrency", "1", services=1)
    with Client(cluster.address) as client:
        running = client.submit(symphony_tasks.sleep_long, str(tmp_path / "begun"), 600.0)
        until((tmp_path / "begun").exists, "it runs")
        queued = client.submit(tasks.square, 2)  # not before: it would run first if its function were there first
        assert queued.cancel()
        begun_at = time.monotonic()
        running.cancel()
        assert client.submit(tasks.square, 3).result(WAIT) == 9, "its place is free again"
        assert running.cancelled() and time.monotonic() - begun_at < WAIT


def test_a_canceled_task_beside_others_goes_on(start: Start, tmp_path: Path) -> None:
    """Symphony cannot end it alone, so it is not said to have ended."""
    cluster = start("--base-concurrency", "2", services=2)
    with Client(cluster.address) as client:
        futures = [client.submit(symphony_tasks.sleep_long, str(tmp_path / name), 3.0) for name in ("one", "two")]
        until(lambda: all((tmp_path / name).exists() for name in ("one", "two")), "both run")
        futures[0].cancel()
        assert futures[1].result(WAIT) == "slept", "its neighbour is not disturbed"


def test_a_task_that_takes_too_long(start: Start, tmp_path: Path) -> None:
    cluster = start("--base-concurrency", "1", services=1)
    with Client(cluster.address) as client:
        slow = client.submit_verbose(symphony_tasks.sleep_long, (str(tmp_path / "begun"), 600.0), {}, timeout=0.5)
        with pytest.raises(TimeoutError, match=r"longer than its timeout of 0\.5 s and was stopped"):
            slow.result(WAIT)
        assert client.submit(tasks.square, 3).result(WAIT) == 9


def test_told_to_stop_it_finishes_what_runs(start: Start, tmp_path: Path) -> None:
    cluster = start("--base-concurrency", "1", "--grace-seconds", "20", services=1)
    with Client(cluster.address) as client:
        running = client.submit(symphony_tasks.sleep_long, str(tmp_path / "begun"), 1.0)
        until((tmp_path / "begun").exists, "it runs")
        queued = client.submit(tasks.square, 3)  # not before: it would run first if its function were there first
        cluster.workers[0].send(signal.SIGTERM)
        assert running.result(WAIT) == "slept"
        assert cluster.workers[0].wait() == 0
        cluster.workers[0].wait_for("drained, 0 tasks given up")
        cluster.start_adapter()
        assert queued.result(WAIT) == 9, "what had not begun was handed back"


# ---------------------------------------------------------------- starting


def test_an_application_that_does_not_exist(stage: Stage) -> None:
    cluster = SymphonyCluster(stage, new_world(stage.directory))
    adapter = cluster.start_adapter(application="Nonsense")
    assert adapter.wait() == 1
    assert "cannot open a Symphony session: application 'Nonsense': there is no enabled application" in adapter.text


def test_a_session_type_that_is_not_in_the_profile(stage: Stage) -> None:
    cluster = SymphonyCluster(stage, new_world(stage.directory))
    adapter = cluster.start_adapter("--session-type", "Nonsense")
    assert adapter.wait() == 1
    assert "session type 'Nonsense'" in adapter.text
    cluster.assert_no_breach()


def test_a_worker_manager_brings_it_while_there_is_work(stage: Stage) -> None:
    cluster = SymphonyCluster(stage, new_world(stage.directory), scheduler=("--policy-content", SCALING))
    manager = cluster.start_manager("--service-name", "ScalerService", "-mtc", "2")
    manager.wait_for("connected to the scheduler")
    with Client(cluster.address) as client:
        assert client.map(tasks.square, range(20)) == [value * value for value in range(20)]
        cluster.wait_until(lambda status: not status.workers, "the idle adapter is gone")
    assert manager.end() == 0
    cluster.assert_no_breach()


def test_as_the_first_documents_show(stage: Stage) -> None:
    cluster = SymphonyCluster(stage, new_world(stage.directory))
    with cluster.fake():
        adapter = stage.start_installed(f"scaler_symphony_cluster {cluster.address} ScalerService --base-concurrency 4")
    with Client(cluster.address) as client:
        assert client.submit(tasks.fibonacci, client, 3).result(WAIT) == 2
    assert adapter.end() == 0
    cluster.assert_no_breach()
