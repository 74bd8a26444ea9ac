"""Two schedulers that name each other, over hosts: a host for each, one for the storage, two with workers, two with
clients. Each link between two hosts can be cut, in one direction or in both."""

from __future__ import annotations

import itertools
import json
import re

from tests.support.hosts import HostCommand, Network
from tests.support.processes import Stage, until
from tests.support.workload import Running

ONE, TWO, STORE = "one", "two", "store"
WORKER_HOSTS = ("first", "second")
CLIENT_HOSTS = ("ana", "ben")
SCHEDULERS = (ONE, TWO)
PORT = 2345
_SERVES = re.compile(r"serve with generation (\d+)")

Cut = tuple[str, str]
"""What the first host sends to the second is lost."""


class HostPair:
    def __init__(self, stage: Stage, *options: str, relay_seconds: float = 0.0) -> None:
        """`options` are those of both schedulers. With a relay, clients and workers reach `TWO` late by so much."""
        self.stage = stage
        self.network = Network(stage, ONE, TWO, STORE, *WORKER_HOSTS, *CLIENT_HOSTS, *(["relay"] * bool(relay_seconds)))
        self._options = options
        self._numbers = itertools.count()
        store = self.network[STORE]
        self.storage_address = f"tcp://{store.ip}:{PORT + 1}"
        self.seen_at = {name: f"tcp://{self.network[name].ip}:{PORT}" for name in SCHEDULERS}
        if relay_seconds:
            arguments = (str(relay_seconds), str(PORT), self.network[TWO].ip, str(PORT))
            self.network["relay"].start("tests.support.relay", *arguments).wait_for("relays")
            self.seen_at[TWO] = f"tcp://{self.network['relay'].ip}:{PORT}"
        self.addresses = ",".join(self.seen_at.values())
        store.start("scaler_storage", self.storage_address).wait_for("listen to object storage")
        for name in (*SCHEDULERS, *WORKER_HOSTS, *CLIENT_HOSTS):
            self.network[name].copy_key_from(store)
        self.schedulers: dict[str, HostCommand] = {}
        for name in SCHEDULERS:
            self.start_scheduler(name)
            self.schedulers[name].wait_for("connected to object storage" if name == ONE else "serves with generation")
        for name in WORKER_HOSTS:
            workers = self.network[name].start("scaler_worker", self.addresses, "-n", "2")
            workers.wait_for("connected to the scheduler", 2)

    def start_scheduler(self, name: str) -> None:
        own, other = (f"tcp://{self.network[one].ip}:{PORT}" for one in (name, ONE if name == TWO else TWO))
        arguments = ("-osa", self.storage_address, "--standby-of", other, *self._options)
        self.schedulers[name] = self.network[name].start("scaler_scheduler", own, *arguments)

    def start_work(self, host: str, kind: str, count: int, timeout: float = 60.0) -> Running:
        log = self.stage.directory / f"log{next(self._numbers)}"
        arguments = (self.addresses, kind, str(count), str(log), str(timeout))
        return Running(self.network[host].start("tests.support.workload", *arguments), log)

    # ------------------------------------------------------------ links

    def cut(self, cuts: set[Cut]) -> None:
        for sender, receiver in sorted(cuts):
            self.network.block(sender, self.network[receiver].ip)

    def heal(self, cuts: set[Cut]) -> None:
        for sender, receiver in sorted(cuts):
            self.network.unblock(sender, self.network[receiver].ip)

    # ------------------------------------------------------------ what the schedulers tell

    def told(self, name: str) -> dict[str, object]:
        """By `scaler_top` on the host of that scheduler, of it alone."""
        address = f"tcp://{self.network[name].ip}:{PORT}"
        command = self.network[name].start("scaler.top", "--once", "--json", address)
        assert command.wait() == 0, command.text
        scheduler: dict[str, object] = json.loads("".join(command.lines))["scheduler"]
        return scheduler

    def generation(self, name: str) -> int:
        """With which it has begun to serve last; zero if it never followed on the other one."""
        found = [int(match[1]) for line in self._lines(name) if (match := _SERVES.search(line))]
        return found[-1] if found else 0

    def has_followed(self, name: str) -> bool:
        return any(_SERVES.search(line) for line in self._lines(name))

    def wait_until_one_serves(self) -> str:
        """Which one, when the other has become its standby."""
        found: list[str] = []

        def is_settled() -> bool:
            states = {name: bool(self.told(name)["standby_of"]) for name in SCHEDULERS}
            found[:] = [name for name, waits in states.items() if not waits]
            return len(found) == 1

        until(is_settled, "one serves, and the other one waits")
        return found[0]

    def _lines(self, name: str) -> list[str]:
        command = self.schedulers[name]
        return [*command.lines, *command.error_lines]

    def close(self) -> None:
        self.network.close()
