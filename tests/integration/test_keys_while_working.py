"""Files of keys and tickets that change while programs work: nothing that is pending is lost. (HSK-46, HSK-45)

A program reads its file when it starts. So each role has work pending here at each step of a change: values that are
not fetched, tasks that run, tasks that wait, and calls that need the storage afterwards.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scaler import Client
from scaler.monitoring import Subscription
from scaler.utility.exceptions import UnauthorizedError
from scaler_protocol import codes
from scaler_protocol.keys import KeyOptions, Keyring
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.texts import key_text, ticket_text
from tests.support.processes import Stage, until

WAIT = 60.0
LEASE_SECONDS = 10.0
"""A client whose connection a server has closed notices after a third of this time."""
EXPIRY_SECONDS = 3.0
"""Within this time programs start and submit their first tasks."""
SIZE = 200_000
"""Bytes of a value: it goes to the storage."""
ROLES = {
    "client": codes.ROLE_CLIENT,
    "worker": codes.ROLE_WORKER,
    "monitor": codes.ROLE_MONITOR,
    "manager": codes.ROLE_MANAGER,
}


def value_of(number: int, argument: bytes, gate: str) -> bytes:
    """A large value, when the gate is open."""
    while gate and not os.path.exists(gate):
        time.sleep(0.01)
    return argument + bytes((number,)) * SIZE


def children_of(numbers: range, argument: bytes, gate: str) -> list[bytes]:
    with Client() as client:
        return list(client.map(value_of, numbers, [argument] * len(numbers), [gate] * len(numbers)))


@dataclass
class Work:
    """The pending work of one program."""

    client: Client
    argument: bytes
    futures: list[tuple[int, Future[bytes]]]
    capabilities: dict[str, int] = field(default_factory=dict)

    def submit(self, numbers: range, gate: str) -> None:
        for one in numbers:
            given = (one, self.argument, gate)
            future = self.client.submit_verbose(value_of, given, {}, capabilities=self.capabilities)
            self.futures.append((one, future))

    def check(self) -> None:
        for number, future in self.futures:
            assert future.result(WAIT) == self.argument + bytes((number,)) * SIZE, number


class Cluster:
    """Servers with the key's file; a worker, managers' units, watchers and clients with a file each."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.keys = stage, [os.urandom(32)]
        port = stage.ports()
        self.address, storage = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
        self.second = f"tcp://127.0.0.1:{stage.ports()}"
        self.addresses = f"{self.address},{self.second}"
        self.key = self._write("cluster.key", key_text(self.keys))
        for name in ROLES:
            self.renew(name)
        given = ("--key-file", self.key)
        self.storage = stage.start("scaler_storage", storage, *given)
        served = ("-osa", storage, "--heartbeat-seconds=0.2", *given)
        self.scheduler = stage.start("scaler_scheduler", self.address, *served)
        self.standby = stage.start("scaler_scheduler", self.second, "--standby-of", self.address, *served)
        stage.start("scaler_worker", self.addresses, "-n", "1", "--key-file", self.path("worker"))
        managed = ("baremetal_native", self.addresses, "--max-task-concurrency=1", "--key-file", self.path("manager"))
        stage.start("scaler_worker.manager", *managed)
        self.count = 0

    def path(self, name: str) -> str:
        return str(self.stage.directory / f"ana-{name}.key")

    def _write(self, name: str, text: str) -> str:
        path = str(self.stage.directory / name)
        replace_file(path, text.encode())
        return path

    def renew(self, name: str, expires: float = 0.0, user: str = "ana") -> str:
        """A ticket of another holder, as `scaler_key derive` makes it."""
        roles = {ROLES[name], *([codes.ROLE_WORKER] if name == "manager" else [])}
        ticket = Keyring(self.keys).derive(user, frozenset(roles), expires=expires)
        return self._write(f"{user}-{name}.key", ticket_text(ticket))

    def use(self, *keys: bytes) -> None:
        """The servers take these keys from now on."""
        self.keys = list(keys)
        self.count += 1
        self._write("cluster.key", key_text(self.keys))
        for server in (self.storage, self.scheduler, self.standby):
            server.wait_for("keys of .* have changed", self.count)

    def client(self, key_file: str) -> Client:
        return Client(self.addresses, key_file=key_file, timeout_seconds=LEASE_SECONDS, heartbeat_interval_seconds=1)


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Cluster:
    return Cluster(module_stage)


def test_nothing_pending_is_lost_while_the_key_is_replaced(cluster: Cluster, way: None, tmp_path: Path) -> None:
    """Replaces the key as the page on security describes it. One client has the key, the other a ticket."""
    gate, large = str(tmp_path / "gate"), os.urandom(SIZE)
    with (
        cluster.client(cluster.key) as with_key,
        cluster.client(cluster.path("client")) as with_ticket,
        Subscription(cluster.addresses, keys=KeyOptions(cluster.path("monitor"))) as watcher,
    ):
        works = [Work(client, large, []) for client in (with_key, with_ticket)]
        for work in works:
            work.submit(range(4), "")
        until(lambda: all(future.done() for work in works for _, future in work.futures), "values that wait")
        parents = [client.submit(children_of, range(2), large, gate) for client in (with_key, with_ticket)]
        steps = [
            lambda: cluster.use(os.urandom(32), *cluster.keys),
            lambda: [cluster.renew(name) for name in ROLES],
            lambda: cluster.use(cluster.keys[0]),
            lambda: None,
        ]
        for number, step in enumerate(steps, start=1):
            for work in works:
                work.submit(range(8 * number, 8 * number + 4), gate)
            step()
        Path(gate).touch()
        for work in works:
            work.check()
        expected = [large + bytes((number,)) * SIZE for number in range(2)]
        assert [parent.result(WAIT) for parent in parents] == [expected, expected]
        for work in works:
            work.submit(range(100, 102), "")
            assert work.client.submit(lambda: "a new function, which is stored first").result(WAIT)
            work.check()
        until(lambda: bool(watcher.poll(0.1)) and watcher.state.is_live, "the watcher's session goes on")


