"""Where values lie cannot be computed from ids that watchers see. (OWN-14)"""

from __future__ import annotations

from tests.support.fake_cluster import FakeCluster

from scaler import Client
from scaler_protocol.ids import ID_BYTES

WAIT = 10


def test_all_that_a_client_submits_has_its_salt_and_no_other_client_has_it(cluster: FakeCluster) -> None:
    salts = []
    for _ in range(2):
        with Client(cluster.address) as client:
            assert client.submit(abs, -1).result(WAIT) == 1
            assert client.map(abs, [-1, -2]) == [1, 2]
            assert client.get({"a": (abs, -1), "b": (abs, "a")}, "b") == 1
            assert client.submit(bytes, 300_000).result(WAIT) == bytes(300_000)
        sent = {submit.header.result_salt for submit in cluster.submits}
        cluster.submits.clear()
        assert len(sent) == 1
        salts += sent
    assert len(set(salts)) == 2 and {len(salt) for salt in salts} == {ID_BYTES}
