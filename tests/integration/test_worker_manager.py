"""A worker manager of real processes: workers come with the load and go with it (spec chapter 19)."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scaler import Client
from tests.support import gpu_tasks, tasks
from tests.support.clusters import RealCluster, watching
from tests.support.processes import WAIT, Command, Stage, until

SCALING = ("--policy-content", "allocate=even; scaling=vanilla")


def start_manager(cluster: RealCluster, *options: str) -> Command:
    return cluster.stage.start(
        "scaler_worker.manager", "baremetal_native", cluster.address, "-wmi", "here", "-mtc", "2", *options
    )


def test_workers_come_with_work_and_go_without(stage: Stage) -> None:
    cluster = RealCluster(stage, 0, scheduler=SCALING)
    manager = start_manager(cluster)
    manager.wait_for("connected to the scheduler")
    with Client(cluster.address) as client:
        assert client.map(tasks.square, range(100)) == [number * number for number in range(100)]
        assert 1 <= len(cluster.snapshot().workers) <= 2
        cluster.wait_until(lambda status: not status.workers, "idle workers are gone")
        manager.wait_for("stop unit")
        assert client.submit(tasks.square, 3).result(WAIT) == 9, "and they come again"
    assert manager.end(signal.SIGTERM) == 0


def test_a_killed_manager_takes_its_workers_along_and_another_takes_over(stage: Stage) -> None:
    cluster = RealCluster(stage, 0, scheduler=SCALING)
    first = start_manager(cluster)
    with Client(cluster.address) as client:
        assert client.submit(tasks.square, 2).result(WAIT) == 4
        first.end(signal.SIGKILL)
        start_manager(cluster)
        assert client.submit(tasks.square, 3).result(WAIT) == 9


def test_two_managers_of_one_name(stage: Stage) -> None:
    cluster = RealCluster(stage, 0, scheduler=SCALING)
    start_manager(cluster).wait_for("connected to the scheduler")
    second = start_manager(cluster)
    second.wait_for("a worker manager with the id of here is connected: give each its own")
    assert second.end(signal.SIGTERM) == 0


def test_all_workers_at_once(stage: Stage) -> None:
    cluster = RealCluster(stage, 0)
    manager = start_manager(cluster, "--mode", "fixed")
    cluster.wait_for_workers(2)
    assert manager.end(signal.SIGTERM) == 0


def test_workers_of_a_manager_have_gpus_of_their_own(stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 0, scheduler=("--policy-content", "allocate=capability; scaling=capability"))
    manager = start_manager(cluster, "--gpus", "4,5")
    with Client(cluster.address) as client:
        used = client.map(gpu_tasks.use, [str(tmp_path)] * 100, capabilities={"gpu": 1})
        assert all(used), "no two tasks at once have one GPU"
    assert manager.end(signal.SIGTERM) == 0


def test_a_webhook_brings_workers(stage: Stage) -> None:
    """As in the first documents: an adapter, a scheduler that is told where it listens, and load. The adapter waits for
    the key if this scheduler is the first server to need it."""
    port, http = stage.ports(), stage.ports()
    address, url = f"tcp://127.0.0.1:{port}", f"http://127.0.0.1:{http}"
    adapter = stage.start("scaler_worker.adapter", address, "--host", "127.0.0.1", "--port", str(http))
    scheduler = stage.start("scaler_scheduler", address, "--adapter-webhook-url", url)
    adapter.wait_for("NativeWorkerAdapter: listen to")
    with Client(address) as client, watching(address) as watch:
        assert client.map(tasks.square, range(100)) == [number * number for number in range(100)]
        assert [worker.name.partition("-")[0] for worker in watch.snapshot().workers] == ["native"]
        until(lambda: not watch.snapshot().workers, "the idle worker is shut down")
        assert client.submit(tasks.square, 3).result(WAIT) == 9
    assert scheduler.end(signal.SIGTERM) == 0
    assert adapter.end(signal.SIGTERM) == 0


LIAR = {"status": "ok", "worker_group_id": "g", "worker_ids": ["nobody"], "max_worker_groups": 10**30}


@pytest.mark.parametrize(
    "status, body, said",
    [
        (500, b"<html>", "answered get_worker_adapter_info with 500"),
        (200, b"\xff[", "answered get_worker_adapter_info with 200 and no JSON object"),
        (401, b"{}", "the worker manager of the webhook ended with exit code 1"),
        (200, json.dumps(LIAR).encode(), "the adapter answered with worker group g, which it had given before"),
    ],
    ids=["500", "nonsense", "refused", "lies about its size and its groups"],
)
def test_a_webhook_that_is_no_help(stage: Stage, status: int, body: bytes, said: str) -> None:
    """It is said in the log, and the workers that are there go on. More workers are asked for while there is load, so
    there is load until then: on a busy machine the webhook's process takes longer to start than some tasks take."""
    with answering(status, body) as url:
        cluster = RealCluster(stage, 1, scheduler=("--adapter-webhook-url", url))

        def is_said() -> bool:
            futures = [client.submit(tasks.slow_square, number, 0.02) for number in range(100)]
            assert [future.result(WAIT) for future in futures] == [number * number for number in range(100)]
            return said in cluster.scheduler.text

        with Client(cluster.address) as client:
            until(is_said, f"the scheduler logs {said!r}")
        assert cluster.scheduler.end(signal.SIGTERM) == 0


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """The URL of a server that answers every request alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (its name there)
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(WAIT)


def test_a_webhook_where_nobody_listens(stage: Stage) -> None:
    """The rest of the cluster goes on."""
    cluster = RealCluster(stage, 1, scheduler=("--adapter-webhook-url", "http://127.0.0.1:1"))
    cluster.scheduler.wait_for("asking again until it answers")
    with Client(cluster.address) as client:
        assert client.submit(tasks.square, 3).result(WAIT) == 9
