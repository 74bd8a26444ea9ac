"""Units as processes, each with GPUs of its own."""

from __future__ import annotations

import asyncio
import sys

import psutil
from tests.support.processes import until

from scaler_protocol.keys import KeyOptions
from scaler_worker.manager.core import Event, UnitEnded, UnitRuns
from scaler_worker.manager.native import NativeBackend

WAIT = 30.0
COMMAND = (sys.executable, "-c", "import signal; signal.pause()")


class Scene:
    def __init__(self, *shares: str) -> None:
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self.backend = NativeBackend(
            self._events.put_nowait,
            lambda unit_id: [unit_id],
            WAIT,
            COMMAND,
            shares=shares,
            address="tcp://127.0.0.1:2345",
            keys=KeyOptions(insecure=True),
        )

    async def next(self) -> Event:
        return await asyncio.wait_for(self._events.get(), WAIT)

    async def next_begins(self) -> list[str]:
        """The arguments of its process."""
        event = await self.next()
        assert isinstance(event, UnitRuns)
        process = psutil.Process(int(event.place.removeprefix("process ")))
        # Its parent goes on as soon as the kernel has closed its descriptors, which it does before this can be read.
        until(lambda: bool(process.cmdline()), "the kernel shows its arguments")
        arguments = process.cmdline()[len(COMMAND) :]
        return [argument for argument in arguments if not argument.startswith("--insecure")]

    async def next_ends(self) -> str:
        event = await self.next()
        assert isinstance(event, UnitEnded)
        return event.unit_id


def test_a_unit_begins_when_gpus_are_free() -> None:
    """Also if the unit before it is still being drained. One that is given up meanwhile never begins."""

    async def play() -> None:
        scene = Scene("0,2", "1,3")
        for unit in ("a", "b", "c", "d"):
            scene.backend.start(unit)
        assert await scene.next_begins() == ["a", "--gpus=0,2"]
        assert await scene.next_begins() == ["b", "--gpus=1,3"]
        scene.backend.stop("c")
        scene.backend.stop("b")
        assert {await scene.next_ends(), await scene.next_ends()} == {"b", "c"}
        assert await scene.next_begins() == ["d", "--gpus=1,3"]
        await scene.backend.close()
        assert {await scene.next_ends(), await scene.next_ends()} == {"a", "d"}

    asyncio.run(play())


def test_units_without_gpus_are_any_number() -> None:
    async def play() -> None:
        scene = Scene()
        for unit in ("a", "b", "c"):
            scene.backend.start(unit)
        assert [await scene.next_begins() for _ in range(3)] == [["a"], ["b"], ["c"]]
        await scene.backend.close()

    asyncio.run(play())
