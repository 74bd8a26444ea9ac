"""A task finds no ticket in its process that gives more than a worker's role, however workers are started. (SEC-15)"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client, SchedulerClusterCombo
from scaler_protocol import codes
from scaler_protocol.keys import Keyring
from scaler_protocol.keys.derivation import new_secret
from scaler_protocol.keys.files import replace_file
from scaler_protocol.keys.texts import key_text, ticket_text
from tests.support.processes import Stage
from tests.support.symphony import SymphonyCluster, new_world


def tickets_in_reach() -> list[tuple[list[int], bool]]:
    """In a task: the roles of each ticket that any object of its process leads to, and whether it is an operator's."""
    import gc
    import sys

    from scaler_protocol.keys.tickets import TicketError, read

    met: set[int] = set()
    found: set[tuple[tuple[int, ...], bool]] = set()
    levels: list[list[object]] = [[sys.modules, *gc.get_objects()]]
    while levels:
        for one in gc.get_referents(*levels.pop()):
            if id(one) in met:
                continue
            met.add(id(one))
            if isinstance(one, (bytes, bytearray)) and 77 <= len(one) <= 200:
                try:
                    said = read(bytes(one))
                except TicketError:
                    continue
                found.add((tuple(sorted(said.roles)), said.is_operator))
            elif not isinstance(one, (str, int, float)):
                levels.append([one])
    return [(list(roles), is_operator) for roles, is_operator in sorted(found)]


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = str(tmp_path / "cluster.key")
    replace_file(path, key_text([new_secret()]).encode())
    return path


def servers(stage: Stage, key: str) -> str:
    port = stage.ports()
    stage.start("scaler_scheduler", f"tcp://127.0.0.1:{port}", "--key-file", key)
    return f"tcp://127.0.0.1:{port}"


def found_at(address: str | None, key: str | None) -> list[tuple[list[int], bool]]:
    with Client(address, key_file=key, timeout_seconds=60) as client:
        return client.submit(tickets_in_reach).result(60)


WORKERS_ONLY = [([codes.ROLE_WORKER], False)]


@pytest.mark.parametrize("command", [("scaler_worker",), ("scaler_worker.manager", "baremetal_native")])
@pytest.mark.parametrize("place", ["a file", "a variable"])
def test_workers_that_were_given_the_key(
    stage: Stage, key: str, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], place: str
) -> None:
    address = servers(stage, key)
    count = ["-n", "1"] if len(command) == 1 else ["--max-task-concurrency=1"]
    if place == "a file":
        started = stage.start(*command, address, *count, "--key-file", key)
    else:
        monkeypatch.setenv("SCALER_KEY", Path(key).read_text())
        started = stage.start(*command, address, *count)
        monkeypatch.delenv("SCALER_KEY")
    assert found_at(address, key) == WORKERS_ONLY
    if len(command) == 1:
        assert "holds the cluster's key" in started.text


def test_workers_that_found_it_and_renew_what_they_have(stage: Stage) -> None:
    address = f"tcp://127.0.0.1:{stage.ports()}"
    scheduler = stage.start("scaler_scheduler", address)
    workers = stage.start("scaler_worker", address, "-n", "1")
    assert found_at(address, None) == WORKERS_ONLY
    scheduler.end(signal.SIGKILL)
    stage.start("scaler_scheduler", address)
    assert found_at(address, None) == WORKERS_ONLY
    assert "holds the cluster's key" not in workers.text, "how most clusters are started, without a word"


def test_a_ticket_of_more_rights_is_told(stage: Stage, key: str, tmp_path: Path) -> None:
    made = Keyring([new_secret()]).derive("ana", frozenset({codes.ROLE_WORKER, codes.ROLE_MONITOR}), is_operator=True)
    path = str(tmp_path / "worker.key")
    replace_file(path, ticket_text(made).encode())
    workers = stage.start("scaler_worker", servers(stage, key), "-n", "1", "--key-file", path)
    workers.wait_for(f"can use all rights of {path}: monitor, operator")


def test_a_combo() -> None:
    with SchedulerClusterCombo(n_workers=1) as combo:
        assert found_at(combo.get_address(), None) == WORKERS_ONLY


@pytest.fixture
def symphony(stage: Stage) -> Iterator[SymphonyCluster]:
    cluster = SymphonyCluster(stage, new_world(stage.directory))
    cluster.start_adapter()
    yield cluster
    cluster.assert_no_breach()


def test_symphony(symphony: SymphonyCluster) -> None:
    assert found_at(symphony.address, None) == WORKERS_ONLY
