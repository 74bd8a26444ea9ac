"""Sessions over ZeroMQ: ROUTER for servers, DEALER for dialers, and what drives them: asyncio, or threads
that block (spec chapter FRM)."""

from scaler_protocol.transport.blocking import BlockingDriver
from scaler_protocol.transport.context import use_io_threads, zmq_context
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
    "use_io_threads",
    "zmq_context",
]
