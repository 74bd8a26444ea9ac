"""The server's socket: frames to messages for the sessions, and what the sessions say back to frames (FRM).

Single-threaded and non-blocking: any loop may drive it. `poll` when the descriptor is readable or `next_deadline` has
come, handle the events, `settle`. The descriptor is edge-triggered: when `settle` returns True, poll again before
waiting, because nobody will be woken for what is there already.
"""

from __future__ import annotations

import errno

import zmq

from scaler_protocol.addresses import parse_address
from scaler_protocol.codec import CodecError, decode, readable_seq
from scaler_protocol.codes import BAD_FRAMING, TOO_LARGE
from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.messages import Message
from scaler_protocol.session import SessionEvent, SessionServer
from scaler_protocol.transport import sockets

#: One poll reads no more than this, so that a flood from some peers leaves time for the others and for the role.
BUDGET_MESSAGES = 512
BUDGET_BYTES = 64 * 1024 * 1024
SKIP_FRAMES = 4096


class RouterEndpoint:
    def __init__(self, address: str, server: SessionServer) -> None:
        self._server = server
        self._limits = server.terms.limits
        self._socket = sockets.bound_router(parse_address(address, is_bind=True), self._limits)
        self.address = self._socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
        self._descriptor = int(self._socket.fileno())
        self._is_skipping = False  # in the middle of a message with far too many frames
        self._now = 0.0  # of the round we are in

    def fileno(self) -> int:
        return self._descriptor

    def poll(self, now: float) -> list[SessionEvent]:
        """Read what is there, within a budget, and let time pass."""
        self._now = now
        server = self._server
        server.begin(now)
        if self._drain(now):
            server.expire(now)
        self._flush()
        return server.take_events()

    def send(self, peer_id: PeerId, message: Message) -> None:
        """To a peer without session: dropped. To one that is away for the moment: kept until it is back."""
        self._server.send(peer_id, message)
        self._flush()

    def disconnect(self, peer_id: PeerId, code: int = 0, text: str = "") -> None:
        """End a peer's session; its `Lost` comes with the next poll."""
        self._server.disconnect(peer_id, code, text)
        self._flush()

    def settle(self, now: float) -> bool:
        """The role is done with its events. True: poll again before waiting."""
        self._now = now
        self._server.settle(now)
        self._flush()
        return self._server.has_work or sockets.has_input(self._socket)

    def next_deadline(self) -> float | None:
        return self._server.next_deadline()

    def backlog_bytes(self, peer_id: PeerId) -> int:
        """Sent to this peer and not yet acknowledged."""
        return self._server.backlog_bytes(peer_id)

    def refuse_newcomers(self) -> None:
        """Whoever says Hello from now on is told that the end is near. (SCH-27)"""
        self._server.refuse_newcomers()

    def close(self) -> None:
        """Bye to all. Does not wait: the goodbyes leave in the background, and get a bounded time at exit."""
        if self._socket.closed:
            return
        self._server.shut_down()
        self._flush()
        sockets.close(self._socket, sockets.LINGER_MILLISECONDS)

    @property
    def sent_counts(self) -> dict[str, int]:
        return {kind.__name__: count for kind, count in self._server.sent.items()}

    @property
    def received_counts(self) -> dict[str, int]:
        return {kind.__name__: count for kind, count in self._server.received.items()}

    @property
    def rejected_count(self) -> int:
        return self._server.rejected_count

    def _drain(self, now: float) -> bool:
        """Whether nothing is left to read."""
        socket = self._socket
        recv = socket.recv
        receive = self._server.receive
        read = sockets.read
        limits_of = self._server.limits_of
        envelope_limit = self._limits.envelope_bytes
        budget_bytes = BUDGET_BYTES
        if self._is_skipping and not self._skip():
            return False
        for _ in range(BUDGET_MESSAGES):
            # Asking first is a tenth of the cost of the exception that ends every round otherwise.
            if not sockets.has_input(socket):
                return True
            routing_id = recv(sockets.NOBLOCK)
            envelope, payload, size, has_more = read(recv, envelope_limit)
            if envelope is None or has_more:
                self._refuse_frames(RoutingId(routing_id), envelope, size, has_more, now)
                if has_more and not self._skip():
                    return False
                continue
            try:
                received = decode(envelope, payload, limits_of(routing_id))
            except CodecError as error:
                self._server.reject(RoutingId(routing_id), error.code, error.text, error.clause, error.seq, now)
                continue
            receive(RoutingId(routing_id), received, size, now)
            budget_bytes -= size
            if budget_bytes < 0:
                return False
        return False

    def _refuse_frames(
        self, routing_id: RoutingId, envelope: bytes | None, size: int, has_more: bool, now: float
    ) -> None:
        if has_more:
            # What can be numbered is refused and behind us: the session goes on. (SES-16)
            seq = 0 if envelope is None else readable_seq(envelope)
            self._server.reject(routing_id, BAD_FRAMING, "a message has at most one payload frame", "FRM-2", seq, now)
        else:
            text = f"an envelope has at most {self._limits.envelope_bytes} bytes and this one has {size}"
            self._server.reject(routing_id, TOO_LARGE, text, "FRM-4", 0, now)

    def _skip(self) -> bool:
        self._is_skipping = not sockets.skip(self._socket.recv, SKIP_FRAMES)
        return not self._is_skipping

    def _flush(self) -> None:
        transmissions = self._server.take_transmissions()
        if not transmissions:
            return
        send = self._socket.send
        write = sockets.write
        for routing_id, frames in transmissions:
            try:
                send(routing_id, sockets.NOBLOCK_MORE)
                write(send, frames)
            except zmq.ZMQError as error:
                # EAGAIN cannot be a full queue, there is no mark: it is a connection that is being closed.
                if error.errno not in (errno.EHOSTUNREACH, errno.EAGAIN):
                    raise
                self._server.unreachable(routing_id, self._now)
