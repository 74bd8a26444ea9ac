"""Virtual time, and links that delay, lose and double what they carry.

A link is one dialer's socket at one server. Each direction keeps its order, as TCP does; links know nothing of each
other, so messages of different peers overtake one another freely. What is lost stays lost: ZeroMQ reconnects silently
and so loses messages in the middle.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Protocol

from scaler_protocol.codec import Envelope, decode
from scaler_protocol.ids import RoutingId
from scaler_protocol.session.vanishing import LineFacts

Frames = Sequence[bytes | bytearray | memoryview]


@dataclass(slots=True)
class Weather:
    """Chances per message, and seconds. All zero but the delay is a fine day."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_seconds: float = 0.001
    slow_seconds: float = 0.0


class Clock:
    """A heap of things to do. `now` only moves when the next of them is later."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (max(when, self.now), next(self._order), do))

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        self.at(self.now + seconds, do)

    def step(self) -> bool:
        if not self._heap:
            return False
        self.now, _, do = heapq.heappop(self._heap)
        do()
        return True


class Server(Protocol):
    name: str
    is_up: bool

    def arrive(self, routing_id: RoutingId, envelope: Envelope, size: int) -> None: ...
    def connection_closed(self, routing_id: RoutingId) -> None: ...


class Dialing(Protocol):
    def arrive(self, socket: Socket, envelope: Envelope, size: int) -> None: ...


@dataclass(slots=True, eq=False)
class Socket:
    routing_id: RoutingId
    owner: Dialing
    owner_name: str
    server: Server
    is_open: bool = True
    #: when its host vanished, if it has
    vanished_at: float = math.inf
    #: nothing of a direction arrives before what was sent before it
    last_arrival: dict[str, float] = field(default_factory=lambda: {"up": 0.0, "down": 0.0})


class Network:
    def __init__(self, clock: Clock, rng: Random, note: Callable[[str, str, Envelope, str], None]) -> None:
        self.clock = clock
        self.weather = Weather()
        self._rng = rng
        self._note = note
        self._sockets: dict[RoutingId, Socket] = {}
        #: pairs of node names that cannot reach each other: since when, and until when
        self._partitions: dict[frozenset[str], tuple[float, float]] = {}
        #: the node that is vanishing just now: its system closes no connection
        self._vanishing = ""

    def connect(self, routing_id: RoutingId, owner: Dialing, owner_name: str, server: Server) -> Socket:
        socket = self._sockets[routing_id] = Socket(routing_id, owner, owner_name, server)
        return socket

    def close(self, socket: Socket) -> None:
        socket.is_open = False
        if socket.owner_name == self._vanishing:
            socket.vanished_at = self.clock.now
            return
        # The server's system learns it when it next sends there, or a little later from the closed connection: not as
        # long as neither reaches the other.
        seconds = self._rng.uniform(0, 0.05)
        _, until = self._partition_of(socket)
        if self.clock.now < until:
            self.clock.at(until, lambda: self._tell_closed(socket, seconds))
        else:
            self._tell_closed(socket, seconds)

    def _tell_closed(self, socket: Socket, seconds: float) -> None:
        self._sockets.pop(socket.routing_id, None)
        self.clock.after(seconds, lambda: socket.server.connection_closed(socket.routing_id))

    def part(self, one: str, other: str, seconds: float) -> None:
        self._partitions[frozenset((one, other))] = self.clock.now, self.clock.now + seconds

    def vanish(self, name: str, crash: Callable[[], None]) -> None:
        """A node with its host: its connections are never closed, and its system answers nothing any more."""
        self._vanishing = name
        crash()
        self._vanishing = ""

    def ask_often(self, routing_id: RoutingId) -> None:
        """It always does."""

    def host_of(self, routing_id: RoutingId) -> str:
        """Each node has one of its own."""
        socket = self._sockets.get(routing_id)
        return "" if socket is None else socket.owner_name

    def facts_of(self, routing_id: RoutingId) -> LineFacts | None:
        """As the server's system would tell them, which asks each second."""
        socket = self._sockets.get(routing_id)
        if socket is None:
            return None
        since, until = self._partition_of(socket)
        if self.clock.now >= socket.vanished_at:
            since, until = socket.vanished_at, math.inf
        # The last sign is up to a second older than the fault. The first question after it is over is answered.
        silent_since = since - since * 7919 % 1
        is_answered = self.clock.now >= silent_since + math.ceil(min(until, 1e9) - silent_since)
        seconds = 0.0 if is_answered else self.clock.now - silent_since
        return LineFacts(seconds, int(seconds), 2 * self.weather.delay_seconds)

    def send_up(self, socket: Socket, frames: Frames) -> None:
        self._carry(socket, "up", frames)

    def send_down(self, routing_id: RoutingId, frames: Frames) -> bool:
        """False: no such socket any more (EHOSTUNREACH)."""
        socket = self._sockets.get(routing_id)
        if socket is None:
            return False
        self._carry(socket, "down", frames)
        return True

    def _carry(self, socket: Socket, way: str, frames: Frames) -> None:
        envelope = decode(bytes(frames[0]), frames[1:])
        size = sum(len(frame) for frame in frames)
        if self._rng.random() < self.weather.loss or self._is_parted(socket):
            self._tell(socket, way, envelope, "LOST")
            return
        copies = 2 if self._rng.random() < self.weather.duplication else 1
        for _ in range(copies):
            delay = self.weather.delay_seconds * self._rng.uniform(0.2, 1.8)
            if self._rng.random() < 0.05:
                delay += self._rng.uniform(0, self.weather.slow_seconds)
            socket.last_arrival[way] = max(socket.last_arrival[way], self.clock.now + delay)
            self.clock.at(socket.last_arrival[way], lambda: self._deliver(socket, way, envelope, size))

    def _deliver(self, socket: Socket, way: str, envelope: Envelope, size: int) -> None:
        if way == "up" and not socket.server.is_up and socket.is_open:
            # ZeroMQ keeps it and gives it to the successor, before any Hello.
            self.clock.after(0.2, lambda: self._deliver(socket, way, envelope, size))
            return
        self._tell(socket, way, envelope, "")
        if way == "up":
            socket.server.arrive(socket.routing_id, envelope, size)
        elif socket.is_open:
            socket.owner.arrive(socket, envelope, size)

    def _is_parted(self, socket: Socket) -> bool:
        _, until = self._partition_of(socket)
        return self.clock.now < until

    def _partition_of(self, socket: Socket) -> tuple[float, float]:
        return self._partitions.get(frozenset((socket.owner_name, socket.server.name)), (0.0, 0.0))

    def _tell(self, socket: Socket, way: str, envelope: Envelope, remark: str) -> None:
        ends = (socket.owner_name, socket.server.name)
        source, destination = ends if way == "up" else ends[::-1]
        self._note(source, destination, envelope, remark)
