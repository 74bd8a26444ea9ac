"""Sessions over ZeroMQ: ROUTER for servers, DEALER for dialers, and what drives them: asyncio, or threads
that block (spec chapter FRM). What servers alone need is imported when it is first asked for: programs with a client
start without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaler_protocol.transport.blocking import BlockingDriver
from scaler_protocol.transport.context import use_io_threads, zmq_context
from scaler_protocol.transport.conversation import Conversation
from scaler_protocol.transport.dealer import DealerEndpoint

if TYPE_CHECKING:
    from scaler_protocol.transport.driver import AsyncioDriver
    from scaler_protocol.transport.router import RouterEndpoint

__all__ = [
    "AsyncioDriver",
    "BlockingDriver",
    "Conversation",
    "DealerEndpoint",
    "RouterEndpoint",
    "use_io_threads",
    "zmq_context",
]


def __getattr__(name: str) -> Any:
    if name == "AsyncioDriver":
        from scaler_protocol.transport.driver import AsyncioDriver

        return AsyncioDriver
    if name == "RouterEndpoint":
        from scaler_protocol.transport.router import RouterEndpoint

        return RouterEndpoint
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
