"""Workers that are told to go while there is work: nothing is lost, and nothing runs twice (WRK-9, WRK-11)."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from scaler import Client
from tests.support import tasks
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Command, Stage, until

GRACE = ("--grace-seconds", "60")
OLDER = """
import sys
import scaler_worker.service as service
from scaler_worker.__main__ import main
service.__version__ = "0.0.9"
sys.exit(main(sys.argv[1:]))
"""
"""A worker of another version, as far as anybody can see."""


class Load:
    """Submits tasks of several kinds from a thread, so that there are always some under way."""

    UNDER_WAY = 40

    def __init__(self, address: str, log: Path) -> None:
        self._log = str(log)
        self._client = Client(address)
        self._room = threading.Semaphore(self.UNDER_WAY)
        self._is_over = threading.Event()
        self._futures: list[tuple[Future[Any], Any]] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            for make in (self._short, self._short, self._longer, self._nested, self._large):
                assert self._room.acquire(timeout=WAIT), "tasks come to their ends"
                future, expected = make(number)
                future.add_done_callback(lambda _: self._room.release())
                self._futures.append((future, expected))
                number += 1

    def _short(self, number: int) -> tuple[Future[Any], Any]:
        return self._client.submit(tasks.logged_square, number, 0.0, self._log), number * number

    def _longer(self, number: int) -> tuple[Future[Any], Any]:
        return self._client.submit(tasks.logged_square, number, 0.05, self._log), number * number

    def _nested(self, number: int) -> tuple[Future[Any], Any]:
        return self._client.submit(tasks.logged_family, self._client, number, self._log), 2 * number

    def _large(self, number: int) -> tuple[Future[Any], Any]:
        return self._client.submit(tasks.logged_megabyte, number, self._log), bytes(1 << 20)

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(2 * WAIT)
        self._client.shutdown(wait=True)

    @property
    def ended_count(self) -> int:
        return sum(future.done() for future, _ in self._futures)

    def wait_for_more(self, count: int) -> None:
        wanted = self.ended_count + count
        until(lambda: self.ended_count >= wanted, f"{count} further tasks end")

    def finish(self) -> Counter[str]:
        """How often each task has run."""
        self._is_over.set()
        self._thread.join(WAIT)
        for future, expected in self._futures:
            assert future.result(WAIT) == expected
        return Counter(line.split()[0] for line in Path(self._log).read_text().splitlines())


def send_to_all(stage: Stage, command: Command) -> None:
    """As an init system or a batch system ends a service: every process gets the signal at the same time."""
    for process in stage.family(command):
        with suppress(psutil.NoSuchProcess):  # a processor may be replaced meanwhile
            process.send_signal(signal.SIGTERM)


def send_to_one(stage: Stage, command: Command) -> None:
    command.send(signal.SIGTERM)


@pytest.mark.parametrize("send", [send_to_one, send_to_all], ids=["the command", "all its processes"])
def test_a_rolling_upgrade_under_load(stage: Stage, tmp_path: Path, send: Callable[[Stage, Command], None]) -> None:
    cluster = RealCluster(stage, 0)
    old = [stage.start_program(OLDER, cluster.address, "-n", "1", "-wn", f"old{n}", *GRACE) for n in range(2)]
    cluster.wait_for_workers(2)
    with Load(cluster.address, tmp_path / "log") as load:
        load.wait_for_more(40)
        for command in old:
            cluster.start_workers(1, *GRACE)
            cluster.wait_for_workers(3)
            load.wait_for_more(20)
            send(stage, command)
            assert command.wait() == 0
            assert "drained, 0 tasks given up" in command.text
            cluster.wait_for_workers(2)
            load.wait_for_more(20)
        counts = load.finish()
    assert [task for task, count in counts.items() if count > 1] == [], "these ran more than once"
