"""`Client.stream` where no processor runs the generator: the fake cluster holds its task, and the test stores what it
yields. (CLI-27 to CLI-29)"""

from __future__ import annotations

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.waiting import eventually

from scaler import Client, ScalerStream
from scaler.utility.exceptions import DisconnectedError
from scaler_protocol import columns, values
from scaler_protocol.messages import Results
from scaler_protocol.streams import BEGUN, CREDIT, VALUE, stream_object_id
from scaler_protocol.transport import blocking


def begun(client: Client, cluster: FakeCluster, *yielded: int, window: int = 2) -> ScalerStream[int]:
    """A stream whose generator has yielded these."""
    cluster.hold()
    stream = client.stream(range, 10, window=window)
    eventually(lambda: cluster.held_count() == 1, "its task is with the cluster")
    store(client, cluster, stream, *yielded)
    return stream


def store(client: Client, cluster: FakeCluster, stream: ScalerStream[int], *yielded: int) -> None:
    owner = client._ready().connection.peer_id

    def order() -> None:
        stored = {stream_object_id(stream._open.id, BEGUN, 0): b"mark"}
        for number, value in enumerate(yielded):
            stored[stream_object_id(stream._open.id, VALUE, number)] = values.join(values.dumps(value))
        for object_id, content in stored.items():
            cluster.objects[object_id] = bytearray(content)
            cluster._owners[object_id] = {owner}

    cluster.do(order)


def sent_later(client: Client, cluster: FakeCluster) -> ScalerStream[int]:
    """A stream that was made in one session and is sent in the next, which begin after interrupts."""
    for _ in range(2):  # then its function is stored
        begun(client, cluster).close()
        eventually(lambda: not cluster.held_count(), "an earlier one has ended")
    with cluster.stuck():
        replace_session(client)
        stream = client.stream(range, 10, window=1)
        replace_session(client)
    eventually(lambda: cluster.held_count() == 1, "its task is with the cluster")
    return stream


def replace_session(client: Client) -> None:
    """As after an interrupt in the middle of a turn."""
    connection = client._ready().connection
    before = connection.peer_id
    with connection.lock:
        connection.driver._bars |= blocking._IN_TURN
    connection.driver.watch.wake_surely()
    eventually(lambda: connection.peer_id != before, "the session is replaced")


def test_a_value_that_is_here_is_returned_although_its_session_is_over(client: Client, cluster: FakeCluster) -> None:
    """The storage takes no credit for a client that has left the cluster, and the client does not know that yet."""
    stream = begun(client, cluster, 5)
    cluster.do(lambda: cluster._gone.update(cluster._clients))
    assert next(stream) == 5
    cluster.lose_clients()
    with pytest.raises(DisconnectedError, match="while a generator was streaming"):
        next(stream)


def test_what_is_stored_of_a_stream_that_is_sent_later_is_released(client: Client, cluster: FakeCluster) -> None:
    stream = sent_later(client, cluster)
    store(client, cluster, stream, 5)
    owner = client._ready().connection.peer_id
    assert len(cluster.values_of(owner)) == 2
    stream.close()
    eventually(lambda: not cluster.values_of(owner), "nothing is stored")


def test_a_stream_that_is_sent_later_gets_its_credits(client: Client, cluster: FakeCluster) -> None:
    """The thread that takes its values has begun to wait in the session in which the stream was made."""
    stream = sent_later(client, cluster)
    opened, made_by = stream._open, stream._open.owner
    name_owner, earlier = opened.name_owner, [made_by]

    def name_late() -> None:
        name_owner()
        opened.owner = earlier.pop() if earlier else opened.owner

    opened.name_owner = name_late  # type: ignore[method-assign]
    cluster.do(lambda: cluster._gone.add(made_by.peer_id))
    store(client, cluster, stream, 5)
    assert next(stream) == 5 and not earlier
    credit = stream_object_id(opened.id, CREDIT, 1)
    assert client._ready().connection.peer_id in cluster.owners_of(credit), "the generator may go on"


def end_task(cluster: FakeCluster) -> None:
    """The generator has returned."""

    def order() -> None:
        peer_id, _, (task,) = cluster._held.pop()
        data = bytes(values.join(values.dumps("its value")))
        cluster._scheduler.send(peer_id, Results(task.task_id, data, columns.join_u32([len(data)])))

    cluster.do(order)


def test_a_stream_ends_behind_its_last_value(client: Client, cluster: FakeCluster) -> None:
    stream = begun(client, cluster, 5, 6)
    end_task(cluster)
    assert (next(stream), next(stream)) == (5, 6)
    with pytest.raises(StopIteration, match="its value"):
        next(stream)
    eventually(lambda: not cluster.values_of(client._ready().connection.peer_id), "nothing is stored")


def test_values_that_are_gone_with_their_session_do_not_end_a_stream(client: Client, cluster: FakeCluster) -> None:
    """The generator has returned, so its task is not ended by the loss of the session."""
    stream = begun(client, cluster, 5, 6)
    end_task(cluster)
    assert next(stream) == 5
    eventually(stream.future.done, "its task has ended")
    cluster.release_owners()
    with pytest.raises(DisconnectedError, match="before all values of the stream were taken"):
        next(stream)
    assert list(stream) == []