def test_nothing_pending_is_lost_when_tickets_are_renewed_before_they_expire(cluster: Cluster, tmp_path: Path) -> None:
    """Also the tasks of a worker, whose processors have connections of their own with the storage."""
    gate, large = str(tmp_path / "gate"), os.urandom(SIZE)
    expires = time.time() + EXPIRY_SECONDS
    files = {name: cluster.renew(name, expires, user="bob") for name in ("client", "worker")}
    worker = cluster.stage.start("scaler_worker", cluster.addresses, "-n", "2", "--key-file", files["worker"])
    worker.wait_for("connected to the scheduler", 2)
    with cluster.client(files["client"]) as client:
        work = Work(client, large, [], {"user:bob": -1})
        work.submit(range(4), "")
        until(lambda: all(future.done() for _, future in work.futures), "values that wait")
        work.submit(range(4, 12), gate)
        for name in files:
            cluster.renew(name, user="bob")
        cluster.scheduler.wait_for("bob has expired", 3)
        work.submit(range(12, 16), gate)
        Path(gate).touch()
        work.check()
    assert worker.end() == 0


def test_an_expired_ticket_is_told_at_once_and_a_new_one_is_taken_up(cluster: Cluster, tmp_path: Path) -> None:
    """Also by calls that have to store something before they submit."""
    gate = str(tmp_path / "gate")
    path = cluster.renew("client", time.time() + EXPIRY_SECONDS, user="cal")
    with cluster.client(path) as client:
        fetched_later, large = client.submit(value_of, 1, b"", ""), os.urandom(SIZE)
        until(fetched_later.done, "a value that waits")
        pending = client.submit(value_of, 1, b"", gate)
        with pytest.raises(UnauthorizedError, match="expired"):
            pending.result(WAIT)
        with pytest.raises(UnauthorizedError, match="expired"):
            client.submit(lambda: "a new function").result(WAIT)
        with pytest.raises(UnauthorizedError, match="expired"):
            client.send_object(large)
        with pytest.raises(UnauthorizedError, match="expired"):
            fetched_later.result(WAIT)
        cluster.renew("client", user="cal")
        assert client.submit(lambda data: data[::-1], large).result(WAIT) == large[::-1]
    Path(gate).touch()


def scaler_key(*arguments: str) -> str:
    command = [sys.executable, "-m", "scaler_protocol.keys", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=True).stdout


def test_a_revoked_ticket_ends_its_work_and_no_other(cluster: Cluster, tmp_path: Path) -> None:
    """With the commands of an operator, while all servers go on. (SEC-20)"""
    gate, path = str(tmp_path / "gate"), str(tmp_path / "eve.key")
    made = scaler_key("derive", "--role", "client", "--user", "eve", "--output", path, cluster.key)
    (named,) = re.findall(r"id ([0-9a-f]{16})", made)
    said = f"the ticket {named} was revoked: ask the operator for a new one"
    with cluster.client(path) as revoked, cluster.client(cluster.renew("client", user="dan")) as other:
        work = Work(other, b"", [])
        assert revoked.submit(abs, -1).result(WAIT) == 1
        pending = revoked.submit(value_of, 1, b"", gate)
        work.submit(range(4), gate)
        assert f"revoked {named}: client of eve" in scaler_key("revoke", named, "--key-file", cluster.key)
        with pytest.raises(UnauthorizedError, match=said):
            pending.result(WAIT)
        with pytest.raises(UnauthorizedError, match=said):
            revoked.submit(abs, -1).result(WAIT)
        with pytest.raises(UnauthorizedError, match=said), cluster.client(path) as late:
            late.submit(abs, -1).result(WAIT)
        cluster.storage.wait_for(f"user eve, ticket {named}: {said}", 1)
        cluster.scheduler.wait_for(f"ended the session of a client, user eve, ticket {named}: {said}", 1)
        cluster.scheduler.wait_for(f"refused a Hello as client from .*, claimed user eve, ticket {named}: {said}", 1)
        cluster.standby.wait_for("the revoked tickets of .* have changed: 1 are refused now", 1)
        os.unlink(path)
        scaler_key("derive", "--role", "client", "--user", "eve", "--output", path, cluster.key)
        Path(gate).touch()
        assert revoked.submit(abs, -1).result(WAIT) == 1
        work.check()
    first, second = (line for line in scaler_key("list", cluster.key).splitlines() if " eve " in line)
    assert first.startswith(named) and first.endswith("revoked") and second.endswith("valid")


def test_a_standby_takes_over_after_its_key_was_replaced(cluster: Cluster, tmp_path: Path) -> None:
    """The last test of this file: the scheduler is killed, whose keys were replaced by the tests before."""
    gate, large = str(tmp_path / "gate"), os.urandom(SIZE)
    with cluster.client(cluster.renew("client")) as client:
        work = Work(client, large, [])
        work.submit(range(4), "")
        until(lambda: all(future.done() for _, future in work.futures), "values that wait")
        work.submit(range(4, 8), gate)
        cluster.scheduler.end(signal.SIGKILL)
        Path(gate).touch()
        work.check()
