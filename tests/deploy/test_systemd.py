"""The units of systemd: what they start, with which rights and within which memory."""

from __future__ import annotations

import configparser
import shlex
from collections.abc import Mapping
from typing import Any

import pytest

from scaler_protocol.process import byte_count
from tests.deploy.test_containers import DEPLOY, accept

NAMES = ("scheduler", "storage")


def parsed(name: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "systemd" / f"scaler-{name}.service", encoding="utf-8")
    return unit


def service(name: str) -> Mapping[str, str]:
    return parsed(name)["Service"]


def settings(name: str) -> Any:
    """What the unit's command means, with the file of its environment."""
    own = service(name)
    assert own["EnvironmentFile"].endswith(f"/{name}.env")
    lines = (DEPLOY / "systemd" / f"{name}.env").read_text(encoding="utf-8").splitlines()
    environment = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    program, *arguments = shlex.split(own["ExecStart"])
    return accept([program.rpartition("/")[2], *arguments], environment)


def test_the_scheduler_is_a_standby_and_uses_the_storage() -> None:
    scheduler = settings("scheduler")
    assert scheduler.standby_of == "tcp://10.0.0.2:2345" and scheduler.address == "tcp://10.0.0.1:2345"
    assert scheduler.object_storage_address == settings("storage").address == "tcp://10.0.0.3:2346"


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_has_few_rights_and_a_limit_of_memory(name: str) -> None:
    own = service(name)
    assert own["Restart"] == "always", "a server that was killed, or followed, is started again"
    assert parsed(name)["Unit"]["StartLimitIntervalSec"] == "0", "and however often that was"
    assert own["User"] and own["NoNewPrivileges"] == "yes" and own["ProtectSystem"] == "strict"
    assert own["CapabilityBoundingSet"] == "" and own["PrivateDevices"] == own["PrivateTmp"] == "yes"
    assert byte_count(own["MemoryMax"] + "iB") > 0 and own["MemorySwapMax"] == "0"


def test_the_storage_refuses_objects_before_it_is_killed_and_may_write_its_directory() -> None:
    own, storage = service("storage"), settings("storage")
    assert storage.memory_limit <= byte_count(own["MemoryMax"] + "iB") * 3 // 4
    assert storage.data_directory == f"/var/lib/{own['StateDirectory']}" and own["StateDirectoryMode"] == "0700"
    assert storage.disk_limit
