"""The storage as a process: a socket around the core, nothing decided here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from scaler_protocol.addresses import AddressError
from scaler_protocol.ids import new_peer_id
from scaler_protocol.keys import Identity
from scaler_protocol.messages import Hello, MemoryFile, PutShared
from scaler_protocol.process import StartupError
from scaler_protocol.process.line_budget import LineBudget
from scaler_protocol.process.memory import MemoryReturn
from scaler_protocol.session import (
    Complained,
    Lost,
    Opened,
    Received,
    SessionEvent,
    SessionServer,
    WelcomeFields,
)
from scaler_protocol.session.admission import Admission
from scaler_protocol.software import this_software
from scaler_protocol.transport import AsyncioDriver, RouterEndpoint
from scaler_storage.config import Config
from scaler_storage.core import (
    ALLOWED_MESSAGES,
    ALLOWED_ROLES,
    FEATURE_LIVE_OWNERS,
    CoreLimits,
    Enter,
    Event,
    FileOffered,
    Send,
    StorageCore,
    Tick,
    ToDisk,
)
from scaler_storage.grants import Grants
from scaler_storage.shared_files import SharedFiles, most_spill_files

BACKLOG_BYTES = 64 * 1024 * 1024
"""Of the answers that one peer has not acknowledged. Those to Gets wait before that (LIM-14); all others are short."""

_TICK = Tick()


if TYPE_CHECKING:
    from scaler_storage.spill_files import SpillThreads


class StorageService:
    def __init__(self, config: Config, stop: asyncio.Event) -> None:
        self._stop = stop
        admission = admission_of(config)
        limits = CoreLimits(memory_bytes=config.memory_limit_bytes)
        self._spill: SpillThreads | None = None
        if config.spill_directory is not None:
            from scaler_storage.spill_files import SpillDirectory

            self._directory = SpillDirectory(config.spill_directory)
            limits = replace(limits, disk_bytes=config.disk_limit_bytes, spill_files=most_spill_files())
        self._core = StorageCore(
            limits,
            unread=lambda peer_id: self._router.backlog_bytes(peer_id),
            all_unread=lambda: self._router.total_backlog_bytes,
            family_of=None if admission.keyring is None else Grants(admission.keyring).family_of,
        )
        if config.spill_directory is not None:
            self._core.disk.spilling.file_system_bytes = self._directory.room_bytes()
        self._memory = MemoryReturn()
        self._lines = LineBudget("ObjectStorageServer")
        self._files = SharedFiles(is_enabled=config.shares_memory)
        try:
            self._router = RouterEndpoint(config.address, _session_server(config, self._files, self._core, admission))
        except AddressError as error:
            raise StartupError(str(error)) from None
        self._driver = AsyncioDriver(self._router, self._on_events, next_deadline=self._next_deadline)

    async def run(self) -> None:
        logging.info("ObjectStorageServer: listen to object storage address %s", self._router.address)
        try:
            self._driver.start()
            if self._core.limits.disk_bytes is not None:
                from scaler_storage.spill_files import SpillThreads

                wake = partial(_wake, asyncio.get_running_loop(), self._driver)
                self._spill = SpillThreads(self._directory, wake)
            await self._stop.wait()
        finally:
            self._driver.stop()
            self._router.close()
            if self._spill is not None:
                self._spill.close()

    def _on_events(self, events: list[SessionEvent], now: float) -> None:
        for done in self._spill.take_done() if self._spill is not None else ():
            self._handle(done, now)
        self._handle(_TICK, now)
        for event in events:
            if isinstance(event, Received) and isinstance(event.message, PutShared):
                put = event.message
                self._handle(FileOffered(event.peer_id, put, self._files.open(put)), now)
            elif isinstance(event, (Received, Opened, Lost)):
                self._handle(event, now)
            if not isinstance(event, Received):
                _log(event, self._lines, now)
        self._memory.look(self._core.memory_bytes + self._router.total_backlog_bytes, now)

    def _next_deadline(self) -> float | None:
        deadlines = (self._core.next_deadline(), self._memory.next_deadline())
        return min((due_at for due_at in deadlines if due_at is not None), default=None)

    def _handle(self, event: Event, now: float) -> None:
        for action in self._core.handle(event, now):
            if isinstance(action, Send):
                self._router.send(action.peer_id, action.message)
            elif isinstance(action, Enter):
                self._files.enter(action.object_id, action.file)
            elif isinstance(action, ToDisk):
                assert self._spill is not None, "nothing is moved without a directory to move it to"
                self._spill.do(action)
            else:
                self._files.strike(action.object_id)


def _wake(loop: asyncio.AbstractEventLoop, driver: AsyncioDriver) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: a disk was slower than the end
        loop.call_soon_threadsafe(driver.wake)


def admission_of(config: Config) -> Admission:
    # The clients in a worker's tasks come with its ticket. What they may do is in their grants. (SCH-55)
    return Admission(config.keys.find_keyring(), time.time, lambda hello, identity: True)


def _session_server(config: Config, files: SharedFiles, core: StorageCore, admission: Admission) -> SessionServer:
    def welcome(hello: Hello, identity: Identity | None) -> WelcomeFields:
        withheld_features = files.withheld_features(hello)
        directory = MemoryFile() if withheld_features else files.directory()
        return WelcomeFields(withheld_features=withheld_features, directory=directory)

    return SessionServer(
        server_id=new_peer_id(),
        role_name="object storage server",
        allowed_roles=ALLOWED_ROLES,
        allowed_messages=ALLOWED_MESSAGES,
        software=this_software("scaler-storage"),
        timers=config.timers,
        features=(*files.features, FEATURE_LIVE_OWNERS),
        welcome=welcome,
        backlog_bytes=BACKLOG_BYTES,
        is_busy_with=core.is_busy_with,
        gate=core.work.pressure,
        admission=admission,
    )


def _log(event: SessionEvent, lines: LineBudget, now: float) -> None:
    """Peers come and go with every processor: that is news for debugging only, a peer that was lost is a warning."""
    if isinstance(event, Opened):
        who = event.hello.software
        logging.debug("ObjectStorageServer: %s joined (%s, process %d)", who.name, who.host, who.process_id)
    elif isinstance(event, Lost) and event.is_orderly:
        logging.debug("ObjectStorageServer: peer %s is gone: %s", event.peer_id.hex()[:8], event.text or "goodbye")
    elif not lines.admits(now):
        return
    elif isinstance(event, Lost):
        logging.warning("ObjectStorageServer: peer %s is gone: %s", event.peer_id.hex()[:8], event.text or "no reason")
    elif isinstance(event, Complained):
        logging.warning("ObjectStorageServer: peer %s complains: %s", event.peer_id.hex()[:8], event.text)
