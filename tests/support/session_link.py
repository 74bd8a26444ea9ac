"""Real session cores, one server and several dialers, over a link that loses, repeats and delays, in virtual time.

Roles are played by counters: a dialer's role sends Cancel 0, 1, 2 … in each session. The server's role answers each
with a CancelReply, or, every third, with an Error that refuses it, and sends CancelReplies unasked. `Ledger` writes
down what each role sent and was given, by session, and holds the laws: exactly once, in order, `Opened` and `Lost`
alternate, a Pong overtakes nothing.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

from scaler_protocol import codes
from scaler_protocol.codec import decode, encode
from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.messages import Cancel, CancelReply, Error, Hello, Message, Ping, Pong, Timers
from scaler_protocol.session import Complained, Lost, Opened, Received, SessionDialer, SessionEvent, SessionServer
from scaler_protocol.session.channel import Frames
from scaler_protocol.session.dialer_states import State
from scaler_protocol.session.gate import Gate
from scaler_protocol.session.invariants import check_dialer, check_server

TIMERS = Timers(heartbeat_seconds=1.0, lease_seconds=12.0)


def _number(message: Message) -> int:
    assert isinstance(message, (Cancel, CancelReply))
    return int.from_bytes(message.ids, "little")


def _is_answer(message: Message) -> bool:
    return (isinstance(message, Error) and not message.fatal) or (
        isinstance(message, CancelReply) and message.outcomes == b"\0"
    )


def _ids(number: int) -> bytes:
    return number.to_bytes(16, "little")


@dataclass
class Side:
    """What one role knows of one peer."""

    session_id: int = 0  # zero: none that the role was told of
    next_number: int = 0
    story: list[str] = field(default_factory=list)


@dataclass
class Ledger:
    """(session, direction) -> numbers, in order. Direction "up" is from the dialer."""

    sent: dict[tuple[int, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    given: dict[tuple[int, str], list[int]] = field(default_factory=lambda: defaultdict(list))

    def check(self) -> None:
        for key, numbers in self.given.items():
            assert numbers == self.sent[key][: len(numbers)], f"{key}: given {numbers}, sent {self.sent[key]}"


class Wire:
    """One socket's two directions. Messages of a closed socket may still reach the server."""

    def __init__(self, routing_id: RoutingId) -> None:
        self.routing_id = routing_id
        self.up: deque[Frames] = deque()
        self.down: deque[Frames] = deque()
        self.is_closed = False
        self.is_half_open = False  # the server has not noticed that it is closed


class DialerNode:
    def __init__(self, index: int, ledger: Ledger) -> None:
        self.index = index
        self.peer_id = PeerId(bytes([index + 1]) * 16)
        self.side = Side()
        self.ledger = ledger
        self.wires: list[Wire] = []
        self._sockets = 0
        self.fence: dict[int, int] = {}  # nonce -> Cancels before that Ping
        self.cancels = 0  # sent in this session, as the core numbered them
        self.replies = 0
        hello = Hello(version_min=1, version_max=1, role=codes.ROLE_CLIENT, peer_id=self.peer_id, timers=TIMERS)
        self.core = SessionDialer(hello=hello, encode=self._encode)

    def _encode(self, message: Message, seq: int, ack: int) -> Frames:
        if isinstance(message, Cancel):
            self.cancels += 1
        elif isinstance(message, Ping):
            self.fence[message.nonce] = self.cancels
        return encode(message, seq, ack)

    @property
    def wire(self) -> Wire | None:
        return self.wires[-1] if self.wires else None

    def flush(self) -> None:
        frames = self.core.take_transmissions()
        if self.core.generation != self._sockets:
            if self.wire is not None:
                self.wire.is_closed = True
                self.wire.down.clear()
            self._sockets = self.core.generation
            self.wires.append(Wire(RoutingId(bytes([1, self.index]) + self._sockets.to_bytes(14, "little"))))
        if frames:
            assert self.wire is not None, "there is a socket before there is something to send"
            self.wire.up.extend(frames)

    def poll(self, now: float, most: int) -> None:
        core, wire = self.core, self.wire
        core.begin(now)
        for _ in range(min(most, len(wire.down)) if wire else 0):
            assert wire is not None
            self._receive(wire.down.popleft(), now)
        core.expire(now, is_drained=not (wire and wire.down))
        check_dialer(core)
        self.flush()
        for event in core.take_events():
            self._handle(event)
            self.flush()
        core.settle(now)
        self.flush()
        check_dialer(core)

    def _receive(self, frames: Frames, now: float) -> None:
        envelope = decode(bytes(frames[0]), frames[1:])
        before = self.core._channel.received_seq
        self.core.receive(envelope, sum(map(len, frames)), now)
        if self.core._channel.received_seq > before:
            self.replies += _is_answer(envelope.message)
        if isinstance(envelope.message, Pong) and self.core._channel.received_seq > before:
            expected = self.fence[envelope.message.nonce]
            assert self.replies >= expected, f"Pong {envelope.message.nonce} overtook {expected - self.replies} replies"

    def _handle(self, event: SessionEvent) -> None:
        side = self.side
        side.story.append(type(event).__name__)
        if isinstance(event, Opened):
            assert side.session_id == 0, f"Opened twice: {side.story}"
            side.session_id, side.next_number = event.welcome.session_id, 0
            self.cancels = self.replies = 0
        elif isinstance(event, Received):
            assert side.session_id != 0, f"Received outside a session: {side.story}"
            self.ledger.given[side.session_id, "down"].append(_number(event.message))
        elif isinstance(event, Complained):
            assert side.session_id != 0, f"Complained outside a session: {side.story}"
            self.ledger.given[side.session_id, "down"].append(int(event.text))
        elif isinstance(event, Lost):
            assert side.session_id != 0, f"Lost twice: {side.story}"
            assert event.code != codes.SESSION_REPLACED, "an honest dialer alone under its id is never replaced"
            side.session_id = 0
            if self.core.state is State.ENDED:
                self.core.redial()
        else:
            raise AssertionError(f"unexpected {event}")

    def say(self) -> None:
        side = self.side
        if side.session_id:
            self.ledger.sent[side.session_id, "up"].append(side.next_number)
            self.core.send(Cancel(ids=_ids(side.next_number)))
            side.next_number += 1
            self.flush()


