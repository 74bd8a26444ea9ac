"""Wrong addresses, taken ports, strangers behind them: each gets one readable sentence that says what to do."""

from __future__ import annotations

import http.server
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler.utility.exceptions import ObjectStorageException, RejectedError, VersionMismatchError
from scaler_protocol import codes
from scaler_protocol.addresses import AddressError
from scaler_scheduler.__main__ import main as scheduler_main
from scaler_storage.__main__ import main as storage_main
from scaler_worker.__main__ import main as cluster_main
from tests.support.clusters import RealCluster
from tests.support.endpoints import Bench
from tests.support.keyed import keyed
from tests.support.processes import Command, Stage

WRONG_ADDRESSES = {
    "foo:bar:baz": "tcp://",
    "127.0.0.1": "tcp://",
    "tcp://127.0.0.1": "port",
    "tcp://127.0.0.1:eighty": "'eighty' is not a port",
    "tcp://127.0.0.1:99999": "65535",
    "tcp://:2345": "host name",
    "tcp://256.1.1.1:2345": "256.1.1.1",
    "tcp://::1:2345": "brackets",
    "http://127.0.0.1:80": "not supported",
    "ipc://": "names no path",
    "": "tcp://",
}
COMMANDS: dict[str, Callable[[], int]] = {
    "scaler_scheduler": scheduler_main,
    "scaler_object_storage_server": storage_main,
    "scaler_cluster": cluster_main,
}


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize("address", WRONG_ADDRESSES)
def test_a_wrong_address_at_the_api(address: str) -> None:
    for make in (
        lambda: Client(address),
        lambda: Client("tcp://127.0.0.1:1", object_storage_address=address),
        lambda: SchedulerClusterCombo(n_workers=1, address=address),
    ):
        with pytest.raises(AddressError) as caught:
            make()
        assert address in str(caught.value) and WRONG_ADDRESSES[address] in str(caught.value)


@pytest.mark.parametrize("address", [5, b"tcp://127.0.0.1:2345"])
def test_an_address_that_is_no_string(address: object) -> None:
    with pytest.raises(AddressError, match=f"string and {re.escape(repr(address))} is not"):
        Client(address)  # type: ignore[arg-type]


def test_no_address_outside_of_a_task() -> None:
    with pytest.raises(ValueError, match="No scheduler address provided"):
        Client()


@pytest.mark.parametrize("address", WRONG_ADDRESSES)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_address_at_the_command_line(
    name: str, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [name, address])
    assert COMMANDS[name]() == 2
    said = capsys.readouterr()
    assert not said.out
    assert_one_line(said.err, name)
    if "://" in address:  # the storage takes addresses without a scheme
        assert address in said.err and WRONG_ADDRESSES[address] in said.err


def test_commands_refuse_what_they_cannot_use(stage: Stage) -> None:
    """As processes: the exit code and the streams are what an operator has."""
    wrong = {
        ("scaler_scheduler", "tcp://127.0.0.1"): "has no port",
        ("scaler_scheduler", "tcp://127.0.0.1:65535"): "leaves no port for storage",
        ("scaler_storage", "tcp://127.0.0.1:x"): "'x' is not a port",
        ("scaler_worker", "tcp://*:2345"): "name the host",
    }
    commands = {stage.start(*arguments): said for arguments, said in wrong.items()}
    for command, said in commands.items():
        assert command.wait() == 2
        assert_one_line("\n".join(command.error_lines), "scaler_")
        assert said in command.error_lines[0] and not command.lines


# ---------------------------------------------------------------- taken ports


def test_a_port_that_is_taken(stage: Stage) -> None:
    """Each of the scheduler's own two, and the storage's."""
    with listening() as taken:
        commands = {
            stage.start("scaler_storage", address(taken)): taken,
            stage.start("scaler_scheduler", address(taken), "-osa", address(1), "-ma", address(stage.ports())): taken,
            stage.start("scaler_scheduler", address(stage.ports()), "-osa", address(1), "-ma", address(taken)): taken,
        }
        for command, port in commands.items():
            assert command.wait() == 1
            assert_one_line("\n".join(command.error_lines), "scaler_")
            assert f"{address(port)} is already in use: stop what is listening there" in command.error_lines[0]


@pytest.mark.parametrize(("count", "error"), [(-1, ValueError), ("2", TypeError), (1.5, TypeError)])
def test_a_combo_of_so_many_workers_cannot_be(count: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"n_workers must .* got {re.escape(repr(count))}"):
        SchedulerClusterCombo(n_workers=count)


