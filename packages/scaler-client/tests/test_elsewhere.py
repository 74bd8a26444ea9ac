"""A program that was written for another library's client is told what a method is called here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fake_cluster import FakeCluster

import scaler
from scaler import Client, ScalerFuture, SchedulerClusterCombo
from scaler.client.elsewhere import CALLED_HERE, OF_CLUSTERS, OF_FUTURES, OF_THE_MODULE

MIGRATION = Path(__file__).resolve().parents[3] / "docs" / "migration.md"


@pytest.fixture
def client() -> Iterator[Client]:
    cluster = FakeCluster()
    with Client(address=cluster.address) as client:
        yield client
    cluster.stop()


@pytest.mark.parametrize("name", CALLED_HERE)
def test_the_error_says_what_to_call(client: Client, name: str) -> None:
    with pytest.raises(AttributeError, match=f"'Client' has no attribute '{name}'; in Scaler it is ") as caught:
        getattr(client, name)
    assert caught.value.name == name and CALLED_HERE[name] in str(caught.value)
    assert not hasattr(client, name) and not hasattr(Client, name) and name not in dir(client)


def test_other_names_are_only_not_there(client: Client) -> None:
    with pytest.raises(AttributeError, match=r"^'Client' object has no attribute 'frobnicate'$"):
        client.frobnicate  # type: ignore[attr-defined]  # noqa: B018
    assert "submit" in dir(client)


def test_a_subclass_may_have_them(client: Client) -> None:
    class Ours(Client):
        def close(self) -> str:
            return "closed"

    assert Ours.close(client) == "closed"  # type: ignore[arg-type]


@pytest.mark.skipif(not MIGRATION.exists(), reason="the page is in the repository")
def test_the_page_has_no_method_of_dask_without_a_word() -> None:
    named = set(re.findall(r"^\| `client\.(\w+)\(", MIGRATION.read_text(encoding="utf-8"), re.M))
    assert {name for name in named if not hasattr(Client, name)} <= CALLED_HERE.keys()


@pytest.mark.parametrize(
    ("owner", "names"), ((ScalerFuture, OF_FUTURES), (SchedulerClusterCombo, OF_CLUSTERS), (scaler, OF_THE_MODULE))
)
def test_futures_clusters_and_the_module_say_what_to_call(owner: object, names: dict[str, str]) -> None:
    for name, here in names.items():
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'; in Scaler it is ") as caught:
            getattr(owner, name)
        assert here in str(caught.value)


def add(a: int, b: int = 0) -> int:
    return a + b


@pytest.mark.parametrize("method", ("map", "imap"))
def test_a_map_says_what_it_takes(client: Client, method: str) -> None:
    call = getattr(client, method)
    with pytest.raises(TypeError, match=r"argument 3 of map\(\) is 5, which cannot .*functools\.partial"):
        call(add, [1, 2], 5)
    with pytest.raises(TypeError, match=r"argument 2 of map\(\) is 5"):
        call(add, 5)
    with pytest.raises(TypeError, match="takes the function first and its iterables after it"):
        call([1, 2], add)


@pytest.mark.parametrize("name", ("initializer", "max_workers"))
def test_a_local_cluster_says_what_arguments_of_other_pools_are_here(name: str) -> None:
    with pytest.raises(TypeError, match=rf"local\(\) has no argument '{name}': .*(worker_state|workers=)"):
        scaler.local(**{name: 2})  # type: ignore[arg-type]
