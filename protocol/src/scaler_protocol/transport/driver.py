"""Glue between endpoints and asyncio (skeleton)."""

from __future__ import annotations

from typing import Callable, Union

from scaler_protocol.session import SessionEvent
from scaler_protocol.transport.dealer import DealerEndpoint
from scaler_protocol.transport.router import RouterEndpoint

Endpoint = Union[RouterEndpoint, DealerEndpoint]
Handler = Callable[[list[SessionEvent], float], None]


class AsyncioDriver:
    """At each wake-up: every endpoint is polled and its handler called, then all are settled."""

    def __init__(self, endpoint: Endpoint, handler: Handler, *, next_deadline: Callable[[], float | None] | None = None) -> None: ...
    def add(self, endpoint: Endpoint, handler: Handler) -> None: ...  # more endpoints of the same role
    def start(self) -> None: ...  # inside the running loop
    def wake(self) -> None: ...  # the role did something outside a handler
    def stop(self) -> None: ...  # watches nothing any more; closes nothing
