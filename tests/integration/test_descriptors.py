"""Programs and servers that run out of descriptors, with real processes."""

from __future__ import annotations

import pytest

from scaler import Client
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage

pytest.importorskip("resource")

CLIENTS = """
import os, resource, sys
from scaler import Client
from scaler.utility.exceptions import TooManyOpenFilesError
address, room = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
held, clients = [], []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    for _ in range(room):
        os.close(held.pop())
try:
    while True:
        clients.append(Client(address))
        assert clients[-1].submit(abs, -1).result() == 1
        clients[-1].send_object(bytes(300_000))
except TooManyOpenFilesError as error:
    assert "96" in str(error)
while held:
    os.close(held.pop())
for client in [*clients, Client(address)]:
    assert client.submit(abs, -2).result() == 2
print("all well")
"""

LITTLE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from scaler_scheduler.__main__ import main
sys.argv[0] = "scaler_scheduler"
sys.exit(main())
"""


def test_a_program_without_descriptors_is_told_what_to_do(stage: Stage) -> None:
    """At whatever moment it has none left: nothing aborts, no error of a library is seen, and those it has go on."""
    cluster = RealCluster(stage, 1)
    programs = [stage.start_program(CLIENTS, cluster.address, str(room)) for room in (0, 5, 9, 17, 23, 40)]
    for program in programs:
        assert program.wait() == 0, program.text
        assert program.lines == ["all well"]


def test_a_scheduler_without_descriptors_says_so_and_goes_on(stage: Stage) -> None:
    cluster = RealCluster(stage, 0)
    address = f"tcp://127.0.0.1:{stage.ports()}"
    scheduler = stage.start_program(LITTLE, address, "-osa", cluster.storage_address)
    stage.start("scaler_worker", address, "-n", "1")
    clients = [Client(address)]
    assert clients[0].submit(abs, -1).result(WAIT) == 1
    with pytest.raises(TimeoutError):
        while len(clients) < 100:
            clients.append(Client(address, timeout_seconds=3))
    scheduler.wait_for(r"EROR.*new peers cannot connect.*may have 64 of them.*ulimit -n")
    assert clients[0].submit(abs, -2).result(WAIT) == 2
    for client in clients[1:]:
        client.disconnect()
    scheduler.wait_for("new peers can connect again")
    with Client(address) as client:
        assert client.submit(abs, -3).result(WAIT) == 3
    clients[0].disconnect()
    assert sum("cannot connect" in line for line in scheduler.lines) == 1
