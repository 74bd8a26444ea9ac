"""A worker manager as a process: a socket to the scheduler on one side, a way to start units on the other."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from scaler_protocol.codes import PROTOCOL_VERSION_MAX, PROTOCOL_VERSION_MIN, ROLE_MANAGER
from scaler_protocol.ids import PeerId, new_peer_id
from scaler_protocol.keys import KeyOptions, Pass
from scaler_protocol.messages import Capability, Hello, ManagerOffer, Timers
from scaler_protocol.process import StartupError
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected, SessionDialer, SessionEvent
from scaler_protocol.session.handshake import why_no_scheduler
from scaler_protocol.session.receivable import FROM_SCHEDULER
from scaler_protocol.software import this_software
from scaler_protocol.transport import AsyncioDriver, DealerEndpoint
from scaler_worker import __version__
from scaler_worker.manager.core import (
    Action,
    Event,
    Leaving,
    ManagerCore,
    StartUnit,
    StopUnit,
    Tell,
    Ticked,
    UnitEnded,
    UnitFound,
)

logger = logging.getLogger("scaler.manager")

REDIAL_SECONDS = 2.0
LEASE_SECONDS = 10.0
"""A manager that was killed is forgotten after so long; one that was started again gets its place then. (MGR-2)"""


KEY_SECONDS = 60.0
"""How long to wait for the key of a scheduler of this machine that does not run yet."""


@dataclass(frozen=True, slots=True)
class ManagerConfig:
    address: str
    name: str
    max_workers: int
    workers_per_unit: int = 1
    capabilities: tuple[Capability, ...] = ()
    stop_seconds: float = 30.0  #: how long units get to end when the manager itself is to end
    keys: KeyOptions = field(default_factory=KeyOptions)
    shown: Pass | None = None  #: what the keys were found to be, once they are looked for
    timers: Timers = field(default_factory=lambda: Timers(heartbeat_seconds=1.0, lease_seconds=LEASE_SECONDS))

    def with_key(self) -> ManagerConfig:
        """KeyFileError when there is none, also after a while."""
        return replace(self, shown=self.keys.find_pass(self.address, KEY_SECONDS))

    @property
    def manager_id(self) -> PeerId:
        """The same for every manager of this name. (MGR-1)"""
        return PeerId(hashlib.blake2b(self.name.encode(), digest_size=16).digest())


Report = Callable[[Event], None]


class Backend(Protocol):
    """A way to start and stop units, from when it is made in a running loop. Only `find_units` and `close` wait.

    For every unit that was started a UnitRuns may be reported, and exactly one UnitEnded is.
    """

    async def find_units(self) -> list[UnitFound]:
        """Those of a former life of this manager. Asked for once, before anything is started."""
        ...

    def start(self, unit_id: str) -> None: ...

    def stop(self, unit_id: str) -> None: ...

    async def close(self) -> None:
        """Whatever still runs is ended, without grace."""
        ...


NewBackend = Callable[[Report], Backend]
"""A backend that tells the report, in the loop's thread, what comes of its units."""


class ManagerService:
    def __init__(self, config: ManagerConfig, new_backend: NewBackend) -> None:
        self._config = config
        self._backend = new_backend(self._report)
        life, numbers = secrets.token_hex(3), itertools.count(1)
        self._core = ManagerCore(
            max_workers=config.max_workers,
            workers_per_unit=config.workers_per_unit,
            new_unit_id=lambda: f"{life}-{next(numbers)}",
        )
        self._endpoint = self._dial()
        self._driver = AsyncioDriver(self._endpoint, self._on_session, next_deadline=self._core.next_deadline)
        self._is_done = asyncio.Event()
        self._has_failed = asyncio.Event()
        self._failure = ""
        self._trouble = ""

    def _dial(self) -> DealerEndpoint:
        config = self._config
        hello = Hello(
            PROTOCOL_VERSION_MIN,
            PROTOCOL_VERSION_MAX,
            ROLE_MANAGER,
            new_peer_id(),
            timers=config.timers,
            software=this_software("scaler-worker", __version__),
            manager=ManagerOffer(config.manager_id, config.name, config.capabilities, config.workers_per_unit),
        )
        dialer = SessionDialer(hello=hello, server_name="scheduler", allowed_messages=FROM_SCHEDULER[ROLE_MANAGER])
        return DealerEndpoint(config.address, dialer, config.shown)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`, then until its units have ended."""
        logger.info(
            "WorkerManager %s: up to %d workers for the scheduler at %s",
            self._config.name,
            self._config.max_workers,
            self._config.address,
        )
        try:
            for found in await self._backend.find_units():
                self._report(found)
            self._driver.start()
            await first_of(stop.wait(), self._has_failed.wait())
            self._report(Leaving())
            await asyncio.wait_for(self._is_done.wait(), self._config.stop_seconds)
        except asyncio.TimeoutError:
            logger.warning(
                "WorkerManager %s: units have not ended within %g s: ending them without grace",
                self._config.name,
                self._config.stop_seconds,
            )
        finally:
            self._driver.stop()
            self._endpoint.close()
            await self._backend.close()
        if self._failure:
            raise StartupError(self._failure)

    # ------------------------------------------------------------ events

    def _report(self, event: Event) -> None:
        if isinstance(event, UnitEnded) and event.text:
            logger.warning("WorkerManager %s: unit %s: %s", self._config.name, event.unit_id, event.text)
        self._perform(self._core.handle(event, time.monotonic()))
        self._driver.wake()

    def _on_session(self, events: list[SessionEvent], now: float) -> None:
        for event in events:
            if isinstance(event, Opened):
                self._on_opened(event)
            elif isinstance(event, (Lost, Rejected)):
                self._on_gone(event)
            elif isinstance(event, Complained):
                logger.warning("WorkerManager %s: the scheduler complains: %s", self._config.name, event.text)
            if isinstance(event, (Opened, Received, Lost)):
                self._perform(self._core.handle(event, now))
        self._perform(self._core.handle(Ticked(), now))

    def _on_opened(self, event: Opened) -> None:
        if why := why_no_scheduler(event.welcome, self._endpoint.address):
            self._failure = why
            self._has_failed.set()
        self._trouble = ""
        logger.info("WorkerManager %s: connected to the scheduler", self._config.name)

    def _on_gone(self, event: Lost | Rejected) -> None:
        if event.text != self._trouble:
            self._trouble = event.text
            logger.warning("WorkerManager %s: no session with the scheduler: %s", self._config.name, event.text)
        asyncio.get_running_loop().call_later(REDIAL_SECONDS, self._redial)

    def _redial(self) -> None:
        self._endpoint.redial()
        self._driver.wake()

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Tell):
                self._endpoint.send(action.status)
            elif isinstance(action, StartUnit):
                logger.info("WorkerManager %s: start unit %s", self._config.name, action.unit_id)
                self._backend.start(action.unit_id)
            elif isinstance(action, StopUnit):
                logger.info("WorkerManager %s: stop unit %s", self._config.name, action.unit_id)
                self._backend.stop(action.unit_id)
        if self._core.is_done:
            self._is_done.set()


async def first_of(*waits: Awaitable[object]) -> None:
    """Until one of them is over; the others are canceled."""
    futures = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in futures:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
