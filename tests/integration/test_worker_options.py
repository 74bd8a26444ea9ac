"""Options of the workers, seen from outside."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import psutil
import pytest

from scaler import Client
from scaler.utility.exceptions import TaskTimeoutError
from scaler_protocol.transport.lane import OFF_VARIABLE
from tests.support import option_tasks, tasks
from tests.support.clusters import RealCluster, offered
from tests.support.processes import WAIT, Stage, until


def test_a_timeout_for_every_task(stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 1, workers=("--task-timeout-seconds", "0.5"))
    with Client(cluster.address) as client:
        with pytest.raises(TaskTimeoutError, match=r"timeout of 0\.5 s"):
            client.submit(tasks.sleep_after_note, str(tmp_path / "log"), 100.0).result(WAIT)
        with pytest.raises(TaskTimeoutError, match=r"timeout of 0\.2 s"):
            client.submit_verbose(tasks.spin_after_note, (str(tmp_path / "log"),), {}, timeout=0.2).result(WAIT)
        assert client.submit(tasks.square, 3).result(WAIT) == 9


def test_a_busy_processor_collects_garbage(stage: Stage) -> None:
    cluster = RealCluster(stage, 1, workers=("--garbage-collect-interval-seconds", "0.05"))
    with Client(cluster.address) as client:
        begun_with = client.submit(option_tasks.full_collections).result(WAIT)

        def has_collected() -> bool:
            return client.submit(option_tasks.full_collections).result(WAIT) >= begun_with + 5

        until(has_collected, "five collections without a pause between tasks")


def test_memory_above_the_threshold_is_given_back(stage: Stage) -> None:
    cluster = RealCluster(stage, 1, workers=("--trim-memory-threshold-bytes", "1M"))
    with Client(cluster.address) as client:
        full = client.submit(option_tasks.fragment, 40_000).result(WAIT)
        pause = threading.Event()

        def is_given_back() -> bool:
            pause.wait(0.7)  # idle for long enough to tidy up
            return client.submit(option_tasks.resident_bytes).result(WAIT) < full - 40_000_000

        until(is_given_back, "half of the freed blocks have gone back to the system")


def test_memory_below_the_threshold_is_kept(stage: Stage) -> None:
    cluster = RealCluster(stage, 1, workers=("--trim-memory-threshold-bytes", "8GiB"))
    with Client(cluster.address) as client:
        full = client.submit(option_tasks.fragment, 40_000).result(WAIT)
        threading.Event().wait(1.0)  # it tidies up after half a second, and does not trim
        assert client.submit(option_tasks.resident_bytes).result(WAIT) > full - 20_000_000


def test_a_waiting_process_stands_still(stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 1, workers=("--hard-processor-suspend",))
    with Client(cluster.address) as client:
        was_stopped, runs_again = client.submit(option_tasks.wait_for_suspension, client, str(tmp_path / "log")).result(
            WAIT
        )
        assert was_stopped and runs_again
        assert client.submit(tasks.fibonacci, client, 5).result(WAIT) == 5


def test_nothing_stands_still_unasked(stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 1)
    with Client(cluster.address) as client:
        future = client.submit(tasks.parent_of_sleepers, client, str(tmp_path / "log"))
        until(lambda: len(lines_of(tmp_path / "log")) == 2, "the child runs")
        states = {one.status() for one in psutil.Process(cluster.workers[0].pid).children(recursive=True)}
        assert psutil.STATUS_STOPPED not in states
        future.cancel()


def test_a_suspended_task_can_be_canceled(stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 1, workers=("-hps",))
    with Client(cluster.address) as client:
        future = client.submit(tasks.parent_of_sleepers, client, str(tmp_path / "log"))

        def is_stopped() -> bool:
            family = psutil.Process(cluster.workers[0].pid).children(recursive=True)
            return any(one.status() == psutil.STATUS_STOPPED for one in family)

        until(is_stopped, "the parent stands still")
        assert future.cancel() and future.cancelled()
        assert client.submit(tasks.square, 4).result(WAIT) == 16


def test_processors_log_to_files_of_their_own(stage: Stage, tmp_path: Path) -> None:
    log, preload_log = tmp_path / "cluster.log", tmp_path / "preload.log"
    spec = f"tests.support.option_tasks:preloaded({str(preload_log)!r}, times=2)"
    cluster = RealCluster(stage, 1, workers=("--logging-paths", str(log), "--preload", spec))
    with Client(cluster.address) as client:
        process_id = client.submit(option_tasks.warn, "said in a task").result(WAIT)
    assert lines_of(preload_log).count(f"preloaded in {process_id}") == 2
    own = (tmp_path / f"cluster.log-{process_id}").read_text()
    assert f"preloading: tests.support.option_tasks:preloaded with args ({str(preload_log)!r},)" in own
    assert re.search(r"^\[WARN\].*said in a task$", own, re.MULTILINE)
    assert "ClusterProcess: starting 1 workers" in log.read_text() and "said in a task" not in log.read_text()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("tests.support.option_tasks:NOT_CALLABLE", "is not callable"),
        ("tests.support.option_tasks:missing", "cannot be found"),
        ("no.such.module:function", "cannot be found"),
    ],
)
def test_what_cannot_be_preloaded(stage: Stage, spec: str, words: str) -> None:
    """The worker says why, and goes on trying, ever more slowly: the module may be installed later."""
    cluster = RealCluster(stage, 1, workers=("--preload", spec))
    cluster.workers[0].wait_for(f"PreloadSpecError.*{words}.*module.sub:function", count=2)
    assert cluster.workers[0].end() == 0


def test_names_capabilities_and_threads(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OFF_VARIABLE, "1")  # the lane has no threads
    cluster = RealCluster(
        stage, 2, workers=("-wn", "left,right", "--per-worker-capabilities", "gpu,linux=2", "--io-threads", "3")
    )
    status = cluster.snapshot()
    assert sorted(worker.name for worker in status.workers) == ["left", "right"]
    assert list(map(offered, status.workers)) == [{"gpu": -1, "linux": 2}] * 2
    agents = psutil.Process(cluster.workers[0].pid).children()
    until(lambda: all(one.num_threads() == 1 + 1 + 3 for one in agents), "main, reaper and three threads for sockets")


def test_workers_look_for_a_scheduler_only_so_long(stage: Stage) -> None:
    port = stage.ports()
    begun_at = time.monotonic()
    command = stage.start("scaler_worker", "-n", "1", "--death-timeout-seconds", "0.5", f"tcp://127.0.0.1:{port}")
    assert command.wait() == 1 and time.monotonic() - begun_at >= 0.5


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
