"""The session with the other scheduler, and the peers that are turned away: the shell around `core.succession`."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace

from scaler_protocol import codes
from scaler_protocol.ids import PeerId, new_peer_id
from scaler_protocol.keys import Identity, Pass
from scaler_protocol.messages import NO_PEER, Hello, Message, Reject, Shutdown, Software, Timers
from scaler_protocol.process import StartupError
from scaler_protocol.session import Lost, Opened, Received, Rejected, SessionDialer, SessionEvent
from scaler_protocol.session.receivable import FROM_SCHEDULER
from scaler_protocol.transport import DealerEndpoint
from scaler_scheduler.core.succession.succession import Duty, Succession

REDIAL_SECONDS = 0.5
REFUSED_LEASES = 2
SHORTEST_REFUSED_SECONDS = 3.0
"""For so long a scheduler asks again that is refused because there is another standby, which may just have died."""
HEARTBEATS_OF_A_LEASE = 5

SHORTEST_RETRY_SECONDS = 0.1
LONGEST_RETRY_SECONDS = 8.0
HELLOS_PER_SECOND = 500
"""What a standby can answer without effort, a handshake with CURVE each."""

FEATURE_SERVING = "serving"
"""Of a monitor that has other addresses to dial."""

_NOT_TURNED_AWAY = frozenset({codes.ROLE_MONITOR, codes.ROLE_SCHEDULER})


class Retries:
    """How long dialers are asked to wait: the longer, the more of them dial."""

    def __init__(self) -> None:
        self.seconds = SHORTEST_RETRY_SECONDS
        self._began_at = 0.0
        self._count = 0

    def note(self, now: float) -> None:
        if now >= self._began_at + 1.0:
            self._began_at, self._count = now, 0
        self._count += 1
        if self._count == HELLOS_PER_SECOND:
            self.seconds = min(2 * self.seconds, LONGEST_RETRY_SECONDS)


class Standby:
    """`own_generation` is that of the scheduler's core. `on_change` is called when the duty has changed."""

    def __init__(
        self,
        server_id: PeerId,
        other: str,
        lease_seconds: float,
        software: Software,
        own_generation: Callable[[], int],
        on_change: Callable[[], None],
        storage_address: str = "",
    ) -> None:
        #: the address of the other scheduler; empty: none was named
        self.other = other
        self.succession = Succession(server_id, lease_seconds, waits=bool(other))
        self.link: DealerEndpoint | None = None
        #: of other schedulers that have a session with this one: where they are
        self.standbys: dict[PeerId, str] = {}
        #: those of them that wait to follow on this one: their server ids
        self._waiting: dict[PeerId, PeerId] = {}
        #: why the other scheduler does not let us in
        self.failure: StartupError | None = None
        self._refused_at: float | None = None
        self._refused_seconds = max(SHORTEST_REFUSED_SECONDS, REFUSED_LEASES * lease_seconds)
        self._storage_address = storage_address
        self._server_id = server_id
        self._software = software
        self._timers = Timers(lease_seconds / HEARTBEATS_OF_A_LEASE, lease_seconds)
        self._own_generation = own_generation
        self._on_change = on_change
        self._retries = Retries()
        self._redial_at: float | None = None
        self._dialer: SessionDialer | None = None
        self._told = ""

    @property
    def is_waiting(self) -> bool:
        return self.succession.is_waiting

    def shown(self) -> tuple[str, tuple[str, ...]]:
        """For watchers: on which scheduler this one would follow, and which ones would follow on this one. (MON-30)"""
        return (self.other if self.is_waiting else ""), tuple(self.standbys.values())

    def dial(self, shown: Pass | None) -> DealerEndpoint:
        allowed = FROM_SCHEDULER[codes.ROLE_SCHEDULER]
        dialer = SessionDialer(hello=self.hello(new_peer_id()), server_name="scheduler", allowed_messages=allowed)
        self.link = DealerEndpoint(self.other, dialer, shown)
        self.use(dialer)
        return self.link

    def hello(self, peer_id: PeerId) -> Hello:
        return Hello(
            version_min=codes.PROTOCOL_VERSION_MIN,
            version_max=codes.PROTOCOL_VERSION_MAX,
            role=codes.ROLE_SCHEDULER,
            peer_id=peer_id,
            timers=self._timers,
            software=self._software,
        )

    def use(self, dialer: SessionDialer) -> None:
        """Of the link. What it says in a Hello is kept up to date."""
        self._dialer = dialer
        self._tell()

    def _tell(self) -> None:
        """What the next Hello says of us. (SCH-82)"""
        if self._dialer is not None:
            generation = self._own_generation() if self.succession.duty is Duty.SERVING else 0
            hello = replace(self._dialer.hello, generation=0, serving_generation=generation)
            self._dialer.hello = replace(hello, last_server_id=self._server_id)

    # ------------------------------------------------------------ our session with the other one

    def on_link(self, events: list[SessionEvent], now: float) -> None:
        before = self.succession.duty
        for event in events:
            self._handle(event, now)
        self._changed(before)

    def _handle(self, event: SessionEvent, now: float) -> None:
        succession = self.succession
        if isinstance(event, Opened):
            self._told, self._refused_at = "", None
            welcome = event.welcome
            self._compare_storages(welcome.storage_address)
            does = "waits, as this one does" if welcome.is_standby else f"serves with generation {welcome.generation}"
            logging.info("Scheduler: the scheduler at %s %s", self.other, does)
            own_generation = self._own_generation()
            succession.opened(
                welcome.server_id,
                welcome.generation,
                is_standby=welcome.is_standby,
                own_generation=own_generation,
            )
        elif isinstance(event, Received) and isinstance(event.message, Shutdown):
            succession.told_to_end()
        elif isinstance(event, Lost):
            if event.is_orderly:
                succession.told_goodbye()
            else:
                succession.lost(now, is_silent=event.code == codes.LEASE_EXPIRED)
            self._redial_at = now + REDIAL_SECONDS
            self._explain(event.text)
        elif isinstance(event, Rejected):
            self._redial_at = now + REDIAL_SECONDS
            self._explain(event.text)
            if succession.is_waiting and event.code != codes.SHUTTING_DOWN:
                self._refused(event, now)
        if self._redial_at is not None:
            self._tell()

    def _refused(self, event: Rejected, now: float) -> None:
        """For good; only a standby that has died may keep the place of another for a while."""
        self.succession.refused(now)
        self._refused_at = now if self._refused_at is None else self._refused_at
        if event.code != codes.BAD_ROLE or now >= self._refused_at + self._refused_seconds:
            self.failure = StartupError(f"no standby of {self.other} can be had: {event.text}")
            self._on_change()

    def _compare_storages(self, address: str) -> None:
        """One storage may have two names, so this is no error."""
        if address and self._storage_address and address != self._storage_address:
            logging.warning(
                "Scheduler: the scheduler at %s names the object storage %s, and this one %s: both need the same one",
                *(self.other, address, self._storage_address),
            )

    def _explain(self, text: str) -> None:
        if text != self._told:
            self._told = text
            logging.info("Scheduler: no session with the scheduler at %s: %s", self.other, text)

    # ------------------------------------------------------------ time

    def tick(self, now: float) -> None:
        before = self.succession.duty
        self.succession.tick(now)
        self._changed(before)
        if self._redial_at is not None and now >= self._redial_at and self._dialer is not None:
            self._redial_at = None
            self._tell()
            (self.link or self._dialer).redial()

    def next_deadline(self) -> float | None:
        at = min(self.succession.serve_at, math.inf if self._redial_at is None else self._redial_at)
        return None if at == math.inf else at

    def _changed(self, before: Duty) -> None:
        if self.succession.duty is not before:
            self._tell()
            self._on_change()

    # ------------------------------------------------------------ what dials us

    def turned_away(self, hello: Hello) -> Reject | None:
        """(HSK-40)"""
        if hello.role == codes.ROLE_SCHEDULER and hello.last_server_id == NO_PEER:
            return _no_role("a scheduler does not talk to a scheduler as to its object storage: check the address")
        if hello.role == codes.ROLE_SCHEDULER and not hello.serving_generation:
            return self._no_standby(hello)
        if not self.is_waiting or (hello.role in _NOT_TURNED_AWAY and FEATURE_SERVING not in hello.features):
            return None
        self._retries.note(time.monotonic())
        text = f"this scheduler is a standby of {self.other}, which serves: give dialers both addresses, with a comma"
        return Reject(
            codes.OVERLOADED,
            codes.PROTOCOL_VERSION_MIN,
            codes.PROTOCOL_VERSION_MAX,
            text,
            is_standby=True,
            retry_seconds=self._retries.seconds,
        )

    def _no_standby(self, hello: Hello) -> Reject | None:
        """Two standbys of one scheduler would both serve, and not know of each other. (SCH-80)"""
        followed = self.succession.follows_on()
        if followed is not None and followed != hello.last_server_id:
            return _no_role(f"this scheduler is itself a standby of {self.other}: name the one that serves")
        for peer_id, server_id in self._waiting.items():
            if server_id != hello.last_server_id:
                return _no_role(f"it has a standby already, {self.standbys[peer_id]}, and can have one")
        return None

    def concerns(self, event: Opened | Lost) -> bool:
        """It is about another scheduler."""
        if isinstance(event, Opened):
            return event.hello.role == codes.ROLE_SCHEDULER
        return event.peer_id in self.standbys

    def on_peer(self, event: Opened | Lost) -> None:
        """Another scheduler has a session with this one, or has no longer."""
        if isinstance(event, Lost):
            self.standbys.pop(event.peer_id, None)
            self._waiting.pop(event.peer_id, None)
            return
        software = event.hello.software
        self.standbys[event.peer_id] = f"{software.name} {software.version} on {software.host}"
        self._waiting.pop(event.peer_id, None)
        if _may_follow(event.identity):
            if not event.hello.serving_generation:
                self._waiting[event.peer_id] = event.hello.last_server_id
            before = self.succession.duty
            self.succession.met(event.hello, self._own_generation())
            self._changed(before)

    def farewell(self, send: Callable[[PeerId, Message], object], message: Message) -> None:
        for peer_id in self.standbys:
            send(peer_id, message)


def _may_follow(identity: Identity | None) -> bool:
    """It has the cluster's key, so it can end this scheduler anyway. (SCH-82)"""
    return identity is None or identity.is_operator


def _no_role(text: str) -> Reject:
    return Reject(codes.BAD_ROLE, codes.PROTOCOL_VERSION_MIN, codes.PROTOCOL_VERSION_MAX, text)
