"""A way to start units that starts nothing."""

from __future__ import annotations

import asyncio

from scaler_worker.manager.core import UnitEnded, UnitFound, UnitRuns
from scaler_worker.manager.service import Report


class FakeBackend:
    """Units that run at once, or not at all."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.started: list[str] = []
        self.failure = ""

    async def find_units(self) -> list[UnitFound]:
        return []

    def start(self, unit_id: str) -> None:
        self.started.append(unit_id)
        event = UnitEnded(unit_id, self.failure) if self.failure else UnitRuns(unit_id, "")
        asyncio.get_running_loop().call_soon(self._report, event)

    def stop(self, unit_id: str) -> None:
        asyncio.get_running_loop().call_soon(self._report, UnitEnded(unit_id))

    async def close(self) -> None:
        pass
