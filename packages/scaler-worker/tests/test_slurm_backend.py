"""Units as jobs, against commands that answer what Slurm's may: what a real Slurm does is tested elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.processes import until

from scaler_protocol.ids import PeerId
from scaler_worker.manager import slurm
from scaler_worker.manager.core import Event, UnitEnded, UnitRuns
from scaler_worker.manager.slurm import SlurmBackend, SlurmOptions

MANAGER = PeerId(b"m" * 16)
WAIT = 10.0


class Scene:
    """`squeue` prints the file `listing`, `sbatch` the last word of a job's name, and `scancel` notes what it hears."""

    def __init__(self, directory: Path) -> None:
        self._listing = directory / "listing"
        self.canceled = directory / "canceled"
        for name, script in (
            ("squeue", f"cat {self._listing}"),
            ("sbatch", 'echo "${4##*-}"'),
            ("scancel", f'echo "$@" >> {self.canceled}'),
        ):
            command = directory / name
            command.write_text(f"#!/bin/sh\n{script}\n")
            command.chmod(0o755)
        self.list()
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        options = SlurmOptions(log_directory=str(directory))
        self.backend = SlurmBackend(self._events.put_nowait, MANAGER, options, lambda unit_id: [])

    def list(self, *units: str, text: str = "") -> None:
        """They run. Renamed into its place: `squeue` may be reading."""
        lines = [f"{unit}|RUNNING|node|scaler-{MANAGER.hex()}-{unit}\n" for unit in units]
        new = self._listing.with_suffix(".new")
        new.write_text(text + "".join(lines))
        new.rename(self._listing)

    async def next(self) -> Event:
        return await asyncio.wait_for(self._events.get(), WAIT)

    async def start(self, *units: str) -> None:
        self.list(*units)
        for unit in units:
            self.backend.start(unit)
        assert {await self.next() for _ in units} == {UnitRuns(unit, f"job {unit} on node") for unit in units}


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Scene], Awaitable[None]]], None]:
    monkeypatch.setattr(slurm, "POLL_SECONDS", 0.01)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def play(tell: Callable[[Scene], Awaitable[None]]) -> None:
        async def run() -> None:
            scene = Scene(tmp_path)
            assert await scene.backend.find_units() == []
            try:
                await tell(scene)
            finally:
                await asyncio.wait_for(scene.backend.close(), WAIT)

        asyncio.run(run())

    return play


def test_a_listing_that_is_none_ends_nothing(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(scene: Scene) -> None:
        said = asyncio.Event()
        monkeypatch.setattr(slurm.logger, "warning", lambda *what: said.set() if "no job" in str(what) else None)
        await scene.start("1")
        scene.list(text="Slurm is being upgraded\n")
        await asyncio.wait_for(said.wait(), WAIT)
        scene.list()
        assert await scene.next() == UnitEnded("1", "job 1 ended by itself")

    play(tell)


def test_one_command_ends_all_jobs_that_are_left(play: Any) -> None:
    scenes: list[Scene] = []

    async def tell(scene: Scene) -> None:
        scenes.append(scene)
        await scene.start("1", "2", "3")

    play(tell)
    assert scenes[0].canceled.read_text() == "1 2 3\n"


def test_a_command_that_is_waited_for_no_more_is_ended(tmp_path: Path) -> None:
    """The manager ends while it asks Slurm."""

    async def run() -> int:
        pid_file, command = tmp_path / "pid", tmp_path / "squeue"
        command.write_text(f"#!/bin/sh\necho $$ > {pid_file}.new && mv {pid_file}.new {pid_file}\nexec sleep 300\n")
        command.chmod(0o755)
        asking = asyncio.create_task(slurm._output_of(str(command)))
        await asyncio.to_thread(until, pid_file.exists, "it runs")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        return int(pid_file.read_text())

    assert not psutil.pid_exists(asyncio.run(run()))
