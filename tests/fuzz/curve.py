"""A connection with a ticket: what a hostile peer can say that was let in. The interface is that of `wire.Wire`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import zmq

from scaler_protocol.ids import new_routing_id
from scaler_protocol.keys import Pass
from tests.fuzz.wire import SAY_SECONDS

_LINGER_MILLISECONDS = 500
"""With none, libzmq aborts this process if it has sent a part of a message of several frames: the rest is dropped."""
_QUEUED = 100
"""Messages in a queue of libzmq; what is not read is then held back by TCP, as of a peer that never reads."""


class CurveWire:
    def __init__(self, port: int, shown: Pass, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.is_closed = False
        self._socket = context.socket(zmq.DEALER)
        for option, value in (
            (zmq.LINGER, _LINGER_MILLISECONDS),
            (zmq.SNDHWM, _QUEUED),
            (zmq.RCVHWM, _QUEUED),
            (zmq.SNDTIMEO, int(1e3 * SAY_SECONDS)),
            (zmq.ROUTING_ID, new_routing_id()),
            (zmq.CURVE_SERVERKEY, shown.server_keys[0]),
            (zmq.CURVE_PUBLICKEY, shown.public_key),
            (zmq.CURVE_SECRETKEY, shown.secret_key),
        ):
            self._socket.setsockopt(option, value)
        self._socket.connect(f"tcp://127.0.0.1:{port}")

    def send(self, *messages: Sequence[bytes]) -> bool:
        """False when the connection takes no more."""
        if self.is_closed:
            return False
        try:
            for frames in messages:
                self._socket.send_multipart(frames)
        except zmq.ZMQError:
            return False
        return True

    def send_same(self, frames: Sequence[bytes], count: int) -> bool:
        return self.send(*[frames] * count)

    def received(self, seconds: float = 1.0) -> Iterator[list[bytes]]:
        """Messages, until none has come for so long."""
        while not self.is_closed and self._socket.poll(int(1e3 * seconds)):
            yield self._socket.recv_multipart()

    def drop_what_came(self) -> None:
        while not self.is_closed and self._socket.poll(0):
            self._socket.recv_multipart()

    def close(self) -> None:
        self.is_closed = True
        self._socket.close()
