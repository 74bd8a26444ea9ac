"""Sessions over ZeroMQ: ROUTER for servers, DEALER for dialers, and what drives them: asyncio, or threads
that block (spec chapter FRM). Each is imported when it is first asked for: a server starts without what dialers need,
and a program with a client without what servers need."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scaler_protocol.transport.context import end_context, use_io_threads, zmq_context

if TYPE_CHECKING:
    from scaler_protocol.transport.blocking import BlockingDriver
    from scaler_protocol.transport.conversation import Conversation
    from scaler_protocol.transport.dealer import DealerEndpoint
    from scaler_protocol.transport.driver import AsyncioDriver
    from scaler_protocol.transport.router import RouterEndpoint

__all__ = [
    "AsyncioDriver",
    "BlockingDriver",
    "Conversation",
    "DealerEndpoint",
    "RouterEndpoint",
    "end_context",
    "use_io_threads",
    "zmq_context",
]


_PLACES = {
    "AsyncioDriver": "driver",
    "BlockingDriver": "blocking",
    "Conversation": "conversation",
    "DealerEndpoint": "dealer",
    "RouterEndpoint": "router",
}


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{place}"), name)