class Closable(Gate):
    """Shut for the peers that a test names."""

    __slots__ = ("shut",)

    def __init__(self) -> None:
        super().__init__()
        self.shut: set[PeerId] = set()

    def set(self, peer_id: PeerId, is_open: bool) -> None:
        (self.shut.discard if is_open else self.shut.add)(peer_id)
        self.is_strained = bool(self.shut)

    def admits(self, peer_id: PeerId, size: int) -> bool:
        return peer_id not in self.shut

    def is_relieved(self, peer_id: PeerId) -> bool:
        return peer_id not in self.shut


class ServerNode:
    def __init__(self, ledger: Ledger, nodes: list[DialerNode]) -> None:
        self.ledger = ledger
        self.nodes = nodes
        self.lives = 0
        self.gate = Closable()
        self.restart()

    def restart(self) -> None:
        self.lives += 1
        self.sides: dict[PeerId, Side] = defaultdict(Side)
        self.core = SessionServer(
            server_id=PeerId(bytes([0xAA, self.lives]) * 8),
            role_name="scheduler",
            allowed_roles={codes.ROLE_CLIENT},
            timers=TIMERS,
            gate=self.gate,
        )

    def wire_of(self, routing_id: RoutingId) -> Wire:
        return next(wire for node in self.nodes for wire in node.wires if wire.routing_id == routing_id)

    def flush(self, now: float) -> None:
        for routing_id, frames in self.core.take_transmissions():
            wire = self.wire_of(routing_id)
            if not wire.is_closed:
                wire.down.append(frames)
            elif not wire.is_half_open:
                self.core.unreachable(routing_id, now)

    def poll(self, now: float, most: int, order: int = 0) -> None:
        core = self.core
        core.begin(now)
        wires = [wire for node in self.nodes for wire in node.wires if wire.up]
        wires = wires[order % (len(wires) or 1) :] + wires[: order % (len(wires) or 1)]
        left = most
        for wire in wires:
            while wire.up and left:
                left -= 1
                frames = wire.up.popleft()
                core.receive(wire.routing_id, decode(bytes(frames[0]), frames[1:]), sum(map(len, frames)), now)
        if left:
            core.expire(now)
        check_server(core)
        self.flush(now)
        for event in core.take_events():
            self._handle(event)
            self.flush(now)
        core.settle(now)
        self.flush(now)
        check_server(core)

    def _handle(self, event: SessionEvent) -> None:
        assert isinstance(event, (Opened, Received, Lost)), event
        side = self.sides[event.peer_id]
        side.story.append(type(event).__name__)
        if isinstance(event, Opened):
            assert side.session_id == 0, f"Opened twice: {side.story}"
            side.session_id, side.next_number = event.welcome.session_id, 0
        elif isinstance(event, Received):
            assert side.session_id != 0, f"Received outside a session: {side.story}"
            number = _number(event.message)
            self.ledger.given[side.session_id, "up"].append(number)
            self.say(event.peer_id, b"\0", refused_seq=event.seq if number % 3 == 2 else 0)
        else:
            assert side.session_id != 0, f"Lost twice: {side.story}"
            side.session_id = 0

    def say(self, peer_id: PeerId, outcomes: bytes, refused_seq: int = 0) -> None:
        side = self.sides[peer_id]
        if side.session_id:
            number = side.next_number
            self.ledger.sent[side.session_id, "down"].append(number)
            reply: Message = CancelReply(ids=_ids(number), outcomes=outcomes)
            if refused_seq:
                reply = Error(codes.UNKNOWN_TASK, refused_seq, False, str(number), "CAN-1")
            self.core.send(peer_id, reply)
            side.next_number += 1


