"""A cluster over hosts: scheduler and storage on one, workers on two, clients on a fourth. There is no local lane and
no shared memory between them. The key is one file that was copied, as the docs tell."""

from __future__ import annotations

import itertools
import time

from tests.support.hosts import HostCommand, Network
from tests.support.processes import Stage
from tests.support.workload import Running

SERVERS, FIRST, SECOND, CLIENT, RELAY = "servers", "first", "second", "client", "relay"
WORKER_HOSTS = (FIRST, SECOND)
PORT = 2345
STORAGE_PORT = 2346


class HostCluster:
    def __init__(self, stage: Stage, *, delay_seconds: float = 0.0, scheduler: tuple[str, ...] = ()) -> None:
        """With a delay, everything goes through a relay on a fifth host, which is late by so much in each direction."""
        self.stage = stage
        self.network = Network(stage, SERVERS, FIRST, SECOND, CLIENT, RELAY)
        self._numbers = itertools.count()
        servers = self.network[SERVERS]
        self.address = f"tcp://{servers.ip}:{PORT}"
        self.storage_address = f"tcp://{servers.second_ip}:{STORAGE_PORT}"
        self.address_from_afar = self.address
        self._seen_from_afar = self.storage_address
        if delay_seconds:
            self._start_relays(delay_seconds)
        self._scheduler_options = scheduler
        self.storage = servers.start("scaler_storage", self.storage_address)
        self.storage.wait_for("listen to object storage")
        self.scheduler = self._start_scheduler()
        for name in (FIRST, SECOND, CLIENT):
            self.network[name].copy_key_from(servers)
        self.workers = {name: self.start_workers(name) for name in WORKER_HOSTS}
        for command in self.workers.values():
            command.wait_for("connected to the scheduler", 2)

    def start_workers(self, name: str) -> HostCommand:
        return self.network[name].start("scaler_worker", self.address_from_afar, "-n", "2")

    def start_work(self, kind: str, count: int, timeout: float = 60.0) -> Running:
        log = self.stage.directory / f"log{next(self._numbers)}"
        client = self.network[CLIENT]
        arguments = (self.address_from_afar, kind, str(count), str(log), str(timeout))
        return Running(client.start("tests.support.workload", *arguments), log)

    def vanish(self, name: str) -> float:
        """The power of a host fails; when that was."""
        self.network.vanish(name)
        return time.monotonic()

    def close(self) -> None:
        self.network.close()

    def _start_relays(self, seconds: float) -> None:
        servers, relay = self.network[SERVERS], self.network[RELAY]
        ways = ((PORT, servers.ip), (STORAGE_PORT, servers.second_ip))
        for port, ip in ways:
            relay.start("tests.support.relay", str(seconds), str(port), ip, str(port)).wait_for("relays")
        self.address_from_afar = f"tcp://{relay.ip}:{PORT}"
        self._seen_from_afar = f"tcp://{relay.ip}:{STORAGE_PORT}"

    def _start_scheduler(self) -> HostCommand:
        storage = ("-osa", self.storage_address, "-aosa", self._seen_from_afar)
        command = self.network[SERVERS].start("scaler_scheduler", self.address, *storage, *self._scheduler_options)
        command.wait_for("connected to object storage")
        return command
