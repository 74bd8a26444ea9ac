"""A cluster whose worker is `scaler_symphony_cluster`, on a fake of Symphony (tests/support/fake_symphony)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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

    @contextmanager
    def fake(self) -> Iterator[None]:
        """What is started meanwhile, and what that starts, has this world."""
        self.world.write(self._file)
        os.environ[VARIABLE] = str(self._file)
        try:
            yield
        finally:
            del os.environ[VARIABLE]

    def start_adapter(self, *options: str, application: str = APPLICATION) -> Command:
        with self.fake():
            adapter = self.stage.start(
                "scaler_symphony", self.address, application, "--heartbeat-interval", "0.5", *self._options, *options
            )
        self.workers.append(adapter)
        return adapter

    def start_manager(self, *options: str) -> Command:
        with self.fake():
            return self.stage.start("scaler_worker.manager", "symphony", self.address, *options)

    def assert_no_breach(self) -> None:
        path = Path(self.world.breaches)
        assert not path.exists(), path.read_text(encoding="utf-8")
