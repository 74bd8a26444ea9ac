"""The storage as a process: a socket around the core, nothing decided here."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from scaler_protocol.addresses import AddressError
from scaler_protocol.ids import new_peer_id
from scaler_protocol.keys import Identity
from scaler_protocol.keys.grants import Grants
from scaler_protocol.messages import Hello, MemoryFile, PutShared
from scaler_protocol.process import StartupError
from scaler_protocol.process.audit import Audit
from scaler_protocol.process.key_options import warn_of_insecure
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
from scaler_protocol.session.bounds import SESSIONS
from scaler_protocol.software import this_software
from scaler_protocol.transport import AsyncioDriver, RouterEndpoint
from scaler_protocol.transport.descriptors import descriptors_for
from scaler_storage import __version__
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
from scaler_storage.core.limits import MEBIBYTE
from scaler_storage.shared_files import SharedFiles

SESSIONS_SHARE, SPILLED_SHARE, COPIES_SHARE = 1 / 4, 7 / 16, 1 / 16
"""Of the descriptors, for sessions beyond the first ones of each user, files on the disk, and their copies. (LIM-32)"""

LAST_SECONDS = 8.0
"""So long the end waits at most for the data directory: what starts this process again may kill it after ten."""

BACKLOG_BYTES = 64 * 1024 * 1024
"""Of the answers that one peer has not acknowledged. Those to Gets wait before that (LIM-14); all others are short."""

_TICK = Tick()


if TYPE_CHECKING:
    from scaler_storage.data_directory import DataDirectory
    from scaler_storage.spill_files import DiskThreads, SpillDirectory


class StorageService:
    def __init__(self, config: Config, stop: asyncio.Event) -> None:
        self._stop = stop
        admission = admission_of(config)
        limits = CoreLimits(memory_bytes=config.memory_limit_bytes, user_bytes=config.user_limit_bytes)
        self._disk: DiskThreads | None = None
        with uncollected():
            self._directory = _directory_of(config, admission)
        if self._directory is not None:
            limits = replace(
                limits,
                disk_bytes=config.disk_limit_bytes,
                spill_files=descriptors_for(SPILLED_SHARE),
                copies=min(limits.copies, descriptors_for(COPIES_SHARE)),
                keeps_objects=config.data_directory is not None,
            )
        self._admission = admission
        self._marked = admission.keyring
        self._core = StorageCore(
            limits,
            unread=lambda peer_id: self._router.backlog_bytes(peer_id),
            all_unread=lambda: self._router.total_backlog_bytes,
            read_grant=None if admission.keyring is None else Grants(admission.keyring).read,
            date=time.time,
        )
        if self._directory is not None:
            self._core.disk.spilling.file_system_bytes = self._directory.room_bytes()
            with uncollected():
                self._restore(self._directory, time.monotonic())
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
        if self._admission.keyring is None:
            warn_of_insecure("ObjectStorageServer", self._router.address, "read and replace all objects")
        try:
            self._driver.start()
            if self._directory is not None:
                self._disk = self._directory.threads(partial(_wake, asyncio.get_running_loop(), self._driver))
            await self._stop.wait()
        finally:
            self._driver.stop()
            self._router.close()
            if self._disk is not None:
                self._keep_the_rest(self._disk)
                self._disk.close()

    def _on_events(self, events: list[SessionEvent], now: float) -> None:
        for done in self._disk.take_done() if self._disk is not None else ():
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
        if self._core.disk.keeping is not None:
            self._follow_keys()
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
                assert self._disk is not None, "nothing is moved without a directory to move it to"
                self._disk.do(action)
            else:
                self._files.strike(action.object_id)

    def _restore(self, directory: SpillDirectory | DataDirectory, now: float) -> None:
        if self._core.disk.keeping is None:
            return
        count, dropped_count = self._core.restore(directory.found(), now)
        mebibytes = self._core.objects.value_bytes / MEBIBYTE
        logging.info("ObjectStorageServer: %d objects (%.1f MiB) of before are in %s", count, mebibytes, directory.path)
        if dropped_count:
            logging.warning(
                "ObjectStorageServer: %d objects in %s are dropped: so many are beyond the limits of this storage",
                dropped_count, directory.path,
            )  # fmt: skip

    def _follow_keys(self) -> None:
        """The next storage is to take what is kept as its own: by the keys of its file. (STO-44)"""
        if (keyring := self._admission.keyring) is not self._marked and keyring is not None:
            self._marked = keyring
            assert self._directory is not None and self._disk is not None
            # Not in this thread: it would wait here for the batch that a thread of the disk writes.
            self._disk.call(partial(self._directory.mark, partial(_marks, self._admission)))

    def _keep_the_rest(self, disk: DiskThreads) -> None:
        """What the data directory has not yet, as far as the disk takes it in time."""
        keeping = self._core.disk.keeping
        if keeping is None:
            return
        keeping.is_last = True
        end_at = time.monotonic() + LAST_SECONDS
        while (now := time.monotonic()) < end_at:
            keeping.hurry(now)
            for event in (*disk.take_done(), _TICK):
                for action in self._core.handle(event, now):
                    if isinstance(action, ToDisk):
                        disk.do(action)
            if keeping.is_idle:
                return
            if now < keeping.rests_until:  # the disk has failed
                break
            disk.wait(end_at - now if keeping.batch is not None else 0.05)
        logging.warning("ObjectStorageServer: %d objects could not be kept in time", len(keeping.changed))


def _directory_of(config: Config, admission: Admission) -> SpillDirectory | DataDirectory | None:
    """What is imported here costs a storage in memory nothing."""
    if config.spill_directory is not None:
        from scaler_storage.spill_files import SpillDirectory

        return SpillDirectory(config.spill_directory)
    if config.data_directory is not None:
        from scaler_storage.data_directory import DataDirectory

        return DataDirectory(config.data_directory, _marks(admission))
    return None


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """What is made here stays for long, and may be millions of objects without a cycle: the collector need not walk
    through them, neither meanwhile nor later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _marks(admission: Admission) -> frozenset[bytes]:
    return frozenset() if admission.keyring is None else admission.keyring.marks


