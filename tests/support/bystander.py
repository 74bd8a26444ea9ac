"""A client in the right beside peers that break the rules, and the memory that those leave behind in the servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from scaler import Client
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, until


class Bystander:
    """A client that maps all the time and keeps what goes wrong."""

    def __init__(self, address: str, *, insecure: bool = True) -> None:
        self._address, self._insecure = address, insecure
        self._stop = threading.Event()
        self.rounds = 0
        self.errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Client(self._address, insecure=self._insecure) as client:
                while not self._stop.is_set():
                    assert client.map(abs, range(-50, 0)) == list(range(50, 0, -1))
                    self.rounds += 1
        except BaseException as error:
            self.errors.append(error)

    def is_served(self) -> None:
        """Two rounds end from now on: the second began after this was asked."""
        rounds = self.rounds
        until(lambda: self.rounds >= rounds + 2 or bool(self.errors), "the bystander's tasks are done")
        assert not self.errors

    def close(self) -> None:
        self._stop.set()
        self._thread.join(WAIT)
        assert not self._thread.is_alive() and not self.errors


@contextmanager
def unharmed(cluster: RealCluster, most_bytes: int) -> Iterator[Bystander]:
    """Meanwhile a bystander is served, and scheduler and storage grow by less than that."""
    bystander = Bystander(cluster.address, insecure=cluster.keys.insecure)
    bystander.is_served()
    servers = [psutil.Process(command.pid) for command in (cluster.scheduler, cluster.storage)]
    before = [server.memory_info().rss for server in servers]
    yield bystander
    bystander.is_served()
    bystander.close()
    grown = [server.memory_info().rss - old for server, old in zip(servers, before, strict=True)]
    assert max(grown) < most_bytes, f"scheduler and storage grew by {grown} bytes"
