"""Managers and two schedulers: one takes over, and units go on. (Spec chapters 6 and 19)"""

from __future__ import annotations

from tests.simulation.managed import ManagedWorld
from tests.simulation.standby import StandbyWorld


class ManagedPairWorld(StandbyWorld, ManagedWorld):
    """All laws of both: a manager has one scheduler at a time, and the one that takes over ends no unit whose workers
    are on their way to it. In worlds with crashes alone no task begins twice."""

    def _plan_trouble(self) -> None:
        StandbyWorld._plan_trouble(self)
        self._plan_trouble_of_managers()

    def _scheduler_to_cut_off(self) -> str:
        return self.scaling_rng.choice(self.pair).name
