"""A peer that stores other bytes under ids which it can compute changes nothing for others. (STO-29, STO-30, OWN-6)"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler import Client
from scaler_protocol import values
from scaler_protocol.codes import ROLE_SCHEDULER
from scaler_protocol.errors import ObjectStorageException
from scaler_protocol.ids import ObjectId, PeerId, TaskId, content_id, new_peer_id, result_object_id
from scaler_protocol.messages import NO_SALT
from scaler_protocol.objects import ObjectClient
from tests.support import tasks
from tests.support.clusters import RealCluster
from tests.support.processes import Stage, until

WAIT = 60


class Trap:
    """A process that deserializes it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.path), "w")


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> Iterator[RealCluster]:
    yield RealCluster(module_stage, 1)


@pytest.fixture
def attacker(cluster: RealCluster) -> Iterator[ObjectClient]:
    """It holds the cluster's key. So it may call itself the scheduler, which may name every owner. (STO-32)"""
    shown = cluster.keys.find_pass(cluster.storage_address)
    storage = ObjectClient(cluster.storage_address, ROLE_SCHEDULER, "attacker", shown=shown)
    yield storage
    storage.close()


def trap(tmp_path: Path) -> tuple[Path, bytes]:
    path = tmp_path / "sprung"
    return path, pickle.dumps(Trap(path))


@pytest.mark.parametrize("is_in_its_name", [False, True])
def test_a_function_that_another_peer_has_stored_first(
    cluster: RealCluster, attacker: ObjectClient, tmp_path: Path, is_in_its_name: bool
) -> None:
    """The bytes that the id names take the place of others. What has the client's own name and none of its grants is of
    another family, and the client is told so. (OWN-21)"""
    path, evil = trap(tmp_path)
    called = math.exp if is_in_its_name else math.sqrt
    function = ObjectId(content_id(b"".join(bytes(piece) for piece in values.dumps(called))))
    with Client(cluster.address) as client:
        attacker.put(function, PeerId(client.identity) if is_in_its_name else new_peer_id(), [evil])
        if is_in_its_name:
            with pytest.raises(ObjectStorageException, match="has objects of another family"):
                client.submit(called, 0.0)
        else:
            assert client.submit(called, 0.0).result(WAIT) == called(0.0)
    assert not path.exists()


def test_a_result_whose_task_the_monitor_shows(cluster: RealCluster, attacker: ObjectClient, tmp_path: Path) -> None:
    path, evil = trap(tmp_path)
    gate = tmp_path / "gate"

    def running() -> list[TaskId]:
        status = cluster.snapshot()
        return [one.task_id for worker in status.workers for one in worker.status.processors if one.task_id]

    with Client(cluster.address) as client:
        future = client.submit(tasks.bytes_after, str(gate), 300_000)
        until(lambda: bool(running()), "the monitor shows the task that runs")
        (task_id,) = running()
        forged = [result_object_id(task_id, 1, NO_SALT, PeerId(client.identity))]
        for owner in (new_peer_id(), PeerId(client.identity)):
            for object_id in forged:
                attacker.put(object_id, owner, [evil])
        gate.touch()
        assert future.result(WAIT) == bytes(300_000)
    assert not path.exists()
