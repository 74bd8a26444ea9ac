from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_publisher import FakePublisher

from scaler import Client


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
def publisher() -> Iterator[FakePublisher]:
    """A scheduler that says to monitors what a test lets it say."""
    publisher = FakePublisher()
    yield publisher
    publisher.close()
