"""Objects of clients that vanish together with their scheduler do not stay. (OWN-17 to OWN-20, SCH-58)"""

from __future__ import annotations

import signal

from scaler import Client
from scaler_protocol import codes
from scaler_protocol.errors import ObjectNotFound
from scaler_protocol.ids import ObjectId, Owner, new_object_id, new_peer_id
from scaler_protocol.objects import ObjectClient
from tests.support.clusters import RealCluster
from tests.support.processes import WAIT, Stage, until

LEASE = ("--client-timeout-seconds", "1.5", "--heartbeat-seconds", "0.3")
LARGE = 200_000


def zeros(size: int) -> bytes:
    return bytes(size)


def is_gone(reader: ObjectClient, object_id: ObjectId, owner: Owner) -> bool:
    try:
        reader.get(object_id, owner=owner)
    except ObjectNotFound:
        return True
    return False


def test_only_owners_that_a_scheduler_names_keep_what_they_have(stage: Stage) -> None:
    cluster = RealCluster(stage, 1, scheduler=LEASE)
    client = Client(cluster.address, timeout_seconds=WAIT)
    held = client.submit(zeros, LARGE)
    until(held.done, "the value of a live client lies in the storage")
    cluster.scheduler.end(signal.SIGKILL)
    # A worker stores the result of a task whose client never comes back.
    shown = cluster.keys.find_pass(cluster.storage_address, WAIT)
    worker = ObjectClient(cluster.storage_address, codes.ROLE_WORKER, "scaler-tests", WAIT, shown=shown)
    keyring = cluster.keys.find_keyring()
    assert keyring is not None
    left_behind, vanished = new_object_id(), new_peer_id()
    owner = Owner(vanished, keyring.grant(vanished))
    worker.put(left_behind, vanished, [bytes(LARGE)], owner.grant)
    cluster.start_scheduler()
    assert client.submit(zeros, 1).result(WAIT) == bytes(1), "the client has come back"
    until(lambda: is_gone(worker, left_behind, owner), "what was left behind is released")
    assert held.result(WAIT) == bytes(LARGE), "and what a live client has is there"
    worker.close()
    client.disconnect()
    cluster.wait_until_empty()
    cluster.stop()
