"""`Client.stream` where no processor runs the generator: the fake cluster holds its task, and the test stores what it
yields. (CLI-27 to CLI-29)"""

from __future__ import annotations

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import eventually

from scaler import Client, ScalerStream
from scaler.utility.exceptions import DisconnectedError
from scaler_protocol import values
from scaler_protocol.streams import VALUE, stream_object_id


def begun(client: Client, cluster: FakeCluster, *yielded: int, window: int = 2) -> ScalerStream[int]:
    """A stream whose generator has yielded these."""
    cluster.hold()
    stream = client.stream(range, 10, window=window)
    eventually(lambda: cluster.held_count() == 1, "its task is with the cluster")
    owner = client._ready().connection.peer_id

    def store() -> None:
        for number, value in enumerate(yielded):
            object_id = stream_object_id(stream._open.id, VALUE, number)
            cluster.objects[object_id] = bytearray(values.join(values.dumps(value)))
            cluster._owners[object_id] = {owner}

    cluster.do(store)
    return stream


def test_a_value_that_is_here_is_returned_although_its_session_is_over(client: Client, cluster: FakeCluster) -> None:
    """The storage takes no credit for a client that has left the cluster, and the client does not know that yet."""
    stream = begun(client, cluster, 5)
    cluster.do(lambda: cluster._gone.update(cluster._clients))
    assert next(stream) == 5
    cluster.lose_clients()
    with pytest.raises(DisconnectedError, match="while a generator was streaming"):
        next(stream)
