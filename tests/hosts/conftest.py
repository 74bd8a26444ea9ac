"""A cluster over hosts, which the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.host_cluster import HostCluster
from tests.support.hosts import why_not
from tests.support.processes import Stage


@pytest.fixture(scope="session")
def hosts_are_possible() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def cluster(hosts_are_possible: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostCluster]:
    with Stage(tmp_path_factory.mktemp("hosts")) as stage:
        cluster = HostCluster(stage)
        yield cluster
        cluster.close()