class World:
    """Everything above, and what may happen to it. Each operation takes three small numbers."""

    def __init__(self, dialer_count: int) -> None:
        self.now = 100.0
        self.ledger = Ledger()
        self.nodes = [DialerNode(index, self.ledger) for index in range(dialer_count)]
        self.server = ServerNode(self.ledger, self.nodes)

    def do(self, name: str, a: int, b: int) -> None:
        getattr(self, f"_{name}")(a, b)
        self.ledger.check()

    def calm_down(self) -> None:
        """No more faults: within two leases everybody must have an open session that lost nothing."""
        for node in self.nodes:
            self.server.gate.set(node.peer_id, is_open=True)
        for _ in range(240):
            self._work(0, 0)
            self.now += 0.1
        self.ledger.check()
        for node in self.nodes:
            assert node.core.is_open, f"still {node.core.state.value}: {node.side.story[-8:]}"
            session_id = node.side.session_id
            assert session_id == self.server.sides[node.peer_id].session_id, "both roles know the same session"
            for direction in ("up", "down"):
                key = (session_id, direction)
                assert self.ledger.given[key] == self.ledger.sent[key], f"{key} arrived in full"
            assert node.core.unacknowledged[0] < 16 * 400, "what was acknowledged is forgotten"

    def _node(self, a: int) -> DialerNode:
        return self.nodes[a % len(self.nodes)]

    def _queue(self, a: int, b: int) -> deque[Frames]:
        wires = self._node(a).wires
        if not wires:
            return deque()
        wire = wires[-1 - (b // 2) % len(wires)]
        return wire.up if b % 2 else wire.down

    def _wait(self, a: int, b: int) -> None:
        self.now += 0.05 * (a + 1) * (1 + b)

    def _poll_dialer(self, a: int, b: int) -> None:
        self._node(a).poll(self.now, most=b + 1)

    def _poll_server(self, a: int, b: int) -> None:
        self.server.poll(self.now, most=a + 1, order=b)

    def _say_up(self, a: int, b: int) -> None:
        for _ in range(b + 1):
            self._node(a).say()

    def _say_down(self, a: int, b: int) -> None:
        for _ in range(b + 1):
            self.server.say(self._node(a).peer_id, b"\1")
        self.server.flush(self.now)

    def _work(self, a: int, b: int) -> None:
        """A round in which everything arrives."""
        for node in self.nodes:
            node.poll(self.now, most=1000)
        self.server.poll(self.now, most=1000)

    def _drop(self, a: int, b: int) -> None:
        queue = self._queue(a, b)
        if queue:
            del queue[b % len(queue)]

    def _repeat(self, a: int, b: int) -> None:
        """Not a Hello: a socket sends that once, and no connection delivers it to two lives of a server."""
        queue = self._queue(a, b)
        if queue and not isinstance(decode(bytes(queue[0][0]), queue[0][1:]).message, Hello):
            queue.append(queue[0])

    def _cut(self, a: int, b: int) -> None:
        """The connection breaks and mends; what was under way is gone."""
        wire = self._node(a).wire
        if wire is not None:
            wire.up.clear()
            wire.down.clear()

    def _hide(self, a: int, b: int) -> None:
        wire = self._node(a).wire
        if wire is not None:
            wire.is_half_open = not wire.is_half_open

    def _hold_back(self, a: int, b: int) -> None:
        """The server's role takes no more from a peer for now, or goes on."""
        self.server.gate.set(self._node(a).peer_id, is_open=b % 2 == 0)

    def _restart(self, a: int, b: int) -> None:
        self.server.restart()

    def _stall(self, a: int, b: int) -> None:
        """The server is stopped: the dialers go on alone for some seconds."""
        for _ in range(3 * (a + 1)):
            for node in self.nodes:
                node.poll(self.now, most=1000)
            self.now += 0.4
