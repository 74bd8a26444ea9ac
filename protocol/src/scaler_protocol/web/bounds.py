"""How much a caller can hold of an HTTP server: connections in all and of one address, the time of a request that is
only half there, and the time of an answer that the caller does not read.

aiohttp bounds the size of a request and none of these. `Gate` stands between a connection and aiohttp's handler of it,
and passes everything on. Two marks tell it what the handler does: `begun` and `ended`, which a middleware calls.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

CONNECTIONS_LIMIT = 1000
CONNECTIONS_PER_ADDRESS = 250
REQUEST_SECONDS = 10.0
"""A connection without a whole request is closed after this time."""
STALLED_SECONDS = 10.0
"""While buffers are full, a caller must read at least BUFFERED_BYTES of the answer in this time."""
BUFFERED_BYTES = 64 * 1024
"""What the kernel, and again asyncio, keep of an answer that is not read. Kernels like to keep megabytes."""
UNREAD_BYTES = 16 * 1024 * 1024
"""Of all answers together. Beyond it the connection ends whose caller has not read for longest."""
SPARE_DESCRIPTORS = 64
"""Of those that a process may open, so many are never used for connections."""


class Bounds:
    """The connections of one server."""

    def __init__(self, limit: int = CONNECTIONS_LIMIT, per_address: int = CONNECTIONS_PER_ADDRESS) -> None:
        self._limit = min(limit, max(_descriptors() - SPARE_DESCRIPTORS, 1))
        self._per_address = min(per_address, self._limit)
        #: in the order in which they came
        self._gates: dict[Gate, None] = {}
        self._by_handler: dict[Any, Gate] = {}
        #: whose buffers are full, the one that is so for longest first
        self._stalled: dict[Gate, None] = {}

    def __len__(self) -> int:
        return len(self._gates)

    def begun(self, handler: Any) -> None:
        """A whole head of a request is there. `handler`: aiohttp's of this connection."""
        gate = self._by_handler.get(handler)
        if gate is not None:
            gate.begun()

    def ended(self, handler: Any) -> None:
        """It was answered; the caller may send another."""
        gate = self._by_handler.get(handler)
        if gate is not None:
            gate.ended()

    def holds(self, handler: Any, size: int) -> None:
        """The answer that the handler writes is a text of this size, which is kept until all of it is written."""
        gate = self._by_handler.get(handler)
        if gate is not None:
            gate.held_bytes = size

    # ------------------------------------------------------------ for the gates

    def admit(self, gate: Gate, handler: Any) -> bool:
        """Where there is no room, the connection that has waited longest for its request makes room: a newcomer always
        gets in, however many others only hold their places. False: all of them are being served."""
        of_address = [one for one in self._gates if one.address == gate.address]
        if len(of_address) >= self._per_address and not self._close_idle(of_address):
            return False
        if len(self._gates) >= self._limit and not self._close_idle(list(self._gates)):
            return False
        self._gates[gate] = None
        self._by_handler[handler] = gate
        return True

    def gone(self, gate: Gate, handler: Any) -> None:
        self._gates.pop(gate, None)
        self._by_handler.pop(handler, None)

    def stalled(self, gate: Gate) -> None:
        """Its caller does not read. Each answer can be as large as a cluster's state."""
        self._stalled[gate] = None
        unread = sum(one.unread_bytes for one in self._stalled)
        while unread > UNREAD_BYTES and len(self._stalled) > 1:
            oldest = next(iter(self._stalled))
            unread -= oldest.unread_bytes
            oldest.abort()

    def flows(self, gate: Gate) -> None:
        self._stalled.pop(gate, None)

    def _close_idle(self, gates: list[Gate]) -> bool:
        for gate in gates:
            if gate.is_waiting:
                gate.abort()
                return True
        return False


class Gate(asyncio.Protocol):
    """One connection."""

    def __init__(self, bounds: Bounds, handler: Any) -> None:
        self.address = ""
        self.is_waiting = True  #: for a whole request
        self.held_bytes = 0  #: of a text that the handler keeps while it writes it in pieces
        self._bounds = bounds
        self._handler = handler
        self._is_admitted = False
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None  #: closes it
        self._stall: asyncio.TimerHandle | None = None  #: closes it, while the caller does not read
        self._unread_bytes = 0  #: when that timer began

    def begun(self) -> None:
        self.is_waiting = False
        self._cancel_timer()

    def ended(self) -> None:
        self.is_waiting = True
        self._begin_timer()

    def abort(self) -> None:
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    def _begin_timer(self) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(REQUEST_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        if self._transport is not None and self._transport.get_write_buffer_size():
            self._begin_timer()  # the caller reads an answer: how fast it must is not this timer's
        else:
            self.abort()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def unread_bytes(self) -> int:
        return self.held_bytes + self._buffered_bytes

    @property
    def _buffered_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _begin_stall(self) -> None:
        self._unread_bytes = self._buffered_bytes
        self._stall = asyncio.get_running_loop().call_later(STALLED_SECONDS, self._on_stall)

    def _on_stall(self) -> None:
        if self._unread_bytes - self._buffered_bytes < BUFFERED_BYTES:
            self.abort()
        else:
            self._begin_stall()

    def _cancel_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _forget(self) -> None:
        self._cancel_timer()
        self._cancel_stall()
        self._bounds.flows(self)
        self._bounds.gone(self, self._handler)

    # ------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        if not self._bounds.admit(self, self._handler):
            transport.abort()
            return
        self._is_admitted = True
        transport.set_write_buffer_limits(high=BUFFERED_BYTES)
        connection = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFERED_BYTES)
        self._begin_timer()
        self._handler.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._forget()
        if self._is_admitted:
            self._handler.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        result: bool | None = self._handler.eof_received()
        return result

    def pause_writing(self) -> None:
        if self._stall is None:
            self._begin_stall()
        self._handler.pause_writing()
        self._bounds.stalled(self)

    def resume_writing(self) -> None:
        self._cancel_stall()
        self._bounds.flows(self)
        self._handler.resume_writing()


async def listen(make_handler: Callable[[], Any], host: str, port: int, bounds: Bounds) -> asyncio.Server:
    """A server whose connections `make_handler` serves, within the bounds. Raises OSError."""
    # For each malformed request aiohttp writes a traceback of its own code. What our code raises, it logs itself.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    return await asyncio.get_running_loop().create_server(lambda: Gate(bounds, make_handler()), host, port)


def _descriptors() -> int:
    """How many this process may open."""
    enough = CONNECTIONS_LIMIT + SPARE_DESCRIPTORS
    try:
        import resource
    except ImportError:  # Windows
        return enough
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return enough if soft == resource.RLIM_INFINITY else soft
