"""The scheduler as a process: sockets around the core, nothing decided here."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from scaler_protocol import keys
from scaler_protocol.addresses import AddressError
from scaler_protocol.codes import (
    PROTOCOL_VERSION_MAX,
    PROTOCOL_VERSION_MIN,
    ROLE_CLIENT,
    ROLE_SCHEDULER,
    ROLE_WORKER,
    SHUTTING_DOWN,
)
from scaler_protocol.ids import PeerId, new_peer_id, split_name
from scaler_protocol.keys.grants import Grants
from scaler_protocol.messages import Dispatch, Hello, ObjectReply, Shutdown, StorageStatus
from scaler_protocol.process import StartupError
from scaler_protocol.process.audit import Audit
from scaler_protocol.process.key_options import warn_of_insecure
from scaler_protocol.process.line_budget import LineBudget
from scaler_protocol.process.memory import MemoryReturn
from scaler_protocol.process.ports import answers
from scaler_protocol.session import (
    Lost,
    Opened,
    Received,
    Rejected,
    SessionDialer,
    SessionEvent,
    SessionServer,
    WelcomeFields,
)
from scaler_protocol.session.admission import Admission
from scaler_protocol.session.bounds import SESSIONS
from scaler_protocol.session.receivable import FROM_STORAGE
from scaler_protocol.session.vanishing import VanishedHosts
from scaler_protocol.software import this_software
from scaler_protocol.transport import AsyncioDriver, DealerEndpoint, RouterEndpoint, use_io_threads
from scaler_protocol.transport.descriptors import descriptors_for
from scaler_scheduler import __version__
from scaler_scheduler.config import Config, as_seen_from_afar
from scaler_scheduler.core import (
    ALLOWED_MESSAGES,
    FEATURE_CHAINS,
    FEATURE_CODE_SETS,
    FEATURE_KEPT_RESULTS,
    FEATURE_LIVE_OWNERS,
    FEATURE_PRESENT_HELD,
    FEATURE_RESULT_WINDOW,
    FEATURE_SAMPLES,
    Action,
    Asked,
    Disconnect,
    MonitorLeft,
    Numbered,
    PublishLog,
    SchedulerCore,
    Send,
    SendToStorage,
    Settled,
    Stop,
    StorageOpened,
    StorageReplied,
)
from scaler_scheduler.core.notes.cluster_events import (
    LIMIT_REACHED,
    SCHEDULER_STARTED,
    STORAGE_LOST,
)
from scaler_scheduler.core.notes.display import KEY_BYTES
from scaler_scheduler.core.succession.succession import Duty
from scaler_scheduler.core.watching.stack_sampling import FEATURE_STACK_SAMPLES
from scaler_scheduler.core.watching.stacks import FEATURE_STACKS
from scaler_scheduler.core.watching.storage_events import Event, StorageEvents, StorageSession
from scaler_scheduler.desk import Desk
from scaler_scheduler.dumps import Dumps, RecentEvents
from scaler_scheduler.event_log import EventLog
from scaler_scheduler.publishing import Identity, Publisher, StorageFigures
from scaler_scheduler.session_lines import log_session
from scaler_scheduler.standby import FEATURE_SERVING, Standby
from scaler_scheduler.storage_process import StorageProcess, warn_of_silence
from scaler_scheduler.watchers import Watchers
from scaler_scheduler.webhook_process import WebhookProcess

STORAGE_READY_SECONDS = 5.0
STORAGE_RETRY_SECONDS = 0.5
STANDBY_TICK_SECONDS = 0.1
SESSIONS_SHARE = 1 / 2
"""Of the descriptors, for sessions beyond the first ones of each user. (LIM-32)"""
_SETTLED = Settled()


class SchedulerService:
    """Owns the sockets. `run` returns when `stop` is set, by a signal or by a client that may."""

    def __init__(self, config: Config, stop: asyncio.Event) -> None:
        self._config = config
        self._stop = stop
        #: it has ended because another scheduler serves
        self.is_followed = False
        use_io_threads(config.io_threads)
        self._server_id = new_peer_id()
        self._core = SchedulerCore(
            config.policy,
            lambda client_id: self._router.backlog_bytes(client_id),
            secrets.token_bytes(KEY_BYTES),
            self._server_id,
            lambda client_id: self._router.progress(client_id),
            self._family_of,
            self._lend,
        )
        self._software = this_software("scaler-scheduler", __version__)
        self._standby = self._new_standby()
        self._recent = RecentEvents(self._core.display_id)
        self._lines = LineBudget("Scheduler")
        self._event_log = EventLog(self._core.events, self._lines)
        self._storage_events = StorageEvents()
        self._full_count = 0
        self._dumps = Dumps(self._dump_lines)
        self._memory = MemoryReturn()
        self._storage_process: StorageProcess | None = None
        self._webhook_process: WebhookProcess | None = None
        self._storage_is_open = asyncio.Event()
        self._storage_session = StorageSession(config.storage_address)
        self._keyring = config.keys.find_keyring()
        self._grants = None if self._keyring is None else Grants(self._keyring)
        self._admission = Admission(self._keyring, time.time, self._core.is_in_task_of, Audit("Scheduler").note)
        shown = None if self._keyring is None else self._keyring.own_pass()
        try:
            self._router = RouterEndpoint(config.address, self._session_server())
            self._monitor_address = self._listen_for_monitors()
            self._storage = self._storage_endpoint(shown)
        except AddressError as error:
            raise StartupError(str(error)) from None
        identity = Identity(self._server_id, self._software, config.storage_address, config.status_seconds)
        watchers = Watchers(self._router.send, self._router.unacknowledged, self._router.user_of)
        figures = StorageFigures(self._storage, self._core.owned_objects)
        self._publisher = Publisher(
            identity,
            self._core,
            watchers,
            self._router,
            self._storage,
            figures,
            settle=lambda: self._on_peers([], time.monotonic()),
            standbys=self._standby.shown,
        )
        self._desk = Desk(self._core, self._router, watchers, self._publisher, figures, self._dumps)
        self._driver = AsyncioDriver(
            self._router, self._on_peers, next_deadline=self._next_deadline, on_failure=self._dumps.save
        )
        self._driver.add(self._storage, self._on_storage)
        if config.standby_of:
            self._driver.add(self._standby.dial(shown), self._standby.on_link)

    def _new_standby(self) -> Standby:
        return Standby(
            self._server_id,
            self._config.standby_of,
            self._config.standby_lease_seconds,
            self._software,
            lambda: self._core.generation,
            self._duty_changed,
            self._config.advertised_storage_address,
        )

    def _listen_for_monitors(self) -> str:
        """Monitors have an address of their own, so that they can be given one; it leads to the same sessions."""
        try:
            return self._router.listen_also(self._config.monitor_address)
        except AddressError as error:
            self._router.close()
            raise AddressError(f"{error} with --monitor-address") from None

    def _session_server(self) -> SessionServer:
        return SessionServer(
            server_id=self._server_id,
            role_name="scheduler",
            allowed_roles=tuple(ALLOWED_MESSAGES),
            allowed_messages=ALLOWED_MESSAGES,
            welcome=self._welcome,
            software=self._software,
            timers=self._config.worker_timers,
            features=(
                FEATURE_CHAINS,
                FEATURE_SAMPLES,
                FEATURE_RESULT_WINDOW,
                FEATURE_KEPT_RESULTS,
                FEATURE_PRESENT_HELD,
                FEATURE_SERVING,
                FEATURE_CODE_SETS,
                FEATURE_STACKS,
                FEATURE_STACK_SAMPLES,
            ),
            sessions=SESSIONS.at_most(descriptors_for(SESSIONS_SHARE)),
            is_busy_with=self._is_busy_with,
            admission=self._admission,
            gate=self._core.gate,
            turned_away=self._standby.turned_away,
            vanished=VanishedHosts(self._config.vanished_host_seconds, frozenset({ROLE_WORKER}), self._core.suspect),
        )

    def _storage_endpoint(self, shown: keys.Pass | None) -> DealerEndpoint:
        endpoint = DealerEndpoint(self._config.storage_address, self._storage_dialer(), shown)
        if self._standby.is_waiting:
            endpoint.bye()  # nothing is asked of the storage before this scheduler serves
        return endpoint

    def _storage_dialer(self) -> SessionDialer:
        hello = Hello(
            version_min=PROTOCOL_VERSION_MIN,
            version_max=PROTOCOL_VERSION_MAX,
            role=ROLE_SCHEDULER,
            peer_id=new_peer_id(),  # not the one of the server, which every Welcome shows
            features=(FEATURE_LIVE_OWNERS,),
            software=self._software,
        )
        return SessionDialer(
            hello=hello,
            server_name="object storage server",
            allowed_messages=FROM_STORAGE,
            next_peer_id=new_peer_id,  # without a storage, a scheduler is of no use
        )

    def _welcome(self, hello: Hello, identity: keys.Identity | None) -> WelcomeFields:
        is_operator = identity is None or identity.is_operator
        return WelcomeFields(
            generation=(
                self._core.generation
                if hello.role == ROLE_SCHEDULER
                else self._core.meet(hello, is_operator=is_operator)
            ),
            is_standby=self._standby.is_waiting,
            storage_address=self._config.advertised_storage_address,
            monitor_address=as_seen_from_afar(self._monitor_address),
            is_protected=self._config.policy.is_protected,
            object_retention_seconds=self._config.object_retention_seconds,
            timers=self._config.client_timers if hello.role == ROLE_CLIENT else None,
            owner_grant=self._grant(hello, identity),
        )

    def _grant(self, hello: Hello, identity: keys.Identity | None) -> bytes:
        keyring = self._admission.keyring  # of this moment: keys may be replaced
        if keyring is None or identity is None or hello.role != ROLE_CLIENT:
            return b""
        in_task, head = self._core.family_of(hello, identity), keys.families_of(identity.user)
        if in_task and not in_task.startswith(head):
            end = keys.lent_end(time.time())
            return keyring.lend(hello.peer_id, in_task, keys.lent_to(identity), end, may_release=True)
        family = in_task or self._former_family(*split_name(hello.former_name))
        if not family.startswith(head):
            family = keys.own_family(hello.peer_id, identity.user)
        return keyring.grant(hello.peer_id, family)

    def _former_family(self, owner: PeerId, grant: bytes) -> bytes:
        """Empty: this is not the grant of a client that had this name. A worker's does not count. (HSK-38)"""
        granted = None if self._grants is None else self._grants.read(owner, grant)
        return granted.family if granted is not None and granted.may_release else b""

    def _lend(self, owner: PeerId, family: bytes, user: bytes) -> bytes:
        keyring = self._admission.keyring
        return b"" if keyring is None else keyring.lend(owner, family, user, keys.lent_end(time.time()))

    def _family_of(self, owner: PeerId, grant: bytes) -> bytes | None:
        """As its grant says, also if it has ended; None if that is not its grant. Empty where there are no keys."""
        return b"" if self._grants is None else self._grants.family_of(owner, grant)

    def _is_busy_with(self, peer_id: PeerId) -> bool:
        return self._core.is_busy_with(peer_id) or self._desk.is_busy_with(peer_id)

    def _next_deadline(self) -> float | None:
        core_at = self._core.next_deadline()
        if not self._desk.pending:
            return core_at
        desk_at = self._desk.next_deadline()
        if core_at is None or desk_at is None:
            return desk_at if core_at is None else core_at
        return min(core_at, desk_at)

    # ------------------------------------------------------------ life

    async def run(self) -> None:
        logging.info("Scheduler: listen to scheduler address %s", self._router.address)
        if self._keyring is None:
            warn_of_insecure("Scheduler", self._router.address, "run code on the workers")
        try:
            if self._standby.is_waiting and not await self._follows():
                return
            self._start_storage_if_needed()
            if not self._config.standby_of:
                self._core.note(SCHEDULER_STARTED, "", self._router.address, time.monotonic())
            logging.info("Scheduler: connect to object storage server %s", self._config.storage_address)
            logging.info("Scheduler: listen to scheduler monitor address %s", self._monitor_address)
            self._driver.start()
            if self._config.adapter_webhook_url:
                self._webhook_process = WebhookProcess(self._config, self._router.address, self._keyring)
            await self._until_storage_is_open()
            while not await self._stopped_within(self._config.status_seconds):
                self._tick()
                self._dumps.tick(time.monotonic())
                self._memory.look(self._core.memory_bytes + self._router.total_backlog_bytes, time.monotonic())
                if self._webhook_process is not None:
                    self._webhook_process.check()
        finally:
            self._close()

    async def _follows(self) -> bool:
        """Wait as a standby. Whether this scheduler serves then; else it ends."""
        logging.info("Scheduler: standby of the scheduler at %s", self._config.standby_of)
        logging.info("Scheduler: listen to scheduler monitor address %s", self._monitor_address)
        self._standby.succession.begin(time.monotonic())
        self._driver.start()
        while self._standby.is_waiting and not await self._stopped_within(STANDBY_TICK_SECONDS):
            self._tick()
        if self._standby.failure is not None:
            raise self._standby.failure
        if self._standby.succession.duty is not Duty.SERVING:
            return False
        return not self._stop.is_set()

    def _duty_changed(self) -> None:
        """At once, in the turn that has learned it: the next Hello may be answered with a Welcome."""
        succession = self._standby.succession
        if self._standby.failure is not None or succession.duty in (Duty.FOLLOWED, Duty.ENDED):
            logging.warning("Scheduler: this scheduler ends: %s", self._standby.failure or succession.why)
            self.is_followed = succession.duty is Duty.FOLLOWED
            self._stop.set()
        elif succession.duty is Duty.SERVING:
            self._core.serve(succession.seen_generation + 1, time.monotonic())
            logging.warning("Scheduler: serve with generation %d: %s", self._core.generation, succession.why)
            self._storage.redial()
            self._driver.wake()

    def _tick(self) -> None:
        """The publisher sends outside of a turn, and a send may swallow the sign that something has arrived: whatever
        has is read in a turn of its own, and not when the next timer comes."""
        try:
            now = time.monotonic()
            self._standby.tick(now)
            self._note_refused_sessions()
            self._note_storage(self._storage_session.look(now, is_open=self._storage.is_open), now)
            self._publisher.tick()
        except Exception:
            self._dumps.save()
            raise
        self._driver.wake()

    def _note_refused_sessions(self) -> None:
        if self._router.full_count != self._full_count:
            self._full_count = self._router.full_count
            text = "as many peers are connected as may be: further ones of users with many are refused (LIM-7)"
            self._core.note(LIMIT_REACHED, "sessions", text, time.monotonic())

    def _start_storage_if_needed(self) -> None:
        if not self._config.is_storage_given and not answers(self._config.storage_address):
            self._storage_process = StorageProcess(self._config, self._keyring)

    async def _until_storage_is_open(self) -> None:
        """Clients, workers and watchers are served meanwhile; what needs the storage waits for it on its own."""
        deadline = time.monotonic() + STORAGE_READY_SECONDS
        while not self._storage_is_open.is_set() and not await self._stopped_within(0.05):
            self._tick()
            if self._storage_process is not None:
                self._storage_process.check()
            if time.monotonic() > deadline:
                await asyncio.to_thread(warn_of_silence, self._config.storage_address, self._storage.waits_because)
                return

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    def _close(self) -> None:
        self._driver.stop()
        for peer_id in self._standby.standbys:  # first, so that one serves when the others dial again
            self._router.disconnect(peer_id, SHUTTING_DOWN, "this scheduler is shutting down")
        if self._standby.link is not None:
            self._standby.link.close()
        self._router.close()
        self._storage.close()
        for process in (self._webhook_process, self._storage_process):
            if process is not None:
                process.stop()

    # ------------------------------------------------------------ events

    def _on_peers(self, events: list[SessionEvent], now: float) -> None:
        for event in events:
            if type(event) is Received:
                self._recent.note((now, "from", event.peer_id, type(event.message)))
            elif isinstance(event, Rejected):
                continue  # only dialers are
            elif isinstance(event, (Opened, Lost)) and self._standby.concerns(event):
                self._standby.on_peer(event)
                continue
            else:
                self._recent.note((now, "from", event.peer_id, type(event)))
                if self._lines.admits(now):
                    log_session(event, self._core.name_of)
            self._core.handle(event, now)
        self._perform(self._core.handle(_SETTLED, now), now)
        self._desk.settle(now)
        self._event_log.look(now)

    def _perform(self, actions: list[Action], now: float) -> None:
        for action in actions:
            if type(action) is Send:
                self._recent.note((now, "to", action.peer_id, type(action.message)))
                seq = self._router.send(action.peer_id, action.message)
                if type(action.message) is Dispatch:
                    self._core.handle(Numbered(action.peer_id, seq, action.message.ids), now)
            elif type(action) is SendToStorage:
                self._storage.send(action.message)
            elif type(action) is Disconnect:
                self._router.disconnect(action.peer_id, action.code, action.text)
                self._driver.wake()  # its Lost waits for the next poll
            elif type(action) is Asked:
                self._desk.asked(action.peer_id, action.seq, action.message)
            elif type(action) is MonitorLeft:
                self._desk.lost(action.peer_id)
            elif type(action) is PublishLog:
                self._publisher.publish_log(action.message)
            elif type(action) is Stop:
                logging.info("Scheduler: a client asked for the end of the cluster")
                self._standby.farewell(self._router.send, Shutdown(action.grace_seconds))
                self._router.refuse_newcomers()  # a Hello may be here before the loop has come to its end
                self._stop.set()

    def _on_storage(self, events: list[SessionEvent], now: float) -> None:
        for event in events:
            if isinstance(event, Received) and isinstance(event.message, ObjectReply):
                self._core.handle(StorageReplied(event.message.request_id, event.message.code), now)
            elif isinstance(event, Received) and isinstance(event.message, StorageStatus):
                for kind, subject, text in self._storage_events.told(event.message):
                    self._core.note(kind, subject, text, now)
                self._desk.storage_told(event.message)
            elif isinstance(event, Opened):
                self._storage_is_open.set()
                takes_live_owners = FEATURE_LIVE_OWNERS in event.welcome.features
                self._core.handle(StorageOpened(takes_live_owners), now)
                self._perform(self._core.handle(_SETTLED, now), now)
                self._note_storage(self._storage_session.look(now, is_open=True), now)
            elif isinstance(event, (Lost, Rejected)) and not self._stop.is_set():
                self._note_storage(self._storage_session.ended(event.text, now), now)
                asyncio.get_running_loop().call_later(STORAGE_RETRY_SECONDS, self._redial_storage)

    def _note_storage(self, event: Event | None, now: float) -> None:
        if event is None:
            return
        kind, _, text = event
        if kind == STORAGE_LOST:
            logging.warning("Scheduler: object storage server %s: %s", self._config.storage_address, text)
        else:
            logging.info("Scheduler: connected to object storage server %s", text)
        self._core.note(*event, now)

    def _redial_storage(self) -> None:
        self._storage.redial()
        self._driver.wake()

    def _dump_lines(self, now: float) -> Iterator[dict[str, Any]]:
        yield {
            "kind": "dump",
            "version": 1,
            "made_at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "server": self._server_id.hex(),
            "software": asdict(self._software),
            "address": self._router.address,
            "storage_address": self._config.storage_address,
            "is_storage_connected": self._storage.is_open,
            "sent": self._router.sent_counts,
            "received": self._router.received_counts,
        }
        yield from self._core.dump(now)
        yield from self._recent.lines(now)
