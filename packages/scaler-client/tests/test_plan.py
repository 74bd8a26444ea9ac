"""What `scaler config.toml` starts, and what its parts are told of each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.cluster.plan import plan

FILE = """
[object_storage_server]
address = "tcp://127.0.0.1:2346"
{storage}
[scheduler]
address = "tcp://127.0.0.1:2345"
{scheduler}
[cluster]
num_of_workers = 1
{cluster}
"""


def environments(tmp_path: Path, storage: str = "", scheduler: str = "", cluster: str = "") -> list[dict[str, str]]:
    path = tmp_path / "config.toml"
    path.write_text(FILE.format(storage=storage, scheduler=scheduler, cluster=cluster))
    return [dict(start.environment) for start in plan(str(path), {})]


def told(found: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: value for name, value in one.items() if "ADDRESS" not in name} for one in found]


def test_parts_that_say_nothing_of_keys_find_their_own(tmp_path: Path) -> None:
    assert told(environments(tmp_path)) == [{}, {}, {}]


@pytest.mark.parametrize("said_by", ["storage", "scheduler"])
def test_the_key_that_one_section_names_is_that_of_all(tmp_path: Path, said_by: str) -> None:
    storage, scheduler, cluster = told(environments(tmp_path, **{said_by: 'key_file = "/etc/it.key"'}))
    assert cluster == {"SCALER_CLUSTER_KEY_FILE": "/etc/it.key"}
    other, name = (scheduler, "SCHEDULER") if said_by == "storage" else (storage, "OBJECT_STORAGE_SERVER")
    assert other == {f"SCALER_{name}_KEY_FILE": "/etc/it.key"}


def test_a_part_with_a_file_of_its_own_keeps_it(tmp_path: Path) -> None:
    found = told(environments(tmp_path, scheduler='key-file = "/etc/it.key"', cluster='key_file = "/etc/worker.key"'))
    assert found == [{"SCALER_OBJECT_STORAGE_SERVER_KEY_FILE": "/etc/it.key"}, {}, {}]


def test_a_cluster_is_insecure_as_a_whole(tmp_path: Path) -> None:
    found = told(environments(tmp_path, scheduler="insecure = true"))
    assert found == [{"SCALER_OBJECT_STORAGE_SERVER_INSECURE": "True"}, {}, {"SCALER_CLUSTER_INSECURE": "True"}]
