"""The dialer's socket, or rather one after another: each dial gets a new one with a new routing id (FRM-3).

Single-threaded and non-blocking, driven like RouterEndpoint: `poll` when `socket` is readable or `next_deadline` has
come, handle the events, `settle`, and poll again before waiting when that returned True.

The contract about sockets: `socket` is another one when `generation` has risen, which happens only inside `poll`. The
one before stays open until the next `poll`, so that a loop can take it out of its poller first.
"""

from __future__ import annotations

import zmq

from scaler_protocol.addresses import parse_address
from scaler_protocol.codec import CodecError, decode
from scaler_protocol.codes import BAD_FRAMING, TOO_LARGE
from scaler_protocol.messages import Message
from scaler_protocol.session import SessionDialer, SessionEvent
from scaler_protocol.transport import sockets
from scaler_protocol.transport.router import BUDGET_BYTES, BUDGET_MESSAGES, SKIP_FRAMES


class DealerEndpoint:
    def __init__(self, address: str, dialer: SessionDialer) -> None:
        self._address = parse_address(address)
        self.address = str(self._address)
        self._dialer = dialer
        self._limits = dialer.hello.limits
        self.socket = sockets.connected_dealer(self._address, self._limits)
        self._descriptor = int(self.socket.fileno())
        self._socket_generation = 1  # the first dial finds its socket already there
        self.generation = 0
        self._retired: sockets.Socket | None = None
        self._is_skipping = False
        self._is_unsettled = True  # something was done since `settle` last found nothing left to do

    def fileno(self) -> int:
        return self._descriptor

    def poll(self, now: float) -> list[SessionEvent]:
        """Read what is there, within a budget, let time pass, and dial when that is due."""
        if self._retired is not None:
            sockets.close(self._retired, 0)
            self._retired = None
        self._is_unsettled = True
        dialer = self._dialer
        dialer.begin(now)
        is_drained = self._drain(now)
        dialer.expire(now, is_drained)
        if dialer.generation != self.generation:
            self._change_socket()
        self._flush()
        return dialer.take_events()

    def send(self, message: Message) -> None:
        """Without a session: dropped. While it is interrupted: kept until it is resumed."""
        self._dialer.send(message)
        self._flush()

    def ping(self, now: float) -> None:
        """Measure the round trip, though nobody doubts that the server is there."""
        self._dialer.ping(now)
        self._flush()

    def settle(self, now: float) -> bool:
        """The role is done with its events. True: poll again before waiting."""
        if not self._is_unsettled:
            return False
        self._dialer.settle(now)
        self._flush()
        self._is_unsettled = self._dialer.has_work or sockets.has_input(self.socket)
        return self._is_unsettled

    def next_deadline(self) -> float | None:
        return self._dialer.next_deadline()

    def bye(self, code: int = 0, text: str = "") -> None:
        """Our goodbye: `Lost` (orderly) comes with the next poll, then nothing until `redial`."""
        self._is_unsettled = True
        self._dialer.bye(code, text)
        self._flush()

    def redial(self) -> None:
        """After `Lost` or `Rejected`: begin a new session with the next poll."""
        self._is_unsettled = True
        self._dialer.redial()

    def close(self) -> None:
        """Does not wait: a goodbye leaves in the background, and gets a bounded time at exit."""
        if self.socket.closed:
            return
        self.bye()
        if self._retired is not None:
            sockets.close(self._retired, 0)
            self._retired = None
        sockets.close(self.socket, sockets.LINGER_MILLISECONDS)

    @property
    def is_open(self) -> bool:
        return self._dialer.is_open

    @property
    def backlog_bytes(self) -> int:
        """Sent and not yet acknowledged."""
        return self._dialer.backlog_bytes

    @property
    def round_trip_seconds(self) -> float:
        """From the last Ping that was answered to its Pong; zero before the first."""
        return self._dialer.round_trip_seconds

    @property
    def sent_counts(self) -> dict[str, int]:
        return {kind.__name__: count for kind, count in self._dialer.sent.items()}

    @property
    def received_counts(self) -> dict[str, int]:
        return {kind.__name__: count for kind, count in self._dialer.received.items()}

    @property
    def rejected_count(self) -> int:
        return self._dialer.rejected_count

    def _change_socket(self) -> None:
        self.generation = self._dialer.generation
        if self.generation == self._socket_generation:
            return
        self._socket_generation = self.generation
        self._retired = self.socket
        self._is_skipping = False
        self.socket = sockets.connected_dealer(self._address, self._limits)
        self._descriptor = int(self.socket.fileno())

    def _drain(self, now: float) -> bool:
        """Whether nothing is left to read."""
        socket = self.socket
        recv = socket.recv
        receive = self._dialer.receive
        read = sockets.read
        limits = self._limits
        envelope_limit = limits.envelope_bytes
        budget_bytes = BUDGET_BYTES
        if self._is_skipping and not self._skip():
            return False
        for _ in range(BUDGET_MESSAGES):
            if not sockets.has_input(socket):
                return True
            envelope, payload, size, has_more = read(recv, envelope_limit)
            if envelope is None or has_more:
                self._refuse_frames(size, has_more, now)
                if has_more and not self._skip():
                    return False
                continue
            try:
                received = decode(envelope, payload, limits)
            except CodecError as error:
                self._dialer.reject(error.code, error.text, error.clause, error.seq, now)
                continue
            receive(received, size, now)
            budget_bytes -= size
            if budget_bytes < 0:
                return False
        return False

    def _refuse_frames(self, size: int, has_more: bool, now: float) -> None:
        if has_more:
            self._dialer.reject(BAD_FRAMING, "a message has at most one payload frame", "FRM-2", 0, now)
        else:
            text = f"an envelope has at most {self._limits.envelope_bytes} bytes and this one has {size}"
            self._dialer.reject(TOO_LARGE, text, "FRM-4", 0, now)

    def _skip(self) -> bool:
        self._is_skipping = not sockets.skip(self.socket.recv, SKIP_FRAMES)
        return not self._is_skipping

    def _flush(self) -> None:
        transmissions = self._dialer.take_transmissions()
        if not transmissions:
            return
        self._is_unsettled = True  # sending may have swallowed the edge
        send = self.socket.send
        try:
            for frames in transmissions:
                sockets.write(send, frames)
        except zmq.Again:
            # There is no mark, so no queue is full: libzmq has given the connection up, because what listens there
            # speaks ZeroMQ and is no ROUTER, such as the monitor's publisher. No answer comes, and we dial again.
            pass
