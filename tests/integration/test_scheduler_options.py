"""Options of the scheduler, seen from outside."""

from __future__ import annotations

import importlib.util
import selectors
import threading
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from scaler import Client
from scaler.monitoring import Subscription
from scaler.utility.exceptions import NoWorkerError
from scaler_protocol import codes
from scaler_protocol.ids import new_peer_id
from scaler_protocol.keys import find_pass
from scaler_protocol.messages import ClusterStatus, Hello, Welcome
from scaler_protocol.process import UsageError
from scaler_protocol.session import Opened, SessionDialer
from scaler_protocol.transport import DealerEndpoint
from scaler_scheduler.config import parse
from tests.support import option_tasks, tasks
from tests.support.clusters import RealCluster, storage_status
from tests.support.processes import WAIT, Stage, until


def welcome(address: str, role: int) -> Welcome:
    dialer = SessionDialer(hello=Hello(1, 1, role=role, peer_id=new_peer_id()), server_name="scheduler")
    endpoint = DealerEndpoint(address, dialer, find_pass(address))
    end_at = time.monotonic() + WAIT
    try:
        while time.monotonic() < end_at:
            for event in endpoint.poll(time.monotonic()):
                if isinstance(event, Opened):
                    return event.welcome
            if not endpoint.settle(time.monotonic()):
                with selectors.DefaultSelector() as selector:
                    selector.register(endpoint.fileno(), selectors.EVENT_READ)
                    selector.select(0.05)
    finally:
        endpoint.close()
    raise AssertionError("the scheduler did not welcome us")


def test_no_more_tasks_wait_than_may(stage: Stage) -> None:
    cluster = RealCluster(stage, 0, scheduler=("--max-number-of-tasks-waiting", "3"))
    with Client(cluster.address) as client:
        waiting = [client.submit(tasks.square, i) for i in range(3)]
        cluster.wait_until(lambda status: count(status, "queued") == 3, "three tasks wait")
        with pytest.raises(NoWorkerError, match="--max-number-of-tasks-waiting"):
            client.submit(tasks.square, 3).result(WAIT)
        assert not any(future.done() for future in waiting)
        cluster.start_workers(1)
        assert [future.result(WAIT) for future in waiting] == [0, 1, 4]


def count(status: object, name: str) -> int:
    return sum(one.value for one in status.task_counts if one.name == name)  # type: ignore[attr-defined]


def test_clients_and_workers_have_timeouts_of_their_own(stage: Stage) -> None:
    cluster = RealCluster(
        stage, 0, scheduler=("-ct", "20", "-wt", "30", "-ot", "40", "-aosa", "tcp://127.0.0.7:9", "-p")
    )
    client, worker = (welcome(cluster.address, role) for role in (codes.ROLE_CLIENT, codes.ROLE_WORKER))
    assert (client.timers.lease_seconds, worker.timers.lease_seconds) == (20, 30)
    assert (worker.object_retention_seconds, worker.storage_address) == (40, "tcp://127.0.0.7:9")
    assert client.is_protected


def test_protected_from_the_command_line(stage: Stage) -> None:
    protected = RealCluster(stage, 0, scheduler=("-p",))
    with Client(protected.address) as client, pytest.raises(ValueError, match="protected"):
        client.shutdown()
    open_to_all = RealCluster(stage, 0, scheduler=("-p", "False"))
    Client(open_to_all.address).shutdown()
    assert open_to_all.scheduler.wait() == 0


def test_the_monitor_publishes_where_and_as_often_as_told(stage: Stage) -> None:
    port = stage.ports()
    address = f"tcp://127.0.0.1:{port}"
    cluster = RealCluster(stage, 0, scheduler=("-ma", address, "--status-report-interval-seconds", "0.1"))
    cluster.scheduler.wait_for(f"listen to scheduler monitor address {address}")
    with Subscription(address) as subscription:
        uptimes: list[float] = []
        while len(uptimes) < 4:
            heard = [one.message for one in subscription.poll(WAIT) if one.topic == "status"]
            assert heard or not uptimes, "nothing is published"
            uptimes += [message.uptime_seconds for message in heard if isinstance(message, ClusterStatus)]
    # A busy machine makes some of them late, not all.
    assert min(later - earlier for earlier, later in pairwise(uptimes)) < 0.5


def test_threads_for_sockets(stage: Stage) -> None:
    one, four = (RealCluster(stage, 0, scheduler=("--io-threads", n)) for n in ("1", "4"))
    for cluster in (one, four):
        cluster.snapshot()
    threads = [psutil.Process(cluster.scheduler.pid).num_threads() for cluster in (one, four)]
    assert threads[1] - threads[0] == 3


