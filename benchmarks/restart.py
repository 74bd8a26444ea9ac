"""`python -m benchmarks.restart`: how soon does a cluster go on whose scheduler is killed and started again?

`work`: while tasks run that only sleep, the scheduler is ended by SIGKILL, and another one is started. Each task notes
in a file that it begins, so the file tells whether one was lost or began twice, and how long none began. The first
tasks are submitted one after another, so that all the time some worker is about to have room for the next one. `queue`:
very many tasks wait behind one that runs, and the next scheduler has to be given all of them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.driver import tasks
from benchmarks.naps import beginnings, nap
from scaler import Client
from scaler.cluster.cluster import Cluster
from scaler.cluster.object_storage_server import ObjectStorageServerProcess
from scaler.cluster.scheduler import SchedulerProcess
from scaler.monitoring import MonitorError
from scaler_protocol.addresses import default_storage_address
from scaler_protocol.process.ports import answers, free_ports

LONGEST_SECONDS = 120.0
LOOK_SECONDS = 0.05
QUIET: dict[str, Any] = {"logging_level": "ERROR", "logging_paths": ("/dev/stderr",), "insecure": True}


class Parts:
    """Storage, scheduler and workers, each by its command."""

    def __init__(self, workers: int) -> None:
        self.address = f"tcp://127.0.0.1:{free_ports(3)}"
        self._storage_address = str(default_storage_address(self.address))
        self._storage = ObjectStorageServerProcess(self._storage_address, **QUIET)
        self._cluster = Cluster(self.address, worker_names=[str(number) for number in range(workers)], **QUIET)
        self._storage.start()
        self._scheduler = self._begin_scheduler()
        self._cluster.start()

    def _begin_scheduler(self) -> SchedulerProcess:
        scheduler = SchedulerProcess(self.address, storage_address=self._storage_address, **QUIET)
        scheduler.start()
        until(lambda: answers(self.address), "the scheduler answers")
        return scheduler

    def restart(self) -> float:
        """When the new process is up, which is when its socket takes connections."""
        self._scheduler.kill()
        self._scheduler.join()
        self._scheduler = self._begin_scheduler()
        return time.time()

    def end(self) -> None:
        for part in (self._cluster, self._scheduler, self._storage):
            part.end()


@contextmanager
def cluster(workers: int) -> Iterator[tuple[Parts, Client]]:
    parts = Parts(workers)
    try:
        with Client(parts.address, insecure=True) as client:
            until(lambda: client.cluster_info().worker_count == workers, "the workers are there")
            yield parts, client
    finally:
        parts.end()


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LONGEST_SECONDS
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"after {LONGEST_SECONDS:g} s it is not so that {what}")
        time.sleep(LOOK_SECONDS)


def work(count: int, seconds: float, workers: int) -> None:
    with tempfile.TemporaryDirectory(prefix="restart-") as directory, cluster(workers) as (parts, client):
        log = Path(directory) / "begun"
        futures = []
        for number in range(count):
            futures.append(client.submit(nap, str(log), number, seconds))
            if number < workers:  # else all would end at once, and none could begin before
                time.sleep(seconds / workers)
        until(lambda: len(beginnings(log)) >= min(count // 4, 2 * workers), "some have begun")
        before = len(beginnings(log))
        killed_at = time.time()
        up_at = parts.restart()
        right = sum(future.result() == number for number, future in enumerate(futures))
        found = beginnings(log)
        twice = len(found) - len({one.number for one in found})
        first = min(one.at for one in found if one.at > up_at)
        print(f"{count} tasks of {seconds:g} s, {workers} workers, {before} begun when the scheduler was killed")
        print(f"  lost: {count - right}, begun again: {twice}")
        print(f"  up {up_at - killed_at:.2f} s after the kill; the next task began {first - up_at:.2f} s after that")


def queue(count: int) -> None:
    with cluster(1) as (parts, client):
        client.submit(time.sleep, LONGEST_SECONDS)
        begun_at = time.perf_counter()
        futures = [client.submit(tasks.nothing) for _ in range(count)]  # a map would send no more than a window
        until(lambda: _queued(client) >= count, "all tasks are queued")
        print(f"{count:,} tasks were with the first scheduler after {time.perf_counter() - begun_at:.1f} s")
        killed_at = time.time()
        up_at = parts.restart()
        until(lambda: _queued(client) >= count, "all tasks are queued again")
        print(f"  up {up_at - killed_at:.2f} s after the kill; all queued {time.time() - up_at:.1f} s after that")
        assert not any(future.done() for future in futures)
        client.clear()


def _queued(client: Client) -> int:
    """And dispatched: the worker holds some of them."""
    try:
        counts = client.cluster_info().task_counts
    except MonitorError:  # there is no scheduler at the moment
        return 0
    return counts.get("queued", 0) + counts.get("dispatched", 0)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.restart", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=("work", "queue"), help="a measure (default: both)")
    parser.add_argument("--tasks", type=int, default=1_000, help="that sleep (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=100, help="which run one each (default: %(default)s)")
    parser.add_argument("--queued", type=int, default=1_000_000, help="tasks that wait (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.only != "queue":
        work(options.tasks, options.seconds, options.workers)
    if options.only != "work":
        queue(options.queued)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
