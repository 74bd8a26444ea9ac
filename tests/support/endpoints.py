"""Endpoints on loopback, driven together until something has happened, never longer than a bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import zmq

from scaler_protocol import codes
from scaler_protocol.addresses import AddressError
from scaler_protocol.ids import PeerId, new_peer_id
from scaler_protocol.keys import Keyring, Pass
from scaler_protocol.messages import Cancel, CancelReply, Hello, Timers
from scaler_protocol.session import Received, SessionDialer, SessionEvent, SessionServer
from scaler_protocol.session.admission import Admission
from scaler_protocol.transport import DealerEndpoint, RouterEndpoint
from scaler_protocol.transport.lane import OFF_VARIABLE

PATIENCE_SECONDS = 15.0
TIMERS = Timers(heartbeat_seconds=0.1, lease_seconds=10.0)

Endpoint = RouterEndpoint | DealerEndpoint


def make_server(
    address: str = "tcp://127.0.0.1:*", *, keyring: Keyring | None = None, **options: object
) -> RouterEndpoint:
    terms = {
        "admission": Admission(keyring, time.time),
        "server_id": new_peer_id(),
        "role_name": "scheduler",
        "allowed_roles": {codes.ROLE_CLIENT},
        "timers": TIMERS,
        **options,
    }
    return RouterEndpoint(address, SessionServer(**terms))  # type: ignore[arg-type]


def make_dialer(
    address: str,
    *,
    version: tuple[int, int] = (1, 1),
    shown: Pass | None = None,
    role: int = codes.ROLE_CLIENT,
    peer_id: PeerId | None = None,
    **options: object,
) -> DealerEndpoint:
    hello = Hello(version[0], version[1], role=role, peer_id=peer_id or new_peer_id(), timers=TIMERS)
    dialer = SessionDialer(hello=hello, server_name="scheduler", **options)  # type: ignore[arg-type]
    return DealerEndpoint(address, dialer, shown)


def crash(endpoint: Endpoint) -> None:
    """What the kernel leaves of a process that was killed: no connections, and no goodbye."""
    if isinstance(endpoint, DealerEndpoint):
        endpoint._carrier.close(0)
        return
    endpoint._connections.close()
    endpoint._zeromq.close(0)
    if endpoint._lanes is not None:
        endpoint._lanes.close()


def bench_on(way: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """For a fixture: a bench whose endpoints meet on the "lane", or over "zeromq" alone."""
    monkeypatch.setenv(OFF_VARIABLE, "" if way == "lane" else "1")
    bench = Bench()
    yield bench
    bench.close()


class Bench:
    """Drives endpoints in turns and keeps their events. A server answers each Cancel with a CancelReply."""

    def __init__(self) -> None:
        self.endpoints: list[Endpoint] = []
        self.events: dict[Endpoint, list[SessionEvent]] = {}

    def add(self, endpoint: Endpoint) -> None:
        self.endpoints.append(endpoint)
        self.events[endpoint] = []

    def server(self, address: str = "tcp://127.0.0.1:*", **options: object) -> RouterEndpoint:
        endpoint = make_server(address, **options)  # type: ignore[arg-type]
        self.add(endpoint)
        return endpoint

    def successor(self, address: str) -> RouterEndpoint:
        """A server where another one has just closed: libzmq gives a port back in the background."""
        made: list[RouterEndpoint] = []

        def is_bound() -> bool:
            try:
                made.append(make_server(address))
            except AddressError:
                return False
            return True

        self.until(is_bound, f"{address} to be free")
        self.add(made[0])
        return made[0]

    def dialer(self, address: str, **options: object) -> DealerEndpoint:
        endpoint = make_dialer(address, **options)  # type: ignore[arg-type]
        self.add(endpoint)
        return endpoint

    def remove(self, endpoint: Endpoint) -> None:
        self.endpoints.remove(endpoint)
        endpoint.close()

    def close(self) -> None:
        for endpoint in self.endpoints:
            endpoint.close()

    def until(self, happened: Callable[[], bool], what: str) -> None:
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            assert time.monotonic() < ends_at, f"waited {PATIENCE_SECONDS} s for: {what}; events: {self.events}"
            self.turn()

    def turn(self) -> None:
        now = time.monotonic()
        is_more = False
        for endpoint in self.endpoints:
            events = endpoint.poll(now)
            self.events[endpoint] += events
            if isinstance(endpoint, RouterEndpoint):
                for event in events:
                    if isinstance(event, Received) and isinstance(event.message, Cancel):
                        endpoint.send(event.peer_id, CancelReply(event.message.ids))
            is_more |= endpoint.settle(now)
        if not is_more:
            self._wait(now)

    def _wait(self, now: float) -> None:
        """Until one of them has something to do, at most a little while: a test also watches other things."""
        deadlines = [deadline for endpoint in self.endpoints if (deadline := endpoint.next_deadline()) is not None]
        seconds = min([0.02, *(deadline - now for deadline in deadlines)])
        zmq.select([endpoint.fileno() for endpoint in self.endpoints], [], [], max(seconds, 0.0))

    def kinds(self, endpoint: Endpoint) -> list[str]:
        return [type(event).__name__ for event in self.events[endpoint]]

    def replies(self, endpoint: Endpoint) -> list[bytes]:
        return [
            event.message.ids
            for event in self.events[endpoint]
            if isinstance(event, Received) and isinstance(event.message, CancelReply)
        ]

    def open(self, endpoint: DealerEndpoint) -> None:
        self.until(lambda: endpoint.is_open and "Opened" in self.kinds(endpoint), "a session")

    def ask(self, endpoint: DealerEndpoint, number: int) -> None:
        """A message and its answer: the proof that this peer is served."""
        ids = number.to_bytes(16, "little")
        endpoint.send(Cancel(ids))
        self.until(lambda: ids in self.replies(endpoint), f"the answer to {number}")
