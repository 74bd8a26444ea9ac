"""The scheduler is restarted, and a client of another user takes a client's name before that client comes back: it gets
nothing of what the name owned, and the client goes on under another name. (HSK-43, OWN-21, OWN-22)"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from scaler import Client
from scaler.client.io import connection as connections
from scaler_protocol.codes import NOT_ALLOWED, ROLE_CLIENT, ROLE_WORKER
from scaler_protocol.errors import ObjectNotFound, StorageError
from scaler_protocol.ids import ObjectId, PeerId
from scaler_protocol.keys import management
from scaler_protocol.keys.lookup import find_pass
from scaler_protocol.objects import ObjectClient, Owner
from tests.support.processes import Command, Stage

SIZE = 300_000

ANA = """
import os, signal, sys
from scaler import Client

with Client(sys.argv[1], key_file=sys.argv[2]) as client:
    connection = client._ready().connection
    name = connection.peer_id
    reference = client.send_object(b"a" * int(sys.argv[3]))
    assert client.submit(len, reference).result(60) == int(sys.argv[3])
    held = [object_id for object_id, _ in connection.storage.holdings.all()]
    print(name.hex(), held[-1].hex(), flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    print(client.submit(len, reference).result(60), connection.peer_id != name, flush=True)
"""


class Cluster:
    """With a key, and tickets of two users."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._stage, self.key = stage, str(folder / "cluster.key")
        port = stage.ports()
        self.address, self.storage_address = f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port + 1}"
        management.make(self.key)
        self.tickets = {user: str(folder / f"{user}.key") for user in ("ana", "joe", "pool")}
        for user, file in self.tickets.items():
            roles = frozenset({ROLE_WORKER if user == "pool" else ROLE_CLIENT})
            management.derive(self.key, user=user, roles=roles, is_operator=False, expires=0.0, output=file)
        stage.start("scaler_storage", self.storage_address, "--key-file", self.key)
        self.scheduler = self._start_scheduler()
        stage.start("scaler_worker", self.address, "-n", "1", "--key-file", self.tickets["pool"])

    def restart_scheduler(self) -> None:
        self.scheduler.end(signal.SIGKILL)
        self.scheduler = self._start_scheduler()

    def _start_scheduler(self) -> Command:
        return self._stage.start("scaler_scheduler", self.address, "-osa", self.storage_address, "--key-file", self.key)

    @contextmanager
    def joe_as(self, name: PeerId) -> Iterator[Owner]:
        """A client of joe under this name: what it may name towards the storage."""
        with patch.object(connections, "new_peer_id", lambda: name):
            joe = Client(self.address, key_file=self.tickets["joe"])
        with joe:
            connection = joe._ready().connection
            assert connection.peer_id == name and connection.welcome is not None
            yield Owner(name, connection.welcome.owner_grant)

    @contextmanager
    def storage_of_joe(self) -> Iterator[ObjectClient]:
        shown = find_pass(self.storage_address, self.tickets["joe"])
        storage = ObjectClient(self.storage_address, ROLE_CLIENT, "test", shown=shown)
        try:
            storage._link().directory = None  # open to processes of the storage's own account, as this one is
            yield storage
        finally:
            storage.close()


@pytest.mark.parametrize("stays", [True, False], ids=["joe stays", "joe leaves first"])
def test_a_name_that_was_taken_gives_nothing(stage: Stage, tmp_path: Path, stays: bool) -> None:
    cluster = Cluster(stage, tmp_path)
    ana = stage.start_program(ANA, cluster.address, cluster.tickets["ana"], str(SIZE))
    ana.wait_for("^[0-9a-f]{32} [0-9a-f]{32}$")
    name, held = map(bytes.fromhex, ana.lines[0].split())
    cluster.restart_scheduler()
    with cluster.joe_as(PeerId(name)) as owner:
        with cluster.storage_of_joe() as storage:
            with pytest.raises(ObjectNotFound):
                storage.get(ObjectId(held), owner=owner)
            with pytest.raises(StorageError) as refused:
                storage.release(owner.peer_id, [ObjectId(held)], grant=owner.grant)
            assert refused.value.code == NOT_ALLOWED
        if stays:
            _goes_on(ana)
    if not stays:
        _goes_on(ana)


def _goes_on(ana: Command) -> None:
    ana.send(signal.SIGCONT)
    assert ana.wait() == 0, ana.text
    size, has_another_name = ana.lines[1].split()
    assert int(size) == SIZE and has_another_name == "True"
