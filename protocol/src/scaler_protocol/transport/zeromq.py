"""What endpoints need of a ZeroMQ socket: its messages one by one, and to send some (FRM).

Its descriptor is edge-triggered: a loop that waits for it has to have asked for input since it last sent. `is_quiet`
says that this is so, and that there was none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from operator import itemgetter

import zmq

from scaler_protocol.addresses import Address
from scaler_protocol.ids import RoutingId
from scaler_protocol.keys import Pass
from scaler_protocol.messages import Limits
from scaler_protocol.session.admission import Proof
from scaler_protocol.session.channel import Frames
from scaler_protocol.transport import curve, sockets
from scaler_protocol.transport.context import Socket, let_out
from scaler_protocol.transport.framing import Parts

#: One poll reads no more than this, so that a flood from some peers leaves time for the others and for the role. The
#: time counts what is done with each message before the next is read. A batch takes longer than that by itself, so what
#: cuts a turn is a crowd of small messages.
_BUDGET_MESSAGES = 512
_BUDGET_BYTES = 4 * 1024 * 1024
BUDGET_SECONDS = 0.002
#: A turn that was cut is to take no longer than this with what the role makes of its messages, and their answers: a
#: call of another peer waits for two or three turns. So less is read next time, but no less than the second number.
_TURN_SECONDS = 0.003
_LEAST_BUDGET_SECONDS = 0.0005
#: A message with a longer envelope begins a turn: to read its columns takes as long as a turn is meant to, and what was
#: read before it in the same turn, such as a call of another peer, would wait for that.
_LONG_BYTES = 64 * 1024
_SKIP_FRAMES = 4096
#: Of a short message, besides its frame: two with NULL, 35 with CURVE.
_WIRE_BYTES = 2

_NOBODY = RoutingId(b"")

_parts_of = itemgetter(1)


class _ZeroMq:
    def __init__(self, socket: Socket, limits: Limits) -> None:
        self.socket = socket
        self.descriptor = int(socket.fileno())
        #: the last `messages` found the end of what was there
        self.is_drained = False
        self.is_quiet = False
        self._envelope_limit = limits.envelope_bytes
        self._budget_seconds = BUDGET_SECONDS
        #: when the last turn was cut, if it was, and how long it had read by then
        self._cut_at = self._read_seconds = 0.0
        #: what may still be read in this turn
        self.budget_bytes = 0
        #: of all messages that were handed over, about as many as came by their connections
        self.read_bytes = 0
        #: the first of the message that is being handed over
        self._frame: zmq.Frame | None = None
        #: a long message that begins the next turn: its first frame, and what it is
        self._put_off: tuple[zmq.Frame, tuple[RoutingId, Parts]] | None = None
        self._is_skipping = False  # in the middle of a message with far too many frames
        self._sent_at = -math.inf

    def _received(self, *, is_routed: bool) -> Iterator[tuple[RoutingId, Parts]]:
        """What is there, within a budget: behind the routing id of its sender, or nothing in its place."""
        recv, has_input, read = self.socket.recv, sockets.has_input, sockets.read
        clock = time.monotonic
        begun_at = clock()
        if self._cut_at:
            self._set_budget(begun_at - self._cut_at)
        self.budget_bytes, ends_at = _BUDGET_BYTES, begun_at + self._budget_seconds
        self.is_drained = self.is_quiet = False
        if self._is_skipping and not self._skip():
            return
        for number in range(_BUDGET_MESSAGES):
            if self._put_off is not None:
                (self._frame, (routing_id, parts)), self._put_off = self._put_off, None
            else:
                # Asking first is a tenth of the cost of the exception that ends every round otherwise.
                if not has_input(self.socket):
                    self.is_drained = self.is_quiet = True
                    self._frame = None
                    return
                routing_id = recv(sockets.NOBLOCK) if is_routed else _NOBODY  # type: ignore[assignment]
                frame: zmq.Frame = recv(sockets.NOBLOCK, False)
                parts = read(frame, recv, self._envelope_limit)
                if number and is_routed and len(frame) > _LONG_BYTES and not parts[3]:
                    self._put_off = frame, (routing_id, parts)
                    return
                self._frame = frame
            yield routing_id, parts
            self.budget_bytes -= parts[2]
            self.read_bytes += parts[2] + _WIRE_BYTES
            if (parts[3] and not self._skip()) or self.budget_bytes < 0:
                return
            now = clock()
            if now > ends_at:
                self._cut_at, self._read_seconds = now, now - begun_at
                return

    def _set_budget(self, rest_seconds: float) -> None:
        """After a turn that was cut, of which the rest has taken so long."""
        self._cut_at = 0.0
        fair = _TURN_SECONDS * self._read_seconds / (self._read_seconds + rest_seconds)
        self._budget_seconds = min(max(fair, _LEAST_BUDGET_SECONDS), BUDGET_SECONDS)

    def has_input(self) -> bool:
        if not self.is_quiet:
            self.is_quiet = self._put_off is None and not sockets.has_input(self.socket)
        return not self.is_quiet

    def close(self, linger_milliseconds: int = sockets.LINGER_MILLISECONDS) -> None:
        if not self.socket.closed:
            self.socket.close(linger=linger_milliseconds)
            if time.monotonic() < self._sent_at + linger_milliseconds / 1000:
                let_out(linger_milliseconds / 1000)

    def _skip(self) -> bool:
        self._is_skipping = not sockets.skip(self.socket.recv, _SKIP_FRAMES)
        return not self._is_skipping


class ZeroMqRouter(_ZeroMq):
    def source(self) -> int:
        """The descriptor of the connection by which the message came that `messages` has given last."""
        assert self._frame is not None
        return int(self._frame.get(zmq.SRCFD))

    def messages(self) -> Iterator[tuple[RoutingId, Parts]]:
        """What is there, within a budget."""
        return self._received(is_routed=True)

    def proof(self) -> Proof:
        """Of the message that `messages` has just given: whose connection it came by. Read for a Hello only, because
        it costs as much as to receive a message."""
        if self._frame is None:
            return Proof()
        return Proof(curve.holder_of(self._frame), host=curve.host_of(self._frame))

    def send(self, routing_id: RoutingId, frames: Frames) -> None:
        """Raises zmq.ZMQError when no connection has that routing id."""
        self.is_quiet = False  # sending may have swallowed the edge
        self._sent_at = time.monotonic()
        self.socket.send(routing_id, sockets.NOBLOCK_MORE)
        sockets.write(self.socket.send, frames)


class ZeroMqDealer(_ZeroMq):
    #: what is gone comes back, as far as can be told
    is_closed = False

    def __init__(self, address: Address, limits: Limits, shown: Pass | None = None, attempt: int = 0) -> None:
        super().__init__(sockets.connected_dealer(address, limits, shown, attempt), limits)

    def messages(self) -> Iterator[Parts]:
        """What is there, within a budget."""
        return map(_parts_of, self._received(is_routed=False))

    def send(self, messages: Iterable[Frames]) -> None:
        self.is_quiet = False
        self._sent_at = time.monotonic()
        send = self.socket.send
        try:
            for frames in messages:
                sockets.write(send, frames)
        except zmq.Again:
            # There is no mark, so no queue is full: libzmq has given the connection up, because what listens there
            # speaks ZeroMQ and is no ROUTER, such as the monitor's publisher. No answer comes, and we dial again.
            pass
