"""A program that was written for another library's client is told what a method is called here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fake_cluster import FakeCluster

from scaler import Client
from scaler.client.elsewhere import CALLED_HERE

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
