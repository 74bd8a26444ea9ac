"""The application profile that ships has what adapter and service rely on. Symphony itself has not read it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from scaler_symphony.container import main
from scaler_symphony.grid import GridOptions

SECTIONS = ["Consumer", "SOAM", "SessionTypes", "Service"]  # Symphony wants them in this order


def test_the_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--profile"]) == 0
    root = ElementTree.fromstring(capsys.readouterr().out.encode())
    name = "{http://www.platform.com/Symphony/Profile/Application}"
    assert [child.tag.removeprefix(name) for child in root] == SECTIONS
    consumer, _, types, service = root
    assert consumer.get("applicationName") == "ScalerService"
    assert GridOptions.__dataclass_fields__["session_type"].default in [one.get("name") for one in types]
    (system,) = service.iter(f"{name}osType")
    assert (system.get("startCmd") or "").endswith("/scaler_symphony_service")
    assert [one.get("name") for one in service.iter(f"{name}Method")] == ["Invoke"]
