"""Waiting until a cluster can work: its scheduler welcomes us and says how many workers it has."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from scaler.client import __version__
from scaler.cluster.process import ClusterStartError, CommandProcess
from scaler_protocol import codes
from scaler_protocol.codec.registry import registry
from scaler_protocol.ids import new_peer_id
from scaler_protocol.keys import Pass
from scaler_protocol.messages import (
    Bye,
    ClusterStatus,
    Get,
    Hello,
    NameFunctions,
    ObjectReply,
    Put,
    Results,
    SnapshotRequest,
    Submit,
    Timers,
    Value,
    Welcome,
)
from scaler_protocol.process.ports import answers
from scaler_protocol.session import Opened, Received, Rejected, SessionDialer
from scaler_protocol.software import this_software
from scaler_protocol.transport import Conversation, DealerEndpoint

_ASK_SECONDS = 0.01
"""Between two looks whether the scheduler listens, and then between two questions how many workers it has: its status
report tells no more than the count at its time."""


_RECORDS = (
    Hello, Welcome, SnapshotRequest, ClusterStatus, Bye, NameFunctions, Submit, Results, Put, Get, ObjectReply, Value,
)  # fmt: skip
"""What this program asks for now, and its first client soon."""


def wait_until_ready(
    address: str,
    n_workers: int,
    scheduler: CommandProcess,
    children: Sequence[CommandProcess],
    timeout_seconds: float,
    shown: Pass | None = None,
) -> None:
    """Returns when the scheduler knows so many workers. Raises as soon as a child has ended, or the time is over."""
    end_at = time.monotonic() + timeout_seconds
    counts: list[int] = []

    def check(found: str) -> None:
        for child in children:
            child.check()
        if time.monotonic() > end_at:
            raise ClusterStartError(f"the cluster at {address} did not start in {timeout_seconds:g} s: {found}")

    registry().prepare(*_RECORDS)  # while they import what they need, we do too
    # Who dials too early is heard when ZeroMQ tries again, which may take a fifth of a second.
    while not answers(address):
        check("the scheduler did not answer")
        time.sleep(_ASK_SECONDS)
    ask_at = 0.0
    with _monitor(address, shown) as talk:
        while not counts or counts[-1] < n_workers:
            check(f"it had {counts[-1]} of {n_workers} workers" if counts else "the scheduler did not answer")
            now = time.monotonic()
            for event in talk.poll(now):
                _handle(event, talk.endpoint.address, counts, scheduler.pid)
            if talk.is_open and now >= ask_at:
                talk.send(SnapshotRequest(request_id=1))
                ask_at = now + _ASK_SECONDS
            talk.settle(now)
            talk.wait(max(ask_at - now, 0.0) or _ASK_SECONDS)


def _handle(event: object, address: str, counts: list[int], scheduler_id: int | None) -> None:
    if isinstance(event, Opened) and event.welcome.software.process_id != scheduler_id:
        # Ours could not listen there, or will say so in a moment.
        raise ClusterStartError(f"another scheduler listens at {address} already: give another address")
    if isinstance(event, Received) and isinstance(event.message, ClusterStatus):
        counts.append(len(event.message.workers))
    elif isinstance(event, Rejected):
        raise ClusterStartError(event.text)


@contextmanager
def _monitor(address: str, shown: Pass | None) -> Iterator[Conversation]:
    hello = Hello(
        version_min=codes.PROTOCOL_VERSION_MIN,
        version_max=codes.PROTOCOL_VERSION_MAX,
        role=codes.ROLE_MONITOR,
        peer_id=new_peer_id(),
        timers=Timers(),
        software=this_software("scaler-client", __version__),
    )
    talk = Conversation(DealerEndpoint(address, SessionDialer(hello=hello, server_name="scheduler"), shown))
    try:
        yield talk
    finally:
        talk.close()
