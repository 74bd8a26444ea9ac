"""A second scheduler waits, and serves when the first is gone: no task is lost, and none begins twice. (SCH-80)

Addresses are lists; workers and clients come to the second by themselves, and present what they hold."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from scaler import Client
from scaler_protocol.keys import management
from scaler_protocol.messages import ClusterStatus
from tests.support import graph_tasks
from tests.support.clusters import watching
from tests.support.processes import WAIT, Command, Stage, until

QUICK = ("--heartbeat-seconds", "1")
LEASE = 2.0
LEASE_OPTION = ("--standby-lease-seconds", str(LEASE))
TASKS = 24
SECONDS = 0.5
WORKERS = 4


class Pair:
    """A storage and two schedulers of one cluster, the second a standby of the first; workers with both addresses."""

    def __init__(self, stage: Stage, *, is_mutual: bool = False, options: tuple[str, ...] = ()) -> None:
        """`options`: of both schedulers."""
        self.stage = stage
        self.is_mutual = is_mutual
        self.options = options
        port, other = stage.ports(), stage.ports()
        self.storage_address = f"tcp://127.0.0.1:{port + 1}"
        self.first_address, self.second_address = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{other}"
        self.addresses = f"{self.first_address},{self.second_address}"
        self.storage = stage.start("scaler_storage", self.storage_address)
        self.first = self.start_first()
        self.wait_until(self.first_address, lambda status: not status.standby_of, "the first serves")
        self.second = self.start(self.second_address, "--standby-of", self.first_address)
        self.wait_until(self.second_address, lambda status: bool(status.standby_of), "the second waits")

    def start(self, address: str, *options: str) -> Command:
        given = ("-osa", self.storage_address, *QUICK, *LEASE_OPTION, *self.options, *options)
        return self.stage.start("scaler_scheduler", address, *given)

    def start_first(self) -> Command:
        options = ("--standby-of", self.second_address) if self.is_mutual else ()
        self.first = self.start(self.first_address, *options)
        return self.first

    def start_workers(self, count: int = WORKERS) -> None:
        self.stage.start("scaler_worker", self.addresses, "-n", str(count), "--heartbeat-interval", "1")
        self.wait_until(self.first_address, lambda status: len(status.workers) == count, "all workers are there")

    def wait_until(self, address: str, is_so: object, what: str) -> float:
        with watching(address) as watch:
            return until(lambda: is_so(watch.snapshot()), what)  # type: ignore[operator]

    def status(self, address: str) -> ClusterStatus:
        with watching(address) as watch:
            return watch.snapshot()


def begins(log: Path) -> Counter[str]:
    return Counter(log.read_text().split()) if log.exists() else Counter()


def processes(status: ClusterStatus) -> set[int]:
    """Of the workers."""
    return {worker.software.process_id for worker in status.workers}


@pytest.fixture
def pair(stage: Stage) -> Pair:
    pair = Pair(stage)
    pair.start_workers()
    return pair


def submitted(client: Client, log: Path) -> list[object]:
    return [
        client.submit(graph_tasks.noted_sleep, str(log), f"task{number}", 10 if number % 4 else 200_000, SECONDS)
        for number in range(TASKS)
    ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_second_goes_on_where_the_first_ended(pair: Pair, number: signal.Signals, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Client(pair.addresses) as client:
        futures = submitted(client, log)
        until(lambda: len(begins(log)) >= WORKERS + 1, "some have begun")
        pair.first.end(number)
        assert [len(future.result(WAIT)) for future in futures] == [10 if n % 4 else 200_000 for n in range(TASKS)]  # type: ignore[attr-defined]
    counts = begins(log)
    assert len(counts) == TASKS and set(counts.values()) == {1}, counts
    status = pair.status(pair.second_address)
    assert not status.standby_of and len(status.workers) == WORKERS
    assert (
        "said goodbye" in pair.second.text if number == signal.SIGTERM else "given no sign for 2 s" in pair.second.text
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_manager_goes_to_the_second_and_its_units_go_on(stage: Stage, number: signal.Signals, tmp_path: Path) -> None:
    """The second ends no unit whose workers are on their way to it, and asks for no other workers in their place."""
    pair = Pair(stage, options=("--policy-content", "allocate=even; scaling=vanilla"))
    line = ("baremetal_native", pair.addresses, "-wmi", "here", "-mtc", "2")
    manager = stage.start("scaler_worker.manager", *line)
    log = tmp_path / "log"
    with Client(pair.addresses) as client:
        futures = submitted(client, log)
        pair.wait_until(pair.first_address, lambda status: len(status.workers) == 2, "all workers are there")
        until(lambda: len(begins(log)) >= 4, "some have begun")
        before = processes(pair.status(pair.first_address))
        pair.first.end(number)
        pair.wait_until(pair.second_address, lambda status: processes(status) == before, "the same workers have come")
        pair.wait_until(pair.second_address, lambda status: len(status.managers) == 1, "their manager has come")
        assert [len(future.result(WAIT)) for future in futures] == [10 if n % 4 else 200_000 for n in range(TASKS)]  # type: ignore[attr-defined]
        counts = begins(log)
        assert len(counts) == TASKS and set(counts.values()) == {1}, counts
    assert manager.end(signal.SIGTERM) == 0


def test_a_scheduler_that_was_stopped_ends_when_another_has_followed(pair: Pair, tmp_path: Path) -> None:
    """It is not both: it learns of the generation of the second by the session that the second begins. (SCH-82)"""
    log = tmp_path / "log"
    with Client(pair.addresses) as client:
        futures = submitted(client, log)
        until(lambda: len(begins(log)) >= WORKERS + 1, "some have begun")
        pair.first.send(signal.SIGSTOP)
        pair.second.wait_for("serve with generation")
        assert [len(future.result(WAIT)) for future in futures] == [10 if n % 4 else 200_000 for n in range(TASKS)]  # type: ignore[attr-defined]
        pair.first.send(signal.SIGCONT)
        assert pair.first.wait() == 0
        assert "another scheduler serves with generation" in pair.first.text
        assert client.submit(len, b"abc").result(WAIT) == 3
    assert set(begins(log).values()) == {1}


def test_two_that_name_each_other_take_turns(stage: Stage, tmp_path: Path) -> None:
    """One that comes back is a standby of the one that serves; so each can be replaced while tasks run."""
    pair = Pair(stage, is_mutual=True)
    pair.start_workers(2)
    log = tmp_path / "log"
    with Client(pair.addresses) as client:
        futures = [
            client.submit(graph_tasks.noted_sleep, str(log), f"task{number}", 10, SECONDS) for number in range(16)
        ]
        until(lambda: len(begins(log)) >= 3, "some have begun")
        pair.first.end(signal.SIGTERM)
        pair.start_first()
        pair.wait_until(pair.first_address, lambda status: bool(status.standby_of), "the first waits now")
        pair.wait_until(pair.second_address, lambda status: len(status.standbys) == 1, "the second knows of it")
        pair.wait_until(pair.second_address, lambda status: len(status.workers) == 2, "the workers have come")
        pair.second.end(signal.SIGKILL)
        assert [len(future.result(WAIT)) for future in futures] == [10] * 16
    assert set(begins(log).values()) == {1}
    assert not pair.status(pair.first_address).standby_of


def test_the_end_of_the_cluster_is_the_end_of_its_standby(pair: Pair) -> None:
    with Client(pair.addresses) as client:
        assert client.submit(len, b"abc").result(WAIT) == 3
        client.shutdown()
    assert pair.first.wait() == 0 and pair.second.wait() == 0
    assert "a client asked for the end of the cluster" in pair.second.text


def test_a_second_standby_and_a_standby_of_a_standby_are_refused(stage: Stage) -> None:
    pair = Pair(stage)
    second = pair.start(f"tcp://127.0.0.1:{stage.ports()}", "--standby-of", pair.first_address)
    of_standby = pair.start(f"tcp://127.0.0.1:{stage.ports()}", "--standby-of", pair.second_address)
    assert second.wait() == 1 and "it has a standby already, scaler-scheduler" in second.text
    assert of_standby.wait() == 1 and f"itself a standby of {pair.first_address}: name" in of_standby.text
    assert "serve with generation" not in second.text + of_standby.text
    assert not pair.status(pair.first_address).standby_of and pair.status(pair.second_address).standby_of


def test_health_of_two_schedulers(pair: Pair) -> None:
    """A standby is well; whether it serves is another question. With both addresses the one that serves is asked."""
    for arguments, code, words in (
        ((pair.first_address, "--serving"), 0, f"answers at {pair.first_address}"),
        ((pair.second_address,), 0, f"answers at {pair.second_address}, as a standby"),
        ((pair.second_address, "--serving", "--timeout", "1"), 1, "is a standby of"),
        ((f"{pair.second_address},{pair.first_address}",), 0, f"answers at {pair.first_address}"),
        ((pair.addresses, "--worker", "0"), 0, "scaler-scheduler"),
    ):
        command = pair.stage.start("scaler_protocol.health", *arguments)
        assert command.wait() == code, command.text
        assert words in command.text


def test_a_standby_with_another_key_says_so_and_ends(stage: Stage, tmp_path: Path) -> None:
    port = stage.ports()
    address = f"tcp://127.0.0.1:{port}"
    management.make(str(tmp_path / "one.key"))
    management.make(str(tmp_path / "other.key"))
    stage.start("scaler_storage", f"tcp://127.0.0.1:{port + 1}", "--key-file", str(tmp_path / "one.key"))
    options = ("-osa", f"tcp://127.0.0.1:{port + 1}")
    first = stage.start("scaler_scheduler", address, *options, "--key-file", str(tmp_path / "one.key"))
    first.wait_for("listen to scheduler")
    second = stage.start(
        "scaler_scheduler",
        f"tcp://127.0.0.1:{stage.ports()}",
        *(*options, "--standby-of", address, "--key-file", str(tmp_path / "other.key")),
    )
    assert second.wait() != 0
    assert "no standby of" in second.text and "key" in second.text
