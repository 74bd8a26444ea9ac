"""The adapter's shell: a socket to the scheduler in an event loop, Symphony's library on a thread, nothing decided."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

import psutil

from scaler_protocol import codec
from scaler_protocol.addresses import default_storage_address
from scaler_protocol.code_tag import CODE_TAG
from scaler_protocol.codec.bounds import PROCESSORS_MAX
from scaler_protocol.codes import PROTOCOL_VERSION_MAX, PROTOCOL_VERSION_MIN, ROLE_WORKER
from scaler_protocol.holding.credit import nested_reserve
from scaler_protocol.holding.presenting import FEATURE
from scaler_protocol.ids import new_peer_id
from scaler_protocol.messages import Hello, Limits, ProcessorStatus, Timers, WorkerOffer, WorkerStatus
from scaler_protocol.process import StartupError
from scaler_protocol.session import Complained, Lost, Opened, Received, Rejected, SessionDialer, SessionEvent
from scaler_protocol.session.handshake import why_no_scheduler
from scaler_protocol.session.receivable import FROM_SCHEDULER
from scaler_protocol.software import this_software
from scaler_protocol.transport import AsyncioDriver, DealerEndpoint
from scaler_symphony import __version__
from scaler_symphony.config import SymphonyConfig
from scaler_symphony.core import Settings, SymphonyCore, actions, events
from scaler_symphony.grid import Grid
from scaler_symphony.objects import Fetcher
from scaler_symphony.payload import pack_request
from scaler_symphony.request import FORMAT, Request

logger = logging.getLogger("scaler.symphony")

CLOSE_SECONDS = 10.0
"""How long Symphony gets to close the session; then the process ends without it."""

RUNNING = 2  # of ProcessorStatus.state

_ROUND_ENDED = events.RoundEnded()


class SymphonyService:
    def __init__(self, config: SymphonyConfig, soamapi: Any) -> None:
        self._config = config
        self._core = SymphonyCore(
            Settings(
                config.worker_name,
                codec.encode_task_error,
                config.base_concurrency,
                config.queue_size,
                config.death_timeout_seconds,
                config.present_seconds,
                (CODE_TAG,),
            )
        )
        self._grid = Grid(soamapi, config.grid, self._report)
        self._fetcher = Fetcher(self._report, config.shown)
        self._loop: asyncio.AbstractEventLoop
        self._arrived: deque[events.Event] = deque()  #: from other threads
        self._is_waking = threading.Event()  #: the loop has been told that something arrived
        self._endpoint = self._dial()
        self._driver = AsyncioDriver(self._endpoint, self._on_session, next_deadline=self._next_deadline)
        self._status_at = math.inf
        self._process = psutil.Process()
        self._storage_address = ""
        self._inline_bytes = Limits().inline_bytes
        self._is_over = asyncio.Event()
        self._failure = ""
        self._awaits_acknowledgement = False
        self._perform_by_kind: dict[type, Callable[[Any], None]] = {
            actions.Send: lambda action: self._endpoint.send(action.message),
            actions.OpenSession: lambda action: self._grid.open_session(action.session),
            actions.CloseSession: lambda action: self._grid.close_session(action.session),
            actions.SendTask: self._send_task,
            actions.Fetch: lambda action: self._fetcher.fetch(action.object_id, action.owner),
            actions.Log: self._log,
            actions.Remember: lambda action: self._endpoint.remember(action.generation),
            actions.AwaitAcknowledgement: self._await_acknowledgement,
            actions.Finish: self._finish,
        }

    def _dial(self) -> DealerEndpoint:
        config = self._config
        hello = Hello(
            PROTOCOL_VERSION_MIN,
            PROTOCOL_VERSION_MAX,
            ROLE_WORKER,
            new_peer_id(),
            features=(FEATURE,),
            timers=Timers(heartbeat_seconds=config.heartbeat_seconds),
            software=this_software("scaler-symphony", __version__),
            # No credit yet: it comes with the Symphony session.
            worker=WorkerOffer(
                config.worker_name,
                config.capabilities,
                0,
                nested_reserve(config.base_concurrency),
                config.manager_id,
                config.unit_id,
                (CODE_TAG,),
            ),
        )
        dialer = SessionDialer(
            hello=hello,
            server_name="scheduler",
            give_up_seconds=config.death_timeout_seconds,
            allowed_messages=FROM_SCHEDULER[ROLE_WORKER],
        )
        return DealerEndpoint(config.address, dialer, config.shown)

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` and the tasks have ended or their grace is over. Raises StartupError."""
        self._loop = asyncio.get_running_loop()
        logger.info(
            "SymphonyWorker[%s]: up to %d tasks at once in %s, for the scheduler at %s",
            self._config.worker_name,
            self._config.base_concurrency,
            self._config.grid.application,
            self._config.address,
        )
        self._grid.start()
        stopping = asyncio.ensure_future(self._drain_after(stop))
        try:
            self._report(events.Started())
            self._driver.start()
            await self._is_over.wait()
        finally:
            stopping.cancel()
            self._driver.stop()
            self._endpoint.close()
            self._fetcher.close()
            await self._close_grid()
        if self._failure:
            raise StartupError(self._failure)

    async def _drain_after(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._report(events.DrainRequested(self._config.grace_seconds))

    async def _close_grid(self) -> None:
        """Without that Symphony counts the session as aborted. The library may never come back from a call, though."""
        self._grid.stop()
        if not await asyncio.get_running_loop().run_in_executor(None, self._grid.join, CLOSE_SECONDS):
            logger.error(
                "SymphonyWorker[%s]: Symphony did not close the session within %g s: ending without it",
                self._config.worker_name,
                CLOSE_SECONDS,
            )
            logging.shutdown()
            os._exit(1)

    # ------------------------------------------------------------ events

    def _report(self, event: events.Event) -> None:
        """From any thread."""
        self._arrived.append(event)
        if not self._is_waking.is_set():
            self._is_waking.set()
            try:
                self._loop.call_soon_threadsafe(self._take_arrived)
            except RuntimeError:
                pass  # the loop has ended, and no task waits any more

    def _take_arrived(self) -> None:
        self._is_waking.clear()  # first: what arrives from now on wakes us again
        now = time.monotonic()
        while self._arrived:
            self._handle(self._arrived.popleft(), now)
        self._handle(_ROUND_ENDED, now)
        self._driver.wake()

    def _handle(self, event: events.Event, now: float) -> None:
        for action in self._core.handle(event, now):
            self._perform_by_kind[type(action)](action)

    def _on_session(self, session_events: list[SessionEvent], now: float) -> None:
        for event in session_events:
            if isinstance(event, Opened):
                self._on_opened(event, now)
            elif isinstance(event, Rejected):
                self._fail(f"{event.text} ({self._config.address})")
            elif isinstance(event, Complained):
                logger.warning("SymphonyWorker: the scheduler complained: %s (%s)", event.text, event.clause)
            elif isinstance(event, Lost):
                self._on_lost(event)
            if isinstance(event, (Opened, Received, Lost)):
                self._handle(event, now)
        if self._awaits_acknowledgement and self._endpoint.is_acknowledged:
            self._awaits_acknowledgement = False
            self._handle(events.Acknowledged(), now)
        self._handle(_ROUND_ENDED, now)
        if now >= self._status_at:
            self._endpoint.send(self._status(now))
            self._status_at = now + self._config.heartbeat_seconds

    def _on_opened(self, event: Opened, now: float) -> None:
        welcome = event.welcome
        if why := why_no_scheduler(welcome, self._endpoint.address):
            return self._fail(why)
        logger.info("SymphonyWorker[%s]: connected to the scheduler", self._config.worker_name)
        named = self._config.storage_address or welcome.storage_address
        self._storage_address = named or default_storage_address(self._endpoint.address)  # HSK-18
        self._fetcher.use_storage(self._storage_address)
        self._inline_bytes = welcome.limits.inline_bytes
        self._status_at = now

    def _on_lost(self, event: Lost) -> None:
        logger.warning("SymphonyWorker[%s]: lost the scheduler: %s", self._config.worker_name, event.text)
        self._status_at = math.inf
        self._endpoint.redial()

    def _next_deadline(self) -> float | None:
        core_at = self._core.next_deadline()
        due = self._status_at if core_at is None else min(core_at, self._status_at)
        return None if due == math.inf else due

    # ------------------------------------------------------------ actions

    def _send_task(self, action: actions.SendTask) -> None:
        task, header = action.task, action.task.header
        request = Request(
            FORMAT,
            task.id,
            task.attempt,
            header.client,
            header.call_format,
            header.keywords,
            header.serializer,
            header.depth,
            header.priority,
            header.flags,
            header.result_salt,
            header.owner_grant,
            header.timeout_seconds,
            task.function,
            task.parts,
            {bytes(name): content for name, content in action.brought.items()},
            self._config.hosts_scheduler_address or self._endpoint.addresses,
            self._storage_address,
            self._inline_bytes,
            self._config.functions,
            self._config.hosts_key_file,
            self._config.keys.insecure,
        )
        self._grid.send(action.session, action.number, pack_request(request))

    def _log(self, action: actions.Log) -> None:
        level = logging.WARNING if action.is_warning else logging.INFO
        logger.log(level, "SymphonyWorker[%s]: %s", self._config.worker_name, action.text)

    def _await_acknowledgement(self, action: actions.AwaitAcknowledgement) -> None:
        self._awaits_acknowledgement = True
        self._status_at = math.inf  # it would have to be acknowledged as well
        self._endpoint.ping(time.monotonic())

    def _finish(self, action: actions.Finish) -> None:
        if action.is_failure:
            self._fail(action.text)
        else:
            logger.info("SymphonyWorker[%s]: %s", self._config.worker_name, action.text)
            self._is_over.set()

    def _fail(self, text: str) -> None:
        self._failure = self._failure or text
        self._is_over.set()

    def _status(self, now: float) -> WorkerStatus:
        """Each Symphony task is shown as a processor, though on hosts that we do not see. (WRK-12)"""
        tables = self._core.tables
        processors = tuple(
            ProcessorStatus(state=RUNNING, task_id=run.task.id, running_seconds=now - run.begun_at)
            for run in islice(tables.runs.values(), PROCESSORS_MAX)
        )
        with self._process.oneshot():
            cpu, rss_bytes = self._process.cpu_percent(None) / 100, self._process.memory_info().rss
        memory = psutil.virtual_memory()
        return WorkerStatus(
            cpu, rss_bytes, memory.available, len(tables.queue), processors=processors, host_memory_bytes=memory.total
        )
