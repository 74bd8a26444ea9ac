"""Waiting until a cluster can work: its scheduler welcomes us and says how many workers it has."""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from scaler.cluster.process import ClusterStartError, CommandProcess
from scaler_protocol import codes
from scaler_protocol.ids import new_peer_id
from scaler_protocol.messages import ClusterStatus, Hello, SnapshotRequest, Timers
from scaler_protocol.session import Opened, Received, Rejected, SessionDialer
from scaler_protocol.software import this_software
from scaler_protocol.transport import DealerEndpoint

_ASK_SECONDS = 0.02
"""Between two questions how many workers are there: a status report tells no more than the count at its time."""


def wait_until_ready(
    address: str, n_workers: int, scheduler: CommandProcess, children: Sequence[CommandProcess], timeout_seconds: float
) -> None:
    """Returns when the scheduler knows so many workers. Raises as soon as a child has ended, or the time is over."""
    end_at = time.monotonic() + timeout_seconds
    counts: list[int] = []
    with _monitor(address) as endpoint:
        while not counts or counts[-1] < n_workers:
            for child in children:
                child.check()
            now = time.monotonic()
            if now > end_at:
                found = f"it had {counts[-1]} of {n_workers} workers" if counts else "the scheduler did not answer"
                raise ClusterStartError(f"the cluster at {address} did not start in {timeout_seconds:g} s: {found}")
            for event in endpoint.poll(now):
                _handle(event, endpoint, counts, scheduler.pid)
            if endpoint.settle(now):
                continue
            with selectors.DefaultSelector() as selector:
                selector.register(endpoint.fileno(), selectors.EVENT_READ)
                selector.select(_ASK_SECONDS)
            if endpoint.is_open:
                endpoint.send(SnapshotRequest(request_id=1))


def _handle(event: object, endpoint: DealerEndpoint, counts: list[int], scheduler_id: int | None) -> None:
    if isinstance(event, Opened):
        if event.welcome.software.process_id != scheduler_id:
            # Ours could not listen there, or will say so in a moment.
            raise ClusterStartError(f"another scheduler listens at {endpoint.address} already: give another address")
        endpoint.send(SnapshotRequest(request_id=1))
    elif isinstance(event, Received) and isinstance(event.message, ClusterStatus):
        counts.append(len(event.message.workers))
    elif isinstance(event, Rejected):
        raise ClusterStartError(event.text)


@contextmanager
def _monitor(address: str) -> Iterator[DealerEndpoint]:
    hello = Hello(
        version_min=codes.PROTOCOL_VERSION_MIN,
        version_max=codes.PROTOCOL_VERSION_MAX,
        role=codes.ROLE_MONITOR,
        peer_id=new_peer_id(),
        timers=Timers(),
        software=this_software("scaler-client"),
    )
    endpoint = DealerEndpoint(address, SessionDialer(hello=hello, server_name="scheduler"))
    try:
        yield endpoint
    finally:
        endpoint.close()
