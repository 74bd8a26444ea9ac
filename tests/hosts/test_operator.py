"""An operator with two hosts and a user on a third, who do what docs/operations/security.md says, command by command:
the key, tickets, what users with other files are told, and a key that is replaced."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.hosts import Host, HostCommand, Network
from tests.support.processes import Stage
from tests.support.waiting import eventually

SERVERS, WORKERS, USER = "servers", "workers", "user"
_A_SECOND = str(1 / 86_400)


@pytest.fixture(scope="module")
def network(hosts_are_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with Stage(tmp_path_factory.mktemp("operator")) as stage:
        made = Network(stage, SERVERS, WORKERS, USER)
        yield made
        made.close()


def key(host: Host, *arguments: str, code: int = 0) -> str:
    """What `scaler_key` says."""
    command = host.start("scaler_protocol.keys", *arguments)
    assert command.wait() == code, command.text
    return command.text


def copy(name: str, source: Host, target: Host) -> str:
    """As scp does: the file keeps its mode, and another one of that name is written over."""
    shutil.copy(source.place / name, target.place / name)
    return name


def derived(host: Host, role: str, user: str, name: str, days: str = "90") -> str:
    (host.place / name).unlink(missing_ok=True)
    return key(host, "derive", "--role", role, "--user", user, "--days", days, "--output", name)


def calls(host: Host, address: str, name: str, count: int = 3) -> HostCommand:
    return host.start("tests.support.ticket_user", address, name, str(count))


@dataclass
class Cluster:
    """As the docs start one."""

    network: Network
    address: str
    scheduler: HostCommand
    pool: HostCommand


@pytest.fixture(scope="module")
def cluster(network: Network) -> Cluster:
    servers, workers, user = (network[name] for name in (SERVERS, WORKERS, USER))
    address, storage = f"tcp://{servers.ip}:2345", f"tcp://{servers.ip}:2346"
    assert f"made {servers.key}: the key of cluster " in key(servers, "make")
    servers.start("scaler_storage", storage).wait_for("listen to object storage")
    scheduler = servers.start("scaler_scheduler", address, "-osa", storage)
    scheduler.wait_for("connected to object storage")
    assert "worker of ana, until " in derived(servers, "worker", "ana", "worker.key")
    assert "client of ben, until " in derived(servers, "client", "ben", "ben.key")
    copy("worker.key", servers, workers)
    copy("ben.key", servers, user)
    pool = workers.start("scaler_worker", "-n", "2", address, "--key-file", "worker.key")
    pool.wait_for("connected to the scheduler", 2)
    return Cluster(network, address, scheduler, pool)


def test_each_user_without_a_right_ticket_is_told_what_is_wrong(cluster: Cluster) -> None:
    """Word by word: a user reads these lines, and nothing else."""
    servers, user = cluster.network[SERVERS], cluster.network[USER]
    derived(servers, "client", "cleo", "late.key", days=_A_SECOND)
    derived(servers, "worker", "ana", "for-workers.key")
    key(user, "make", "wrong.key")
    for name in ("late.key", "for-workers.key"):
        copy(name, servers, user)
    eventually(lambda: "(expired)" in key(user, "show", "late.key"), "the ticket has expired")
    shutil.copy(servers.place / "ben.key", user.place / "open.key")
    (user.place / "open.key").chmod(0o644)
    server, place = f"the server at {cluster.address}", user.place
    told = {
        "": f"NoKeyFound: no key for {cluster.address} was found: copy {user.key} from the machine of its scheduler, ",
        "gone.key": f"KeyFileError: there is no key file {place}/gone.key: check its name, or copy it there",
        "open.key": f"KeyFileError: {place}/open.key can be read or written by other users (mode 0644): if none ",
        "late.key": f"UnauthorizedError: the key in {place}/late.key was refused by {server}: the ticket of cleo has "
        "expired: ask the operator for a new one (scaler_key derive)",
        "for-workers.key": f"UnauthorizedError: the key in {place}/for-workers.key was refused by {server}: the ticket "
        "of ana is for worker, and not for client",
        "wrong.key": f"UnauthorizedError: the key in {place}/wrong.key is not this cluster's: {server} has another "
        "one. Copy cluster.key from the machine of its scheduler, or ask its operator for a ticket",
    }
    programs = {name: calls(user, cluster.address, name) for name in (*told, "ben.key")}
    for name, program in programs.items():
        assert program.wait() == (name != "ben.key"), program.text
        assert program.text.startswith(told.get(name, "call 0 is right")), program.text
    assert "no key for " in key(user, "check", "--address", cluster.address, code=1)
    assert "can be used: as client of ben, until " in key(user, "check", "ben.key")


def test_the_key_is_replaced_while_tasks_run(cluster: Cluster) -> None:
    """The tickets are derived anew under the same names; no program is started again, and no call is lost."""
    servers, workers, user = (cluster.network[name] for name in (SERVERS, WORKERS, USER))
    shutil.copy(servers.place / "ben.key", user.place / "old.key")
    running = user.start("tests.support.ticket_user", cluster.address, "ben.key")
    running.wait_for("call 3 is right")
    assert "servers accept both from their next heartbeat on" in key(servers, "rotate")
    cluster.scheduler.wait_for("tickets of 2 are accepted now")
    derived(servers, "worker", "ana", "worker.key")
    derived(servers, "client", "ben", "ben.key")
    copy("worker.key", servers, workers)
    copy("ben.key", servers, user)
    assert "took 1 old key out of " in key(servers, "rotate", "--finish")
    cluster.scheduler.wait_for("tickets of 1 are accepted now")
    cluster.pool.wait_for("connected to the scheduler", 4)
    later = len(running.lines) + 20
    old, new = calls(user, cluster.address, "old.key"), calls(user, cluster.address, "ben.key")
    assert new.wait() == 0, new.text
    assert old.wait() == 1 and f"{user.place}/old.key is not this cluster's" in old.text, old.text
    running.wait_for(f"call {later} is right")
    assert running.end() == 0 and running.lines[-1] == "every call was right", running.text
