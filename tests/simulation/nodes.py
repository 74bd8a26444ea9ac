"""The shells of a simulated cluster: they do for the cores what sockets and loops do elsewhere, and decide nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scaler_protocol.codec import Envelope
from scaler_protocol.ids import PeerId, RoutingId
from scaler_protocol.messages import Hello, Message, Timers
from scaler_protocol.session import Lost, Rejected, SessionDialer, SessionEvent, SessionServer
from scaler_protocol.session.invariants import check_dialer, check_server

if TYPE_CHECKING:
    from tests.simulation.network import Socket
    from tests.simulation.world import World

TIMERS = Timers(heartbeat_seconds=0.5, lease_seconds=10.0)
#: A wake-up takes in what arrived within this time: batches form as they do under load.
WAKE_SECONDS = 0.002
#: A server that has rejected a node is dialed again after this time: it would answer the same at once.
REJECTED_SECONDS = 0.5


class Node:
    """Something that wakes up for messages and deadlines. `generation` makes wake-ups of an earlier life harmless."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_up = True
        self.life = 0
        self._wake_at: float | None = None
        self._stopped_until = 0.0

    def stop_for(self, seconds: float) -> None:
        """Its process is stopped: what arrives meanwhile is there when it goes on."""
        self._stopped_until = self.world.clock.now + seconds

    def wake(self, seconds: float | None = None) -> None:
        delay = self.world.rng.uniform(0, WAKE_SECONDS) if seconds is None else seconds
        when = self.world.clock.now + delay
        if not self.is_up or (self._wake_at is not None and self._wake_at <= when):
            return
        self._wake_at = when
        life = self.life

        def run() -> None:
            if self.is_up and self.life == life and self._wake_at == when:
                self._wake_at = None
                self._turn()

        self.world.clock.at(when, run)

    def _turn(self) -> None:
        now = self.world.clock.now
        if now < self._stopped_until:
            self.wake(self._stopped_until - now)
            return
        self.round(now)
        if not self.is_up:
            return
        self.check()
        deadline = self.next_deadline()
        if deadline is not None:
            # A little late, as real timers are; never in the past, or time would stand still.
            self.wake(max(0.0001, deadline - now + 0.0001))

    def new_id(self) -> PeerId:
        return PeerId(self.world.rng.randbytes(16))

    def round(self, now: float) -> None:
        raise NotImplementedError

    def next_deadline(self) -> float | None:
        raise NotImplementedError

    def check(self) -> None:
        raise NotImplementedError

    def crash(self) -> None:
        """Everything it knew is gone, and its sockets with it."""
        self.is_up = False
        self.life += 1
        self._wake_at = None


class Port:
    """A dialer's end of one conversation: the session core, and whichever socket it uses at present."""

    def __init__(
        self,
        node: Node,
        server: ServerNode | tuple[ServerNode, ...],
        hello: Hello,
        server_name: str,
        *,
        owner_name: str | None = None,
        is_renamed: bool = False,
    ) -> None:
        """Of several servers, the first is the one that is dialed (HSK-39). `is_renamed`: as another peer, if another
        Hello has taken its session."""
        self._node = node
        self._servers = server if isinstance(server, tuple) else (server,)
        self._owner_name = owner_name or node.name
        next_peer_id = node.new_id if is_renamed else None
        self.dialer = SessionDialer(hello=hello, server_name=server_name, next_peer_id=next_peer_id)
        self.dialer.backoff.address_count = len(self._servers)
        self._was_open = True
        self._inbox: list[tuple[Socket, Envelope, int]] = []
        self._socket: Socket | None = None
        self._generation = 0

    def arrive(self, socket: Socket, envelope: Envelope, size: int) -> None:
        self._inbox.append((socket, envelope, size))
        self._node.wake()

    def poll(self, now: float) -> list[SessionEvent]:
        self.dialer.begin(now)
        inbox, self._inbox = self._inbox, []
        for socket, envelope, size in inbox:
            if socket is self._socket:
                self.dialer.receive(envelope, size, now)
        self._was_open |= self.dialer.is_open
        self.dialer.expire(now)
        return self.dialer.take_events()

    def send(self, message: Message) -> None:
        self.dialer.send(message)

    def redial(self, event: Lost | Rejected) -> None:
        """Begin a new session. After a Rejected that takes a while, as in the real processes: without the pause, a node
        whose identity was replaced takes ten thousand turns in each virtual second."""
        if isinstance(event, Lost):
            self.dialer.redial()
            return
        node, life = self._node, self._node.life

        def again() -> None:
            if node.is_up and node.life == life:
                self.dialer.redial()
                node.wake()

        node.world.clock.after(REJECTED_SECONDS, again)

    def settle(self, now: float) -> None:
        # A client that has chosen a window smaller than what dialers leave unacknowledged acknowledges each message: it
        # would be given one for each of its heartbeats otherwise.
        self.dialer.settle(now, is_eager=self.dialer.hello.result_window_bytes > 0)
        if self.dialer.generation != self._generation:
            self._generation = self.dialer.generation
            self.close()
            if not self._was_open:
                self._servers = (*self._servers[1:], self._servers[0])
            self._was_open = False
            network, rng = self._node.world.network, self._node.world.rng
            routing_id = RoutingId(bytes([1 + rng.randrange(255)]) + rng.randbytes(15))
            self._socket = network.connect(routing_id, self, self._owner_name, self._servers[0])
        for frames in self.dialer.take_transmissions():
            assert self._socket is not None
            self._node.world.network.send_up(self._socket, frames)
        check_dialer(self.dialer)
        if self.dialer.has_work:
            self._node.wake()

    def close(self) -> None:
        if self._socket is not None:
            self._node.world.network.close(self._socket)
            self._socket = None


class ServerNode(Node):
    """A node with a ROUTER. Subclasses make the session server and handle what it says."""

    server: SessionServer

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._inbox: list[tuple[RoutingId, Envelope, int]] = []
        self._closed: list[RoutingId] = []

    def arrive(self, routing_id: RoutingId, envelope: Envelope, size: int) -> None:
        self._inbox.append((routing_id, envelope, size))
        self.wake()

    def connection_closed(self, routing_id: RoutingId) -> None:
        self._closed.append(routing_id)
        self.wake()

    def poll_server(self, now: float) -> list[SessionEvent]:
        self.server.begin(now)
        inbox, self._inbox = self._inbox, []
        for routing_id, envelope, size in inbox:
            self.server.receive(routing_id, envelope, size, now)
        self.server.expire(now)
        self.server.look_at_lines(self.world.network, now)
        return self.server.take_events()

    def settle_server(self, now: float) -> None:
        self.server.settle(now)
        for routing_id, frames in self.server.take_transmissions():
            if not self.world.network.send_down(routing_id, frames):
                self.server.unreachable(routing_id, now)
        check_server(self.server)
        if self.server.has_work:
            self.wake()

    def crash(self) -> None:
        super().crash()
        self._inbox.clear()


Later = Callable[[], None]


def earliest(*deadlines: float | None) -> float | None:
    return min((deadline for deadline in deadlines if deadline is not None), default=None)
