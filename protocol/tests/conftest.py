"""For tests of endpoints: a bench on each way that messages can take, and what most of these tests have on it.

Without a word of its own a test runs on both ways. `way` says otherwise, as a fixture of its file or a parameter.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.endpoints import Bench, bench_on
from tests.support.raw_lane import Raw

from scaler_protocol.transport import DealerEndpoint, RouterEndpoint


@pytest.fixture(params=["lane", "zeromq"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bench(way: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    yield from bench_on(way, monkeypatch)


@pytest.fixture
def server(bench: Bench) -> RouterEndpoint:
    return bench.server()


@pytest.fixture
def bystander(bench: Bench, server: RouterEndpoint) -> DealerEndpoint:
    """A client in the right, which must not notice what the others do."""
    dialer = bench.dialer(server.address)
    bench.open(dialer)
    return dialer


@pytest.fixture
def raw(server: RouterEndpoint) -> Iterator[Raw]:
    raw = Raw(server.address)
    yield raw
    raw.socket.close()
