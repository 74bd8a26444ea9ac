"""A client that does not trust its workers, at a real cluster: in each way that a result comes by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler import Client
from scaler.utility.exceptions import DeserializeObjectError, RemoteError
from tests.support.clusters import RealCluster
from tests.support.processes import Stage


@pytest.fixture(scope="module")
def cluster(module_stage: Stage) -> RealCluster:
    return RealCluster(module_stage)


@pytest.fixture
def wary(cluster: RealCluster) -> Iterator[Client]:
    with Client(cluster.address, trust_results=False) as client:
        yield client


def _path(number: int, padding: int = 0) -> list[object]:
    return [Path(str(number)), bytes(padding)]


def _fails(number: int) -> None:
    raise KeyError(number)


def test_plain_results_are_read(wary: Client) -> None:
    assert wary.submit(divmod, 7, 2).result() == (3, 1)
    assert wary.map(abs, range(-50, 0)) == list(range(50, 0, -1))
    assert wary.submit(bytes, 3_000_000).result() == bytes(3_000_000)
    assert wary.get({"a": 2, "b": (abs, "a")}, keys=["b"]) == {"b": 2}
    assert wary.submit(abs, wary.submit(abs, -3)).result() == 3


@pytest.mark.parametrize("padding", [0, 3_000_000], ids=["inline", "stored"])
def test_others_are_refused(wary: Client, padding: int) -> None:
    for ask in (
        lambda: wary.submit(_path, 1, padding).result(),
        lambda: wary.map(_path, range(4), [padding] * 4),
        lambda: wary.get({"a": (_path, 1, padding)}, keys=["a"]),
    ):
        with pytest.raises(DeserializeObjectError, match="trust_results=False"):
            ask()


def test_exceptions_are_told(wary: Client) -> None:
    for ask in (lambda: wary.submit(_fails, 5).result(), lambda: wary.map(_fails, range(4))):
        with pytest.raises(RemoteError, match="KeyError"):
            ask()


def test_values_may_go_on_unread(wary: Client) -> None:
    """What is only passed from task to task never comes here."""
    assert wary.submit(len, wary.submit(_path, 1)).result() == 2
