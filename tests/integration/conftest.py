"""Stages for tests with real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from scaler_protocol.transport.lane import OFF_VARIABLE
from tests.support.browsers import browser as browser
from tests.support.browsers import page as page
from tests.support.browsers import served as served
from tests.support.clusters import RealCluster
from tests.support.processes import Stage


@pytest.fixture(params=["lane", "zeromq"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the local lane, as peers of one host meet, and over ZeroMQ, as those of several do."""
    monkeypatch.setenv(OFF_VARIABLE, "" if request.param == "lane" else "1")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Processes of one test. Nothing of them may be left after it."""
    with Stage(tmp_path) as stage:
        yield stage


@pytest.fixture(scope="module")
def module_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Processes that the tests of a module share. Nothing of them may be left after it."""
    with Stage(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def client(cluster: RealCluster) -> Iterator[Client]:
    """At the cluster of the test's own module."""
    with Client(cluster.address) as client:
        yield client
