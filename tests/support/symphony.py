"""A cluster whose worker is `scaler_symphony_cluster`, on a fake of Symphony (tests/support/fake_symphony)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tests.support.clusters import RealCluster
from tests.support.processes import Command

FAKE = Path(__file__).parent / "fake_symphony"
sys.path.append(str(FAKE))

from symphony_world import VARIABLE, Application, World  # noqa: E402  it is beside the fake that it controls

APPLICATION = "ScalerService"
OUR_SERVICE = [sys.executable, "-m", "scaler_symphony.container"]


def new_world(directory: Path, *, services: int = 4, command: list[str] | None = None, **faults: Any) -> World:
    application = Application(command or OUR_SERVICE, services=services)
    return World(
        breaches=str(directory / "breaches"),
        lost_flag=str(directory / "lost"),
        applications={APPLICATION: application},
        **faults,
    )


class SymphonyCluster(RealCluster):
    """Storage, scheduler, and the adapter with the fake in its PYTHONPATH."""

    def __init__(self, stage: Any, world: World, *options: str, scheduler: tuple[str, ...] = ()) -> None:
        super().__init__(stage, 0, scheduler=scheduler)
        self.world = world
        self._file = stage.directory / "world.json"
        self._options = options

    def start_adapter(self, *options: str, application: str = APPLICATION) -> Command:
        self.world.write(self._file)
        os.environ[VARIABLE] = str(self._file)
        try:
            adapter = self.stage.start(
                "scaler_symphony", self.address, application, "--heartbeat-interval", "0.5", *self._options, *options
            )
        finally:
            del os.environ[VARIABLE]
        self.workers.append(adapter)
        return adapter

    def assert_no_breach(self) -> None:
        path = Path(self.world.breaches)
        assert not path.exists(), path.read_text(encoding="utf-8")