def test_a_combo_at_a_taken_port() -> None:
    with listening() as taken, pytest.raises(Exception, match=f"({taken}|{taken + 1}) is already in use"):
        SchedulerClusterCombo(n_workers=1, address=address(taken), logging_level="CRITICAL")


# ---------------------------------------------------------------- nobody, or somebody else


def test_nobody_answers_there(stage: Stage) -> None:
    """For three reasons, which a dialer cannot tell apart: no answer comes."""
    with listening() as sink, http_server() as web_port:
        ports = [stage.ports(), sink, web_port]
        workers = {port: start_workers(stage, port) for port in ports}
        with ThreadPoolExecutor(len(ports)) as pool:
            errors = list(pool.map(lambda port: failure_of(lambda: Client(address(port), timeout_seconds=1)), ports))
        for port, error in zip(ports, errors, strict=True):
            assert isinstance(error, TimeoutError)
            assert str(error).startswith(
                f"no scheduler answered at {address(port)} within 1 s: check that it is running"
            )
            assert_gave_up(workers[port], address(port))


def start_workers(stage: Stage, port: int) -> Command:
    return stage.start("scaler_worker", address(port), "-n", "1", "--death-timeout-seconds", "1")


def assert_gave_up(workers: Command, at: str) -> None:
    assert workers.wait() == 1
    (error,) = [line for line in workers.lines if line.startswith("[ERROR]")]
    assert "no scheduler answered within 1 s" in error and at in error
    assert not workers.error_lines


def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(AddressError, match=r"'no-such-host.invalid' .* check its spelling"):
        Client("tcp://no-such-host.invalid:2345")


def test_a_storage_is_no_scheduler_nor_the_other_way_round(stage: Stage) -> None:
    cluster = RealCluster(stage, 0)
    with pytest.raises(RejectedError, match=r"scaler-storage .* answers at .* give the scheduler's address"):
        Client(cluster.storage_address)
    workers = stage.start("scaler_worker", cluster.storage_address, "-n", "1")
    assert workers.wait() == 1
    assert "give the scheduler's address" in workers.text and "Traceback" not in workers.text
    with Client(cluster.address, object_storage_address=cluster.address) as client:
        future = None
        with pytest.raises(ObjectStorageException, match=f"object storage is at {cluster.storage_address}"):
            future = client.submit(abs, -1)
        assert future is None
    other = stage.start("scaler_scheduler", address(stage.ports()), "-osa", cluster.address)
    other.wait_for("WARN.*does not talk to a scheduler.*check the address")
    assert other.end() == 0
    assert len([line for line in other.lines if "WARN" in line]) == 1, "it is said once"


def test_a_scheduler_of_another_version(stage: Stage) -> None:
    bench = Bench()
    server = bench.server(
        version_min=7,
        version_max=8,
        allowed_roles={codes.ROLE_CLIENT, codes.ROLE_WORKER, codes.ROLE_SCHEDULER},
        admission=keyed(),
    )
    workers = stage.start("scaler_worker", server.address, "-n", "1")
    scheduler = stage.start("scaler_scheduler", address(stage.ports()), "-osa", server.address)
    said: list[BaseException] = []
    thread = threading.Thread(target=lambda: said.append(failure_of(lambda: Client(server.address))))
    thread.start()
    sentence = "speaks protocols 7 to 8 and .* speaks protocol 1: upgrade scaler-"
    try:
        bench.until(lambda: bool(said), "the client was refused")
        bench.until(lambda: workers.process.poll() is not None, "the workers were refused")
        bench.until(lambda: bool(re.search(sentence, scheduler.text)), "the scheduler was refused")
    finally:
        bench.close()
        thread.join()
    assert isinstance(said[0], VersionMismatchError) and re.search(sentence + "client", str(said[0]))
    assert workers.wait() == 1 and re.search(sentence + "worker", workers.text)
    assert "Traceback" not in workers.text + scheduler.text


# ---------------------------------------------------------------- helpers


def address(port: int) -> str:
    return f"tcp://127.0.0.1:{port}"


def failure_of(call: Callable[[], object]) -> BaseException:
    try:
        return AssertionError(f"it returned {call()}")
    except BaseException as error:
        return error


def assert_one_line(text: str, name: str) -> None:
    (line,) = text.strip().splitlines()
    assert line.startswith(name) and ": error: " in line and len(line) < 300


@contextmanager
def listening() -> Iterator[int]:
    """A listener that accepts and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


class _Quiet(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def http_server() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
