"""The server's sockets: frames to messages for the sessions, and what the sessions say back to frames (FRM, LAN).

Single-threaded and non-blocking: any loop may drive it. `poll` when the descriptor is readable or `next_deadline` has
come, handle the events, `settle`. The descriptor is edge-triggered: when `settle` returns True, poll again before
waiting, because what is there already will not wake the loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import zmq

from scaler_protocol.addresses import parse_address
from scaler_protocol.codec import CodecError, decode, readable_seq
from scaler_protocol.codec.envelope import Encoded
from scaler_protocol.codes import BAD_FRAMING, TOO_LARGE
from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.messages import Hello, Message
from scaler_protocol.session import SessionEvent, SessionServer
from scaler_protocol.session.admission import SAME_USER
from scaler_protocol.transport import lane, sockets
from scaler_protocol.transport.agenda import Agenda
from scaler_protocol.transport.connections import Connections
from scaler_protocol.transport.descriptors import DescriptorWatch
from scaler_protocol.transport.framing import Parts
from scaler_protocol.transport.guard import Guard
from scaler_protocol.transport.lane_server import LaneServer
from scaler_protocol.transport.zeromq import ZeroMqRouter

#: For so long a server may have something to read in every round before it looks for silent peers nevertheless.
#: Connections are read in turn, so by then each that has sent anything was heard. A round counts for no more than the
#: second number: what arrived while the process was stopped is still to be read.
_BUSY_SECONDS = 0.25
_ROUND_SECONDS = 0.05
#: A message of this size or more does not count in the bytes of a turn if it is dropped. libzmq goes on receiving
#: meanwhile, so what is dropped has to leave it faster than it comes.
_LARGE_BYTES = 16_384


class RouterEndpoint:
    def __init__(self, address: str, server: SessionServer) -> None:
        self._server = server
        self._limits = server.terms.limits
        self._agenda = Agenda()
        self._connections = Connections(server.carries, self._agenda)
        try:
            watch, keyring = self._connections.watch, server.admission.keyring
            socket = sockets.bound_router(parse_address(address, is_bind=True), self._limits, keyring, watch)
        except BaseException:
            self._connections.close()
            raise
        self.address = socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0")
        self._connections.listens_at(parse_address(self.address))
        self._zeromq = ZeroMqRouter(socket, self._limits)
        listener = lane.listen(parse_address(self.address), server.admission.keyring is not None)
        self._lanes: LaneServer | None = None
        if listener is None:
            self._descriptor = self._connections.joined(self._zeromq.descriptor)
        else:
            self._lanes = LaneServer(listener, self._zeromq.descriptor, server, self._agenda)
            self._descriptor = self._lanes.descriptor
            self._lanes.watch(self._connections.descriptor)
        self._descriptors = DescriptorWatch(self._descriptor)
        self._guard = Guard(socket, parse_address(self.address), server, self._connections.unread.door)
        self._agenda.by(self._guard.look_at)
        self._is_closed = False
        self._is_in_turn = False  # between `poll` and `settle`: what is sent leaves at its end, all together
        self._now = 0.0  # of the round we are in
        self._busy_seconds = 0.0  # for which every round has left something to read

    def listen_also(self, address: str) -> str:
        """Serve the same sessions at a further address; what it is when the system has chosen the port."""
        bound = sockets.bind_also(self._zeromq.socket, parse_address(address, is_bind=True))
        self._connections.listens_at(parse_address(bound, is_bind=True))
        self._guard.listens_also(parse_address(bound, is_bind=True))
        return bound

    def fileno(self) -> int:
        return self._descriptor

    def poll(self, now: float) -> list[SessionEvent]:
        """Read what is there, within a budget, and let time pass."""
        before, self._now = self._now, now
        self._is_in_turn = True
        if now >= self._descriptors.look_at:
            self._descriptors.look(now)
        if now >= self._agenda.at:
            self._look(now)
        server = self._server
        server.begin(now)
        is_drained = self._drain(now)
        connections = self._connections
        if not self._zeromq.is_drained:
            connections.fall_behind(now, self._zeromq.read_bytes)
        elif connections.unread.is_behind:
            connections.unread.catch_up()
        if connections.measured:
            connections.judge(server.heard_at, is_drained)
        if is_drained or self._is_busy_for_long(now - before):
            self._busy_seconds = 0.0
            server.expire(now)
            server.look_at_lines(self._connections, now)
        if server.transmissions:
            self._flush()
        return server.take_events()

    def send(self, peer_id: PeerId, message: Message | Encoded) -> int:
        """The number of the message in its session. To a peer without session (0): dropped. To one that is away for the
        moment: kept until it is back."""
        seq = self._server.send(peer_id, message)
        if not self._is_in_turn:
            self._flush()
        return seq

    def disconnect(self, peer_id: PeerId, code: int = 0, text: str = "") -> None:
        """End a peer's session; its `Lost` comes with the next poll."""
        self._server.disconnect(peer_id, code, text)
        self._flush()

    def settle(self, now: float) -> bool:
        """The role is done with its events. True: poll again before waiting."""
        self._now = now
        self._is_in_turn = False
        server = self._server
        server.settle(now)
        if server.transmissions:
            self._flush()
        return server.has_work or self._zeromq.has_input() or not self._connections.is_drained

    def next_deadline(self) -> float | None:
        deadline, look_at = self._server.next_deadline(), self._agenda.at
        if deadline is None:
            return None if look_at == math.inf else look_at
        return deadline if deadline < look_at else look_at

    def backlog_bytes(self, peer_id: PeerId) -> int:
        """Sent to this peer and not yet acknowledged."""
        return self._server.backlog_bytes(peer_id)

    def unacknowledged(self, peer_id: PeerId) -> tuple[int, int]:
        """Bytes and messages that were sent to this peer and are not acknowledged."""
        return self._server.unacknowledged(peer_id)

    def user_of(self, peer_id: PeerId) -> str:
        """Of the ticket with which this peer has come; empty without keys, and without a session."""
        return self._server.user_of(peer_id)

    def progress(self, peer_id: PeerId) -> tuple[int, int]:
        """Numbers of the last message that this peer was sent, and of the last that it has acknowledged."""
        return self._server.progress(peer_id)

    @property
    def total_backlog_bytes(self) -> int:
        """Sent to all peers together and not yet acknowledged."""
        return self._server.total_backlog_bytes

    def refuse_newcomers(self) -> None:
        """From now on each Hello for a new session is rejected with SHUTTING_DOWN. (SCH-27)"""
        self._server.refuse_newcomers()

    def close(self) -> None:
        """Bye to all. Waits only for peers on the lane that are slow to read, and for them a bounded time."""
        if self._is_closed:
            return
        self._is_closed = True
        self._server.shut_down()
        self._flush()
        if self._lanes is not None:
            self._lanes.close()
        self._guard.close()
        self._connections.close()
        self._zeromq.close()

    @property
    def sent_counts(self) -> dict[str, int]:
        return {kind.__name__: count for kind, count in self._server.sent.items()}

    @property
    def received_counts(self) -> dict[str, int]:
        return {kind.__name__: count for kind, count in self._server.received.items()}

    @property
    def rejected_count(self) -> int:
        return self._server.rejected_count

    @property
    def full_count(self) -> int:
        return self._server.full_count

    def _is_busy_for_long(self, seconds: float) -> bool:
        """There is more to read, as in each round for so long that silent peers are looked for nevertheless."""
        self._busy_seconds += min(seconds, _ROUND_SECONDS)
        return self._busy_seconds > _BUSY_SECONDS

    def _look(self, now: float) -> None:
        """After what is looked after now and then."""
        guard, connections, lanes, agenda = self._guard, self._connections, self._lanes, self._agenda
        if now >= guard.look_at:
            guard.look(now)
        if now >= connections.look_at:
            connections.read(now)
            connections.look(now)
        if now >= connections.count_at:
            connections.count(now)
        if now >= connections.measure_at:
            connections.measure(now)
        if lanes is not None and now >= lanes.look_at:
            lanes.look(now)
        agenda.at = min(guard.look_at, connections.look_at, connections.count_at, connections.measure_at)
        if lanes is not None:
            agenda.by(lanes.look_at)

    def _drain(self, now: float) -> bool:
        """Whether nothing is left to read."""
        lanes, zeromq, connections = self._lanes, self._zeromq, self._connections
        if lanes is None:
            connections.read(now)
            self._receive(zeromq.messages(), now)
            return zeromq.is_drained
        has_message = lanes.wait()
        if lanes.is_ready(connections.descriptor) or not connections.is_drained:
            connections.read(now)
        if has_message or not zeromq.is_quiet:
            self._receive(zeromq.messages(), now)
        self._receive(lanes.messages(now), now, is_lane=True)
        if lanes.has_closed:
            for routing_id in lanes.take_closed():
                self._server.unreachable(routing_id, now)
        return zeromq.is_quiet and lanes.is_drained

    def _receive(self, messages: Iterable[tuple[RoutingId, Parts]], now: float, is_lane: bool = False) -> None:
        server = self._server
        receive, reads_of, strangers = server.receive, server.reads_of, self._connections.strangers
        reads = None if is_lane else self._connections.unread.reads
        for routing_id, (envelope, payload, size, has_more) in messages:
            if reads is not None:
                reads[routing_id] = reads.get(routing_id, 0) + size
            if envelope is None or has_more:
                self._refuse_frames(routing_id, envelope, size, has_more, now)
                continue
            try:
                received = decode(envelope, payload, *reads_of(routing_id, size))
            except CodecError as error:
                server.reject(routing_id, error.code, error.text, error.clause, error.seq, now)
                continue
            is_hello = type(received.message) is Hello
            if not is_hello:
                receive(routing_id, received, size, now)
            else:
                receive(routing_id, received, size, now, SAME_USER if is_lane else self._zeromq.proof())
            if is_lane:
                continue
            if (is_hello or strangers) and server.carries(routing_id):
                self._connections.introduce(routing_id, self._zeromq.source(), now)
            elif size > _LARGE_BYTES and not server.carries(routing_id):
                self._zeromq.budget_bytes += size

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

    def _flush(self) -> None:
        lanes, zeromq = self._lanes, self._zeromq
        for routing_id, frames in self._server.take_transmissions():
            if lanes is not None and lanes.queue(routing_id, frames):
                continue
            try:
                zeromq.send(routing_id, frames)
            except zmq.ZMQError as error:
                # EAGAIN cannot be a full queue, there is no mark: it is a connection that is being closed.
                # The numbers of libzmq: on Windows those of the module errno are others.
                if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                    raise
                self._server.unreachable(routing_id, self._now)
        for routing_id in self._server.take_dismissed():
            self._connections.dismiss(routing_id, self._now)
        if self._server.abandoned:
            for routing_id in self._server.take_abandoned():
                self._connections.close_of(routing_id)
                if lanes is not None:
                    lanes.close_of(routing_id)
        if lanes is not None:
            lanes.flush()
