"""The lines of the page for two machines, as a person types them: on one machine and, with a file copied, on another.

A machine is a configuration and a runtime directory of its own, without the local lane to the other machine.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from scaler import Client
from scaler_protocol.keys import NoKeyFound
from scaler_protocol.transport.lane import OFF_VARIABLE
from tests.architecture.sources import ROOT
from tests.support.processes import Stage

PAGE = ROOT / "docs" / "operations" / "deploying.md"


def lines_of(page: Path, port: int) -> list[list[str]]:
    """The command lines of the page's first two blocks, at ports that are free here."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)[:2]
    for given, here in (("10.0.0.5:2345", f"127.0.0.1:{port}"), ("10.0.0.5:2346", f"127.0.0.1:{port + 1}")):
        blocks = [block.replace(given, here) for block in blocks]
    return [[line[2:] for line in block.replace("-n 16", "-n 1").splitlines()] for block in blocks]


class Machine:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
        self._monkeypatch = monkeypatch
        self.place = place
        for name in ("config", "runtime"):
            (place / name).mkdir(mode=0o700, parents=True)

    @property
    def key(self) -> Path:
        return self.place / "config" / "scaler" / "cluster.key"

    def enter(self) -> None:
        """Commands and clients are of this machine from now on."""
        self._monkeypatch.setenv("XDG_CONFIG_HOME", str(self.place / "config"))
        self._monkeypatch.setenv("XDG_RUNTIME_DIR", str(self.place / "runtime"))


def test_two_machines(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OFF_VARIABLE, "1")
    servers, others = (Machine(monkeypatch, tmp_path / name) for name in ("servers", "others"))
    port = stage.ports()
    address = f"tcp://127.0.0.1:{port}"
    (storage, scheduler, derive), (workers,) = lines_of(PAGE, port)
    servers.enter()
    stage.start_installed(storage).wait_for("listen to object storage")
    stage.start_installed(scheduler).wait_for("connected to object storage")
    assert stage.start_installed(derive).wait() == 0
    others.enter()
    stage.start_installed(workers).wait_for("connected to the scheduler")  # worker.key lies where it is started
    with pytest.raises(NoKeyFound, match=re.escape(f"copy {others.key} from the machine of its scheduler")):
        Client(address, timeout_seconds=20)
    others.key.parent.mkdir(mode=0o700)
    shutil.copy(servers.key, others.key)
    with Client(address, timeout_seconds=20) as client:
        assert client.submit(len, bytes(3_000_000)).result() == 3_000_000
