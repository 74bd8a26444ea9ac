# PYTHON_ARGCOMPLETE_OK
"""`scaler_health ADDR`: whether a server answers, for the health checks of containers and load balancers."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from scaler_protocol import __version__
from scaler_protocol.addresses import joined_addresses, parse_addresses
from scaler_protocol.codes import PROTOCOL_VERSION_MAX, PROTOCOL_VERSION_MIN, ROLE_MONITOR
from scaler_protocol.ids import new_peer_id
from scaler_protocol.keys import Pass
from scaler_protocol.messages import ClusterStatus, Hello, SnapshotRequest, Welcome
from scaler_protocol.process import ArgumentParser, StartupError, UsageError, flag, positive_seconds, run_command
from scaler_protocol.process.key_options import add_key_arguments, key_options
from scaler_protocol.session import Opened, Received, Rejected, SessionDialer, SessionEvent
from scaler_protocol.session.handshake import software_name, why_no_scheduler
from scaler_protocol.software import this_software
from scaler_protocol.transport import Conversation, DealerEndpoint

PROGRAM = "scaler_health"
WAIT_SECONDS = 0.05
FEATURE_SERVING = "serving"
"""A standby is asked to turn this program away."""


def parser() -> ArgumentParser:
    parser = ArgumentParser(
        PROGRAM,
        section="health",
        description="Ask a scheduler or an object storage for a sign of life, and end: with 0 when it answers, with 1 "
        "when it does not.",
        epilog=f"Example: {PROGRAM} tcp://127.0.0.1:2345 --worker $HOSTNAME",
    )
    parser.add_argument(
        "address", help="of the scheduler or of the object storage; of several schedulers, with commas between them"
    )
    parser.add_argument("--worker", "-w", metavar="NAME", help="a worker that has to be connected to that scheduler")
    parser.add_argument(
        "--serving", "-s", **flag(False), help="a scheduler that waits as a standby is no sign of life (default: False)"
    )
    parser.add_argument(
        "--timeout", "-t", type=positive_seconds, default=5.0, help="seconds to wait for it (default: %(default)g)"
    )
    add_key_arguments(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(PROGRAM, lambda: _run(parser().parse_settings(arguments)))


def _run(options: argparse.Namespace) -> int:
    try:
        places = parse_addresses(options.address)
    except ValueError as error:
        raise UsageError(str(error)) from None
    address = joined_addresses(places)
    wants_serving = options.serving or len(places) > 1
    end_at = time.monotonic() + options.timeout
    with _Question(address, end_at, key_options(options).find_pass(address), wants_serving) as question:
        welcome = question.welcome()
        address = question.address
        if options.worker is not None:
            names = question.worker_names(welcome)
            if options.worker not in names:
                raise StartupError(f"no worker {options.worker} is connected to {address}; it has {len(names)} others")
    duty = ", as a standby" if welcome.is_standby else ""
    print(f"{software_name(welcome.software, 'a server')} answers at {address}{duty}")
    return 0


class _Question:
    def __init__(self, address: str, end_at: float, shown: Pass | None, wants_serving: bool) -> None:
        """`wants_serving`: a standby turns us away. (HSK-40)"""
        hello = Hello(
            PROTOCOL_VERSION_MIN,
            PROTOCOL_VERSION_MAX,
            ROLE_MONITOR,
            new_peer_id(),
            features=(FEATURE_SERVING,) if wants_serving else (),
            software=this_software(PROGRAM),
        )
        self._given = address
        self._end_at = end_at
        self._talk = Conversation(DealerEndpoint(address, SessionDialer(hello=hello, server_name="server"), shown))
        self._events: list[SessionEvent] = []

    def __enter__(self) -> _Question:
        return self

    def __exit__(self, *_: object) -> None:
        self._talk.close()

    @property
    def address(self) -> str:
        """Of the server that answers."""
        return self._talk.endpoint.address

    def welcome(self) -> Welcome:
        while True:
            event = self._next()
            if isinstance(event, Opened):
                return event.welcome
            if isinstance(event, Rejected):
                raise StartupError(event.text)

    def worker_names(self, welcome: Welcome) -> list[str]:
        if why := why_no_scheduler(welcome, self.address):
            raise StartupError(why)
        self._talk.send(SnapshotRequest(1))
        while True:
            event = self._next()
            if isinstance(event, Received) and isinstance(event.message, ClusterStatus):
                return [worker.name for worker in event.message.workers]

    def _next(self) -> SessionEvent:
        while not self._events:
            now = time.monotonic()
            if now > self._end_at:
                raise StartupError(self._talk.endpoint.waits_because or f"nothing answers at {self._given}")
            self._events = self._talk.poll(now)
            self._talk.settle(now)
            if not self._events:
                self._talk.wait(WAIT_SECONDS)
        return self._events.pop(0)


if __name__ == "__main__":
    sys.exit(main())
