from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq
from tests.support.fake_cluster import FakeCluster

from scaler import Client
from scaler_protocol.transport import zmq_context


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    cluster = FakeCluster()
    yield cluster
    cluster.stop()


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[Client]:
    with Client(cluster.address, timeout_seconds=10) as client:
        yield client


@pytest.fixture
def publisher() -> Iterator[zmq.Socket[bytes]]:
    """A monitor that says what a test lets it say."""
    socket = zmq_context().socket(zmq.XPUB)
    socket.setsockopt(zmq.LINGER, 0)
    socket.bind("tcp://127.0.0.1:*")
    yield socket
    socket.close()