def _wake(loop: asyncio.AbstractEventLoop, driver: AsyncioDriver) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: a disk was slower than the end
        loop.call_soon_threadsafe(driver.wake)


def admission_of(config: Config) -> Admission:
    # The clients in a worker's tasks come with its ticket. What they may do is in their grants. (SCH-55)
    return Admission(
        config.keys.find_keyring(), time.time, lambda hello, identity: True, Audit("ObjectStorageServer").note
    )


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
        software=this_software("scaler-storage", __version__),
        timers=config.timers,
        features=(*files.features, FEATURE_LIVE_OWNERS),
        welcome=welcome,
        backlog_bytes=BACKLOG_BYTES,
        sessions=SESSIONS.at_most(descriptors_for(SESSIONS_SHARE)),
        is_busy_with=core.is_busy_with,
        gate=core.work.pressure,
        admission=admission,
    )


def _log(event: SessionEvent, lines: LineBudget, now: float) -> None:
    """Peers come and go with every processor: that is news for debugging only, a peer that was lost is a warning."""
    if isinstance(event, Opened):
        who = event.hello.software
        logging.debug("ObjectStorageServer: %s joined (%s, process %d)", who.name, who.host, who.process_id)
    elif isinstance(event, Lost) and (event.is_orderly or event.is_again):
        logging.debug("ObjectStorageServer: peer %s is gone: %s", event.peer_id.hex()[:8], event.text or "goodbye")
    elif not lines.admits(now):
        return
    elif isinstance(event, Lost):
        logging.warning("ObjectStorageServer: peer %s is gone: %s", event.peer_id.hex()[:8], event.text or "no reason")
    elif isinstance(event, Complained):
        logging.warning("ObjectStorageServer: peer %s complains: %s", event.peer_id.hex()[:8], event.text)
