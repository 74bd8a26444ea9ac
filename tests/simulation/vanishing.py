"""Clients that vanish together with their scheduler: no scheduler ever says that they are gone (OWN-17 to OWN-20)."""

from __future__ import annotations

from scaler_protocol.ids import ObjectId
from tests.simulation.clients import Call, ClientNode
from tests.simulation.nodes import TIMERS
from tests.simulation.world import TROUBLE_SECONDS, World

LATE_SECONDS = 4 * TIMERS.lease_seconds


class LateClient(ClientNode):
    """It may fetch its values long after its tasks have ended. Until then it stores nothing itself, so only the
    scheduler tells the storage that it lives."""

    def _fetch(self, call: Call, object_id: ObjectId) -> None:
        fetch = super()._fetch
        if self.world.rng.random() < 0.5:
            fetch(call, object_id)
        else:
            seconds = self.world.rng.uniform(0, LATE_SECONDS)
            self.world.clock.after(seconds, lambda: fetch(call, object_id) if self.is_up else None)

    def leave(self) -> None:
        leave = super().leave
        self.world.clock.after(LATE_SECONDS, lambda: leave() if self.is_up else None)


class VanishingWorld(World):
    """The scheduler dies once or twice, and some of its clients and workers with it. Storage and network never fail."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for client in self.clients:
            client.crash()
        self.clients = [LateClient(self, f"client{number}") for number in range(self.rng.randint(2, 4))]

    def _some_work(self, client: ClientNode) -> None:
        if client.is_up:
            client.submit([self.rng.choice(("large", "large", "nest", "slow", "echo")) for _ in range(5)])

    def _plan_trouble(self) -> None:
        self.network.weather.delay_seconds = self.rng.choice((0.0005, 0.01, 0.1))
        self.may_fail = True
        for _ in range(self.rng.choice((1, 1, 2))):
            self.clock.at(self.rng.uniform(1, TROUBLE_SECONDS), self._vanish)

    def _vanish(self) -> None:
        vanishing = [client for client in self.clients if "." not in client.name and self.rng.random() < 0.5]
        for client in vanishing:
            if client.is_up:
                self._trouble(f"{client.name} crashes")
                client.crash()
                client.has_left = True
        if self.rng.random() < 0.5:
            self._crash_worker()
        self._crash_scheduler()

    def check_owners(self) -> None:
        """After each turn of the storage."""
        gone = self.storage.core.gone_owners
        for client in self.clients:
            is_here = client.is_up and client.peer_id in self.scheduler.core.tables.clients
            self.law(not is_here or client.peer_id not in gone, f"{client.name} lives, and its objects were released")