@pytest.mark.skipif(importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed")
def test_everything_on_uvloop(stage: Stage) -> None:
    cluster = RealCluster(stage, 1, scheduler=("--event-loop", "uvloop"), workers=("--event-loop", "uvloop"))
    cluster.scheduler.wait_for("use event loop: uvloop")
    cluster.workers[0].wait_for(r"Worker\[0\]: use event loop: uvloop")
    with Client(cluster.address) as client:
        assert client.map(tasks.square, range(2000)) == [i * i for i in range(2000)]
        assert client.submit(tasks.fibonacci, client, 6).result(WAIT) == 8
        assert len(client.submit(tasks.megabytes, 3).result(WAIT)) == 3 << 20
    assert cluster.workers[0].end() == 0


def test_a_capability_policy_as_text_and_quantities(stage: Stage) -> None:
    cluster = RealCluster(stage, 1, scheduler=("--policy-content", "allocate=capability; scaling=no"))
    with Client(cluster.address) as client:
        two = client.submit_verbose(tasks.square, (2,), {}, {"gpu": 2})
        assert client.submit(tasks.square, 3).result(WAIT) == 9, "who needs nothing waits for nobody"
        cluster.start_workers(1, "-pwc", "gpu=1", "-wn", "one")
        cluster.wait_for_workers(2)
        presence = client.submit_verbose(tasks.square, (1,), {}, {"gpu": -1})
        assert presence.result(WAIT) == 1 and not two.done(), "one unit is not two"
        cluster.start_workers(1, "-pwc", "gpu=2", "-wn", "two")
        assert two.result(WAIT) == 4


def test_functions_that_no_task_uses_are_dropped(stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 1, scheduler=("--object-retention-seconds", "0.1"))
    log = str(tmp_path / "log")

    def function() -> int:
        import sys

        from tests.support.option_tasks import made_so_far

        return made_so_far(log, sys._getframe().f_code)

    with Client(cluster.address) as client:
        pause = threading.Event()
        assert client.submit(function).result(WAIT) == 1, "it travels with its first call"
        assert client.submit(function).result(WAIT) == 2, "and is stored for the second"
        assert client.submit(function).result(WAIT) == 2, "a moment later it is still there"

        def is_made_again() -> bool:
            pause.wait(1.0)
            return client.submit(function).result(WAIT) > 2

        until(is_made_again, "the function has been dropped and made again")


# ---------------------------------------------------------------- balancing


def test_eight_tasks_on_one_worker_and_seven_more_workers_join(stage: Stage, tmp_path: Path) -> None:
    cluster = RealCluster(stage, 1)
    log = tmp_path / "log"
    with Client(cluster.address) as client:
        futures = [client.submit(option_tasks.together, str(log), 8) for _ in range(8)]
        until(log.exists, "the first has begun")
        cluster.start_workers(7)
        assert len({future.result(2 * WAIT) for future in futures}) == 8


def test_queued_tasks_move_from_a_busy_worker_to_an_idle_one(stage: Stage, tmp_path: Path) -> None:
    """A worker that believes its tasks to be tiny holds several when the first turns out long."""
    cluster = RealCluster(stage, 1, scheduler=("-ls", "0.2", "-lbt", "2"))
    log = tmp_path / "log"
    with Client(cluster.address) as client:
        client.map(tasks.square, range(200))
        for _ in range(50):
            client.submit(option_tasks.together, str(tmp_path / "alone"), 1).result(WAIT)
        futures = [client.submit(option_tasks.together, str(log), 4) for _ in range(4)]
        until(log.exists, "the first has begun")
        cluster.start_workers(3)
        assert len({future.result(2 * WAIT) for future in futures}) == 4


def test_the_storage_that_a_scheduler_starts_has_its_limits(stage: Stage, tmp_path: Path) -> None:
    port = stage.ports()
    limits = ("--storage-memory-limit", "8MiB", "--storage-disk-limit", "64MiB")
    scheduler = stage.start(
        "scaler_scheduler", f"tcp://127.0.0.1:{port}", *limits, "--storage-spill-directory", str(tmp_path / "spill")
    )
    scheduler.wait_for("listen to object storage address")
    status = storage_status(f"tcp://127.0.0.1:{port + 1}")
    assert (status.memory_limit_bytes, status.disk_limit_bytes) == (8 << 20, 64 << 20)
    assert 0 < status.disk_room_bytes <= 64 << 20


def test_the_storage_that_a_scheduler_starts_may_keep_objects() -> None:
    config = parse(["tcp://127.0.0.1:2345", "--storage-data-directory", "/data", "--storage-disk-limit", "1GiB"])
    assert config.storage_arguments == ("--data-directory=/data", f"--disk-limit={1 << 30}")


def test_limits_of_a_storage_that_is_started_elsewhere_are_a_mistake() -> None:
    with pytest.raises(UsageError, match="give --memory-limit to the one that --object-storage-address names"):
        parse(["tcp://127.0.0.1:2345", "-osa", "tcp://127.0.0.1:2346", "--storage-memory-limit", "1GiB"])
